"""Masks: what a query sees. A mask says it in a few words, so that only plain attention has to write out T x S of it.

keep            padding is not seen                    False at padding tokens of the sources, (B, S)
causal          itself and what came before            s <= t
window          what is near, itself included          |t - s| < window
global_tokens   with a window, the first tokens: they see all, and all see them
dense           anything else                          True where a query may look, (B, H, T, S), 1 where shared

A source is seen where all of these allow it. `window` is the same everywhere: of causal attention a window of 4 is the
token itself and the 3 before it. A mask chooses and is not a value: it has no gradient.
"""

from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import and_

import jax
import jax.numpy as jnp

from glassformer.errors import SettingError, ShapeError, at_least, expect
from glassformer.names import is_visited, tag
from glassformer.shapes import Array, Bool, Integer

AXES = "(B, H, T, S), with 1 where it is shared"


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["keep", "dense", "offset"],
    meta_fields=["causal", "window", "global_tokens"],
)
@dataclass(frozen=True)
class Mask:
    """
    >>> Mask(causal=True, window=2).whole(3, 3)[0, 0].tolist()
    [[True, False, False], [True, True, False], [False, True, True]]
    """

    keep: Bool[Array, "B S"] | None = None
    dense: Bool[Array, "#B #H #T #S"] | None = None
    offset: Integer[Array, "B"] | int | None = field(default=None, kw_only=True)  # of query 0, or of each row's; else 0
    causal: bool = False
    window: int | None = None
    global_tokens: int = 0

    def __post_init__(self) -> None:
        if self.window is not None:
            at_least("attention", 1, window=self.window)
        at_least("attention", 0, global_tokens=self.global_tokens)
        if self.global_tokens and self.window is None:
            raise SettingError(
                f"attention: {self.global_tokens} global tokens came without a window, where every token sees all; "
                "set window too, or global_tokens = 0"
            )

    @property
    def by_place(self) -> bool:
        """Whether it depends on where tokens stand."""
        return self.causal or self.window is not None

    @property
    def lengths(self) -> Integer[Array, "B"] | None:
        """How many tokens each row has, up to the last that is no padding; None where nothing says what is."""
        return None if self.keep is None else jnp.max(self.keep * jnp.arange(1, self.keep.shape[1] + 1), axis=1)

    def allows(self, t: Integer[Array, "..."], s: Integer[Array, "..."]) -> Bool[Array, "..."]:
        """Whether the query at place t may look at place s; both broadcast. Padding and `dense` are not asked."""
        seen = jnp.ones(jnp.broadcast_shapes(t.shape, s.shape), bool)
        if self.window is not None:
            near = jnp.abs(t - s) < self.window
            seen = near | (t < self.global_tokens) | (s < self.global_tokens) if self.global_tokens else near
        return seen & (s <= t) if self.causal else seen

    def whole(self, tokens: int, sources: int) -> Bool[Array, "#B #H #T #S"] | None:
        """All of it; None where everything is seen."""
        given = [] if self.dense is None else [self.dense]
        if self.keep is not None:
            given.append(padding(self.keep))
        if self.by_place:
            t = jnp.asarray(0 if self.offset is None else self.offset)[..., None, None] + jnp.arange(tokens)[:, None]
            seen = self.allows(t, jnp.arange(sources))
            given.append(seen[:, None] if seen.ndim == 3 else seen[None, None])
        return combined(*given)

    def kept(self, where: str, k: Array) -> Bool[Array, "B S"] | None:
        """The padding mask, after checking that it is one for these keys."""
        if self.keep is None:
            return None
        if self.keep.shape != k.shape[:2]:
            raise ShapeError(f"{where}: keep of shape {self.keep.shape} came, expected {k.shape[:2]}: (B, S)")
        return self.keep.astype(bool)

    def show(self, tokens: int, sources: int) -> None:
        """To the lens, from a layer that never builds it."""
        if is_visited() and (whole := self.whole(tokens, sources)) is not None:
            tag("mask", whole)


def as_mask(mask: Bool[Array, "#B #H #T #S"] | Mask | None) -> Mask:
    """An array is a dense mask; None allows everything."""
    return mask if isinstance(mask, Mask) else Mask(dense=mask)


def and_causal(mask: Bool[Array, "#B #H #T #S"] | Mask | None) -> Mask:
    """The same, of itself and what came before only."""
    return replace(as_mask(mask), causal=True)


def padding(keep: Bool[Array, "B S"]) -> Bool[Array, "B 1 1 S"]:
    """`keep` is True at real tokens and False at padding."""
    expect("padding mask", "number of axes", keep.ndim, 2, "(B, S): one row per sequence")
    return keep.astype(bool)[:, None, None, :]


def within(lengths: Integer[Array, "B"], tokens: int) -> Bool[Array, "B S"]:
    """The tokens to keep of sequences padded at the end: the first `length` of each row."""
    expect("padding mask", "number of axes of the lengths", lengths.ndim, 1, "one length per sequence")
    return jnp.arange(tokens) < lengths[:, None]


def combined(*masks: Bool[Array, "#B #H #T #S"]) -> Bool[Array, "#B #H #T #S"] | None:
    """What all of them allow; None, everything, where there are none."""
    for mask in masks:
        expect("masks", "number of axes of the mask", mask.ndim, 4, AXES)
    try:
        jnp.broadcast_shapes(*(mask.shape for mask in masks))
    except ValueError:
        came = " and ".join(str(mask.shape) for mask in masks)
        raise ShapeError(f"masks: {came} do not fit together; each is {AXES}") from None
    return reduce(and_, masks) if masks else None


def check(where: str, mask: Array, scores: Array) -> None:
    """Refuse a mask that does not fit the scores, before broadcasting makes something of it."""
    if mask.dtype != bool:
        raise ShapeError(f"{where}: the mask holds {mask.dtype}, expected bool: True where a query may look")
    if not all(size in (1, wanted) for size, wanted in zip(mask.shape, scores.shape, strict=True)):
        raise ShapeError(f"{where}: a mask of shape {mask.shape} came for scores of {scores.shape}; expected {AXES}")
