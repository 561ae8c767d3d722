"""Embedding: a table with one row per symbol; a token's vector is the row of its symbol.

forward    y = emb[ids]
backward   demb = onehot(ids, V)^T @ dy

A row's gradient is the sum of dy over every place where it was looked up; ids are integers and have no gradient.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import at_least
from glassformer.layers.layout import in_order
from glassformer.layers.precision import wide
from glassformer.names import tag
from glassformer.shapes import Array, Float, Integer, Key


class Params(NamedTuple):
    emb: Float[Array, "V C"]
    decayed = ()


class Cache(NamedTuple):
    ids: Integer[Array, "B T"]


@dataclass(frozen=True)
class Embedding:
    vocabulary: int  # V
    width: int  # C
    std: float = 0.02  # as in GPT-2 and BERT

    def __post_init__(self) -> None:
        at_least("embedding", 1, vocabulary=self.vocabulary, width=self.width)

    def init(self, key: Key) -> Params:
        return Params(emb=self.std * jax.random.normal(key, (self.vocabulary, self.width)))

    def forward(self, params: Params, x: Integer[Array, "B T"]) -> tuple[Float[Array, "B T C"], Cache]:
        ids = tag("ids", x)
        known = (ids >= 0) & (ids < self.vocabulary)  # an id outside the table shows at once, as NaN
        y = tag("y", in_order(jnp.where(known[..., None], params.emb[ids], jnp.nan)))
        return y, Cache(ids=ids)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T C"]) -> tuple[None, Params]:
        dy = tag("dy", dy)
        # y = emb[ids]
        demb = jnp.zeros_like(wide(params.emb)).at[cache.ids].add(wide(in_order(dy)))
        return None, Params(emb=demb)
