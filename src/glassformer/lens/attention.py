"""Attention of any model: the attention weights of each block and head. And over an image: as panels, and as a picture.

The numbers come from the model's own forward, so they are those that made its answer. Abnar & Zuidema, 2020 (rollout).
Over a text: token_maps.py. Through an encoder and a decoder: attention_rollout.py.
"""

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from glassformer.errors import SettingError, ShapeError, UnknownNameError
from glassformer.layers import ClassToken, LinearAttention, Patches
from glassformer.lens.attention_kind import is_pattern
from glassformer.lens.maps import AttentionMaps
from glassformer.models.model import Network
from glassformer.names import last_word, recording, visiting
from glassformer.structure import structure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize

LEAST = 1 / 4  # of the even share: the dark end of the colours, for this and less
CLASS = "class"  # the token in front of the patches
Query = tuple[int, int] | Literal["mean", "class", "distillation"]  # a patch (row, column); the mean over all patches;
# a token in front of them


def attention_maps(model: Network, params: Any, x: Any, **keywords: Any) -> AttentionMaps:
    """Attention patterns (B, H, T, S) of a batch by name, in the order of forward; rows add up to 1, or to 0 where a
    query may look nowhere. `keywords` are what else the model's forward takes, such as keep. A T5 has three kinds:
    `encoder.blocks.0.attn.pattern`, `decoder.blocks.0.attn.pattern` and `decoder.blocks.0.cross.pattern`.

    >>> from glassformer.data import load as load_data
    >>> from glassformer.predict.run import load
    >>> run = load()
    >>> maps = attention_maps(run.model, run.params, load_data("mnist-mini").test.images[:3])
    >>> {name: pattern.shape for name, pattern in maps.items()}
    {'blocks.0.attn.pattern': (3, 1, 49, 49)}
    """
    seen: dict[str, Any] = {}
    with visiting(recording(seen)):
        model.to_look_at().forward(params, x, **keywords)
    return patterns(model, seen)


def patterns(model: Network, values: Mapping[str, Any]) -> AttentionMaps:
    """Those among the values of a forward; a model that has none is refused."""
    maps = AttentionMaps({name: np.asarray(value) for name, value in values.items() if is_pattern(name)})
    if not maps:
        linear = structure(model).first(LinearAttention)
        if linear:
            raise UnknownNameError(
                f"{linear.name}: linear attention has no attention weights to show: it sums up keys and values "
                "beforehand; plain, blockwise and banded attention have them"
            )
        raise UnknownNameError(
            f"{type(model).__name__} has no attention: no value in its forward is called 'pattern'; "
            "models with attention are patch_attention, vit, patch_block, tiny_iris, gpt, llama, bert and t5"
        )
    return maps


def rollout(maps: Mapping[str, np.ndarray]) -> np.ndarray:
    """How much of each input token is in each output token (B, T, T), if only attention and residuals mixed them.

    A_l = (mean over heads of pattern_l + I) / 2      half of what a block puts out is its input, through the residual
    A_l = A_l / its row sums                          1 already, but for rounding
    R   = A_L @ … @ A_2 @ A_1                         rows are output tokens, columns input tokens

    Of one stack of blocks; through an encoder and a decoder: attention_rollout.py.
    """
    product = None
    stacks = {re.sub(r"\d+", "", name) for name in maps}
    if len(stacks) > 1:
        raise ShapeError(
            f"rollout: maps of {len(stacks)} stacks came ({', '.join(maps)}), expected those of one; "
            "rolled() of glassformer.lens.attention_rollout goes through an encoder and a decoder"
        )
    for pattern in maps.values():
        mixed = pattern.mean(axis=1, dtype=np.float64) + np.eye(pattern.shape[-1])
        mixed /= mixed.sum(axis=-1, keepdims=True)
        product = mixed if product is None else mixed @ product
    if product is None:
        raise ShapeError("rollout: no attention maps came, expected those of at least one block")
    return product


