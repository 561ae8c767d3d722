"""Attention over tokens as a picture: blocks down, heads across, tokens on both axes of every panel, one colour scale.

Sizes are inches, but where they are points. What a token may not look at is left grey.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.lens.attention_kind import Kind
from glassformer.lens.token_maps import HEADINGS, Place, TokenMap, by_kind, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = (2.4, 4.6)  # what a panel takes: the more of them stand side by side, the less
PITCH = (0.11, 0.34)  # what a token takes: so that its label can be read; and no more than that needs
WIDEST = 36.0  # panels side by side; beyond it tokens get less room, and not all of them a label
SMALLEST, LARGEST = 4.5, 9.0  # points of a label
LONGEST = 12  # characters of a label
LETTER = 0.61  # of the size of a letter, its width
TITLE, HEADING, NAME = 0.24, 0.36, 0.22  # a line of the title, the heading of a kind, the name of a panel
GAP, EDGE, BAR = 0.2, 0.22, 0.95  # between panels, around the picture, colours and their labels
POINT = 1 / 72
ASKED, UNSEEN, QUIET = "#ff6a00", "#eeeef2", "#55555f"


def token_picture(maps: Sequence[TokenMap], title: str = "", place: Place = "mean", scale: str = "attention") -> bytes:
    """A PNG. `place`: the row of one token is framed. `scale` names the colours: attention goes up to all of a row,
    anything else to the largest number of all heads; a rollout, which has sizes of its own, to its largest."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import PowerNorm
    from matplotlib.figure import Figure

    letters = Letters(maps)
    sections = [Section(kind, own, letters) for kind, own in by_kind(maps)]
    lines = title.splitlines()
    head = EDGE + TITLE * len(lines)
    panels = max(section.width for section in sections)
    longest = max((len(line) for line in lines), default=0) * 0.085
    width = EDGE + max(panels + BAR, longest) + EDGE
    height = head + sum(section.height for section in sections) + EDGE
    is_share = scale == "attention"
    heads = max((float(one.weights.max()) for one in maps if one.head is not None), default=0.0)
    norm = PowerNorm(1 / 2 if is_share else 1 / 3, 0, 1)

    figure = Figure((width, height), facecolor="white")
    FigureCanvasAgg(figure)
    for i, line in enumerate(lines):
        y = 1 - (EDGE + TITLE * i) / height
        figure.text(EDGE / width, y, letters.plain(line), va="top", size=10.5, family=letters.prose)
    top, image = head, None
    for section in sections:
        figure.text(EDGE / width, 1 - (top + 0.12) / height, section.heading, va="top", size=9, color=QUIET)
        for one, x, y in section.places():
            wide, tall = section.size
            box = ((EDGE + x) / width, 1 - (top + y + tall) / height, wide / width, tall / height)
            most = heads if one.head is not None else float(one.weights.max())
            image = draw(figure.add_axes(box), one, section, norm, 1.0 if is_share or most <= 0 else most, place)
        top += section.height
    begin = head + HEADING + sections[0].above
    tall = min(height - begin - GAP - EDGE, 3.0)
    box = ((EDGE + panels + 0.25) / width, 1 - (begin + tall) / height, 0.13 / width, tall / height)
    colour_bar(figure, figure.add_axes(box), image, scale if is_share else f"{scale}, of the largest")
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=150 if max(width, height) < 24 else 100)
    return png.getvalue()


@dataclass(frozen=True, eq=False)
class Section:
    """All panels of one kind: blocks down, heads across, and what is of all blocks beside the first of them."""

    kind: Kind
    maps: list[TokenMap]
    letters: "Letters"

    @cached_property
    def rows(self) -> list[list[TokenMap]]:
        names = dict.fromkeys(one.name for one in self.maps if one.head is not None)
        rows = [[one for one in self.maps if one.name == name and one.head is not None] for name in names] or [[]]
        return [[*rows[0], *(one for one in self.maps if one.head is None)], *rows[1:]]

    @property
    def heading(self) -> str:
        return HEADINGS[self.kind]

    @property
    def across(self) -> int:
        return max(map(len, self.rows))

    @cached_property
    def pitch(self) -> float:
        T, S = self.maps[0].weights.shape
        panel = float(np.clip(10 / self.across, *PANEL))
        return min(float(np.clip(panel / max(T, S), *PITCH)), WIDEST / self.across / S)

    @property
    def points(self) -> float:
        return float(np.clip(self.pitch / POINT * 0.8, SMALLEST, LARGEST))

    @property
    def every(self) -> int:
        """So many tokens have one label together."""
        return int(np.ceil(self.points * POINT * 1.15 / self.pitch))

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a panel."""
        T, S = self.maps[0].weights.shape
        return S * self.pitch, T * self.pitch

    def is_upright(self, name: str) -> bool:
        """Whether the name of a column has room beside its neighbours'."""
        return self.long(name) <= self.pitch * self.every * 0.98

    def long(self, name: str) -> float:
        return self.letters.length(name) * LETTER * self.points * POINT

    @cached_property
    def left(self) -> float:
        return max(map(self.long, self.maps[0].rows)) + 0.08

    @cached_property
    def above(self) -> float:
        """Room for the names of the columns and of the panel."""
        turned = [self.long(name) + 0.04 for name in self.maps[0].columns if not self.is_upright(name)]
        return NAME + max([self.points * POINT * 1.4, *turned])

    @property
    def width(self) -> float:
        return self.across * (self.left + self.size[0] + GAP) - GAP

    @property
    def height(self) -> float:
        return HEADING + len(self.rows) * (self.above + self.size[1] + GAP)

    def places(self) -> list[tuple[TokenMap, float, float]]:
        """Each panel with its left and upper edge, from those of the section."""
        wide, tall = self.left + self.size[0] + GAP, self.above + self.size[1] + GAP
        return [
            (one, self.left + h * wide, HEADING + self.above + b * tall)
            for b, row in enumerate(self.rows)
            for h, one in enumerate(row)
        ]


