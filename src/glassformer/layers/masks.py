"""Masks: which query may look at which source. True: it may. Attention takes them as (B, H, T, S), 1 where shared.

causal     a token sees itself and what came before        (1, 1, T, S)
padding    padding tokens are not attended to              (B, 1, 1, S), from the tokens to keep
combined   what every one of several masks allows

A mask chooses and is not a value: it has no gradient. Where it is False, pattern is 0 and so is dscores.
"""

from functools import reduce
from operator import and_

import jax.numpy as jnp

from glassformer.errors import ShapeError, expect
from glassformer.shapes import Array, Bool, Integer

AXES = "(B, H, T, S), with 1 where it is shared"


def causal(tokens: int, sources: int | None = None, offset: int | Integer[Array, ""] = 0) -> Bool[Array, "1 1 T S"]:
    """Query t stands at place offset + t and sees the sources 0 … offset + t.

    >>> causal(2, 4, offset=1)[0, 0].tolist()
    [[True, True, False, False], [True, True, True, False]]
    """
    place = offset + jnp.arange(tokens)
    source = jnp.arange(tokens if sources is None else sources)
    return (source <= place[:, None])[None, None]


def padding(keep: Bool[Array, "B S"]) -> Bool[Array, "B 1 1 S"]:
    """The padding mask: `keep` is True at real tokens and False at padding."""
    expect("padding mask", "number of axes", keep.ndim, 2, "(B, S): one row per sequence")
    return keep.astype(bool)[:, None, None, :]


def within(lengths: Integer[Array, "B"], tokens: int) -> Bool[Array, "B S"]:
    """The tokens to keep of sequences padded at the end: the first `length` of each row."""
    expect("padding mask", "number of axes of the lengths", lengths.ndim, 1, "one length per sequence")
    return jnp.arange(tokens) < lengths[:, None]


def combined(*masks: Bool[Array, "#B #H #T #S"] | None) -> Bool[Array, "#B #H #T #S"] | None:
    """What all of them allow; None allows everything, and so does no mask at all."""
    given = [mask for mask in masks if mask is not None]
    for mask in given:
        expect("masks", "number of axes", mask.ndim, 4, AXES)
    shapes = [mask.shape for mask in given]
    try:
        jnp.broadcast_shapes(*shapes)
    except ValueError:
        came = " and ".join(map(str, shapes))
        raise ShapeError(f"masks: {came} do not fit together; each is {AXES}") from None
    return reduce(and_, given) if given else None


def check(where: str, mask: Array, scores: Array) -> None:
    """Refuse a mask that does not fit the scores, before broadcasting makes something of it."""
    expect(where, "number of axes of the mask", mask.ndim, 4, AXES)
    if mask.dtype != bool:
        raise ShapeError(f"{where}: the mask holds {mask.dtype}, expected bool: True where a query may look")
    if not all(size in (1, wanted) for size, wanted in zip(mask.shape, scores.shape, strict=True)):
        raise ShapeError(f"{where}: a mask of shape {mask.shape} came for scores of {scores.shape}; expected {AXES}")