@dataclass(frozen=True)
class Panel:
    """How much of the query's attention each patch receives: in one head of one block, or over all blocks."""

    name: str  # the value it was taken from: blocks.0.attn.pattern; or rollout
    title: str
    head: int | None  # None: all heads, in rollout
    shares: np.ndarray  # (rows, columns); with those of the tokens in front they add up to 1
    in_front: Mapping[str, float]  # what the tokens in front of the patches receive, by name: class, distillation

    def as_shares(self) -> "Panel":
        """Made to add up to 1: of what is no attention but has a size of its own, such as gradient x attention."""
        total = float(self.shares.sum()) + sum(self.in_front.values())
        if total == 0:
            return self
        in_front = {name: share / total for name, share in self.in_front.items()}
        return replace(self, shares=self.shares / total, in_front=in_front)


def panels(model: Network, maps: Mapping[str, np.ndarray], query: Query = "mean") -> list[list[Panel]]:
    """One row per block, one panel per head, of the first image of the batch."""
    return [
        [panel(model, name, f"block {b} · head {h}", h, pattern[0, h], query) for h in range(pattern.shape[1])]
        for b, (name, pattern) in enumerate(maps.items())
    ]


def chosen(blocks: list[list[Panel]], block: int | None, head: int | None) -> list[list[Panel]]:
    """Only one block, only one head of each."""
    for what, wanted, count in (("block", block, len(blocks)), ("head", head, len(blocks[0]))):
        if wanted is not None and not 0 <= wanted < count:
            raise SettingError(f"{what}: {wanted} came, expected 0 to {count - 1}")
    rows = blocks if block is None else [blocks[block]]
    return rows if head is None else [[row[head]] for row in rows]


def rollout_panel(model: Network, maps: Mapping[str, np.ndarray], query: Query = "mean") -> Panel:
    return panel(model, "rollout", "rollout over all blocks", None, rollout(maps)[0], query)


def panel(model: Network, name: str, title: str, head: int | None, pattern: np.ndarray, query: Query) -> Panel:
    """The row of the pattern (T, T) that belongs to the query, laid out over the image."""
    rows, columns = patch_grid(model)
    names = tokens_in_front(model)
    first = len(names)
    if query == "mean":
        received = pattern[first:].mean(axis=0)
    elif isinstance(query, str):
        if query not in names:
            raise SettingError(f"query: this model has no {query} token; ask for a patch (row,column) or for the mean")
        received = pattern[names.index(query)]
    else:
        row, column = query
        if not (0 <= row < rows and 0 <= column < columns):
            raise SettingError(f"query: patch {row},{column} came, expected rows 0-{rows - 1}, columns 0-{columns - 1}")
        received = pattern[first + row * columns + column]
    shares = received[first:].reshape(rows, columns)
    in_front = {name: float(share) for name, share in zip(names, received, strict=False)}
    return Panel(name=name, title=title, head=head, shares=shares, in_front=in_front)


def tokens_in_front(model: Network) -> tuple[str, ...]:
    """Of the patches: class, then distillation in a DeiT. Whoever comes last in forward stands first."""
    found = [node.name for node in structure(model).walk() if isinstance(node.layer, ClassToken)]
    if len(found) < 2:  # whatever it is called
        return (CLASS,) * len(found)
    return tuple(last_word(name).removesuffix("_token") for name in reversed(found))


def patch_grid(model: Network) -> tuple[int, int]:
    """Rows and columns of patches, the tokens of an image model with attention."""
    node = structure(model).first(Patches)
    if node is None:
        raise UnknownNameError(f"{type(model).__name__} does not cut images into patches")
    return node.layer.grid  # pyright: ignore[reportAttributeAccessIssue]