def draw(axes: "Axes", one: TokenMap, section: Section, norm: Any, most: float, place: Place) -> Any:
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    T, S = one.weights.shape
    colours = colormaps["viridis"].with_extremes(bad=UNSEEN)
    image = axes.imshow(np.ma.masked_where(~one.seen(), one.weights / most), cmap=colours, norm=norm, aspect="auto")
    style = {"size": section.points, "family": section.letters.families}
    columns, rows = range(0, S, section.every), range(0, T, section.every)
    axes.set_xticks(columns, [section.letters.label(one.columns[i]) for i in columns], **style)
    axes.set_yticks(rows, [section.letters.label(one.rows[i]) for i in rows], **style)
    axes.tick_params(length=0, pad=2, top=True, labeltop=True, bottom=False, labelbottom=False, colors="#33333b")
    for i, label in zip(columns, axes.get_xticklabels(), strict=True):
        label.set_rotation(0 if section.is_upright(one.columns[i]) else 90)
    for side in axes.spines.values():
        side.set(linewidth=0.5, color="#9a9aa5")
    axes.set_title(one.title, size=8.5, loc="left", pad=(section.above - NAME) / POINT + 3.5)
    if place != "mean":
        corner = (-0.5, (T - 1 if place == "last" else place) - 0.5)
        axes.add_patch(Rectangle(corner, S, 1, fill=False, edgecolor=ASKED, linewidth=1.4, clip_on=False, zorder=5))
    return image


def colour_bar(figure: "Figure", axes: "Axes", image: Any, label: str) -> None:
    bar = figure.colorbar(image, cax=axes)
    ticks = [0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1]
    bar.set_ticks(ticks, labels=[f"{100 * tick:g} %" for tick in ticks])
    bar.outline.set_visible(False)  # pyright: ignore
    bar.ax.tick_params(length=0, labelsize=7.5)
    bar.set_label(label, size=8)


class Letters:
    """Fonts that have the letters of all labels; a letter that none of them has is drawn as an empty box."""

    def __init__(self, maps: Sequence[TokenMap]) -> None:
        wanted = {letter for one in maps for name in (*one.rows, *one.columns) for letter in shown(name)}
        self.families, self.known = families_for(wanted)
        self.prose = [*self.families[1:], self.families[0]]

    def label(self, name: str) -> str:
        name = shown(name)
        return self.plain(name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…")

    def plain(self, text: str) -> str:
        """What can be drawn; `$` would begin a formula."""
        return "".join(letter if letter in self.known else "□" for letter in text).replace("$", r"\$")

    def length(self, name: str) -> int:
        return min(len(shown(name)), LONGEST)


def families_for(letters: set[str]) -> tuple[list[str], set[str]]:
    """Two fonts that come with matplotlib, then whatever the machine has for what they lack; and all they have."""
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    plain = [font for font in font_manager.fontManager.ttflist if font.style == "normal" and font.weight == 400]
    fonts = {font.name: font.fname for font in plain if "Last Resort" not in font.name}  # which draws all as boxes
    own = ["DejaVu Sans Mono", "DejaVu Sans"]
    families: list[str] = []
    known: set[str] = set()
    for name in [*own, *sorted(set(fonts) - set(own))]:
        if name not in own and letters <= known:
            break
        there = {chr(code) for code in FT2Font(fonts[name]).get_charmap()}
        if name in own or (letters - known) & there:
            families.append(name)
            known |= there
    return families, known
