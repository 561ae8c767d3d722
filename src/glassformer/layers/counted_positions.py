"""Counted positions: padding is not counted, and the first token that is no padding reads the row `first` of the table.

forward    y = x + pos[places]
backward   dx = dy      dpos = onehot(places, M)^T @ dy

places are first, first + 1, … along the tokens that are kept; padding reads the row before the first. RoBERTa, where
`first` is the number of the padding symbol and one more.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from glassformer.errors import ShapeError, at_least, expect
from glassformer.layers.layout import in_order
from glassformer.layers.positions import Uniform
from glassformer.layers.precision import wide
from glassformer.names import tag
from glassformer.shapes import Array, Bool, Float, Integer, Key


class Params(NamedTuple):
    pos: Float[Array, "M C"]
    decayed = ()


class Cache(NamedTuple):
    places: Integer[Array, "B T"]


@dataclass(frozen=True)
class CountedPositions:
    tokens: int  # M: rows of the table
    width: int  # C
    first: int = 1  # of the rows that are places; those before it are padding's, or nobody's

    def __post_init__(self) -> None:
        at_least("counted positions", 1, first=self.first)

    def init(self, key: Key) -> Params:
        return Params(pos=Uniform().table(key, self.tokens, self.width))

    def forward(
        self, params: Params, x: Float[Array, "B T C"], *, keep: Bool[Array, "B T"] | None = None
    ) -> tuple[Float[Array, "B T C"], Cache]:
        """`keep` is the padding mask, False at padding."""
        expect("counted positions", "width of the input", x.shape[-1], self.width)
        room, came = self.tokens - self.first, x.shape[1]
        if came > room:
            raise ShapeError(f"counted positions: {came} tokens came, the table has {room} rows from {self.first} on")
        counted = jnp.ones(x.shape[:2], jnp.int32) if keep is None else keep.astype(jnp.int32)
        places = tag("places", self.first - 1 + counted * jnp.cumsum(counted, axis=1))
        y = tag("y", in_order(x + params.pos[places]))
        return y, Cache(places=places)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T C"]) -> tuple[Float[Array, "B T C"], Params]:
        dy = tag("dy", dy)
        # y = x + pos[places]
        return dy, Params(pos=jnp.zeros_like(wide(params.pos)).at[cache.places].add(wide(in_order(dy))))