def picture(
    image: np.ndarray,
    blocks: list[list[Panel]],
    rolled: Panel | None = None,
    query: Query = "mean",
    title: str = "",
    scale: str = "attention",
) -> bytes:
    """A PNG: the image with its patches, one panel per block (down) and head (across), and the rollout if there is one.

    All panels share one scale of colour, in doublings of the even share: what each patch gets if nothing stands out.
    `scale` says what is shared out.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    drawn = [one for row in blocks for one in row] + ([rolled] if rolled else [])
    most = max(2.0, *(one.shares.max() * one.shares.size for one in drawn))
    colours = LogNorm(LEAST, most, clip=True)
    depth, heads = len(blocks), len(blocks[0])
    beside = depth == 1 and rolled is not None  # a single block has room beside it, several have it below the image
    below = depth > 1 and rolled is not None
    widths = [min(max(1.0, depth / 2), 2.0), *[1.0] * (heads + beside)]
    inches = min(max(14 / sum(widths), 1.0), 2.5)
    figure = Figure((inches * sum(widths) + 1.0, (inches + 0.28) * depth + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(depth, len(widths), width_ratios=widths)
    half = (depth + 1) // 2 if below else depth

    draw_image(figure.add_subplot(grid[:half, 0]), image, drawn[0].shares.shape, query)
    for b, row in enumerate(blocks):
        for h, one in enumerate(row):
            draw_panel(figure.add_subplot(grid[b, 1 + h]), image, one, query, colours)
    if rolled:
        draw_panel(figure.add_subplot(grid[half:, 0] if below else grid[0, -1]), image, rolled, query, colours)
    ticks = {LEAST * 2**n: f"{'' if n else '≤'}{LEAST * 2**n:g}x" for n in range(12) if LEAST * 2**n <= most}
    bar = figure.colorbar(figure.axes[1].images[0], ax=figure.axes, aspect=16 * depth, pad=0.012)
    bar.set_ticks(list(ticks), labels=list(ticks.values()), minor=False)
    bar.minorticks_off()
    bar.outline.set_visible(False)  # pyright: ignore
    bar.ax.tick_params(length=0, labelsize=8)
    bar.set_label(f"{scale}, in even shares", size=8)
    figure.suptitle(title, x=0.01, ha="left", size=10.5, linespacing=1.4)
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=150)
    return png.getvalue()


def draw_image(axes: "Axes", image: np.ndarray, grid: tuple[int, ...], query: Query) -> None:
    """The image as the model sees it, cut into its patches."""
    height, width = image.shape[:2]
    shown = image[..., 0] if image.shape[-1] == 1 else image
    axes.imshow(shown, cmap="gray", extent=(0, width, height, 0))
    lines = {"color": "white", "alpha": 0.35, "linewidth": 0.6}
    for y in np.linspace(0, height, grid[0] + 1)[1:-1]:
        axes.axhline(y, **lines)
    for x in np.linspace(0, width, grid[1] + 1)[1:-1]:
        axes.axvline(x, **lines)
    finish(axes, image, grid, query, f"the image in {grid[0]}x{grid[1]} patches")


def draw_panel(axes: "Axes", image: np.ndarray, one: Panel, query: Query, colours: "Normalize") -> None:
    """Patches in the colour of their share; the ink as an outline, so that it does not change the colours."""
    from matplotlib.patheffects import withStroke
    from PIL import Image
    from PIL.ImageFilter import GaussianBlur

    height, width, channels = image.shape
    grey = Image.fromarray(image[..., 0]) if channels == 1 else Image.fromarray(image).convert("L")
    axes.imshow(one.shares * one.shares.size, cmap="viridis", norm=colours, extent=(0, width, height, 0))
    fine = np.asarray(grey.resize((8 * width, 8 * height), Image.Resampling.BICUBIC).filter(GaussianBlur(4)))
    x, y = (np.arange(8 * side) / 8 + 1 / 16 for side in (width, height))
    if fine.max() > fine.min():
        level = 0.55 * fine.min() + 0.45 * fine.max()
        outline = axes.contour(x, y, fine, levels=[level], colors="white", linewidths=1.3)
        outline.set_path_effects([withStroke(linewidth=2.6, foreground="#00000080")])
    shares = "".join(f"\n{name} token {100 * share:.0f} %" for name, share in one.in_front.items())
    finish(axes, image, one.shares.shape, query, one.title + shares)


def finish(axes: "Axes", image: np.ndarray, grid: tuple[int, ...], query: Query, title: str) -> None:
    """Title, no axes, and a frame around the patch that asks."""
    from matplotlib.patches import Rectangle

    axes.set_title(title, size=9, pad=4)
    axes.set_axis_off()
    if not isinstance(query, str):
        high, wide = image.shape[0] / grid[0], image.shape[1] / grid[1]
        corner = (query[1] * wide, query[0] * high)
        axes.add_patch(Rectangle(corner, wide, high, fill=False, edgecolor="#ff6a00", linewidth=2, clip_on=False))
