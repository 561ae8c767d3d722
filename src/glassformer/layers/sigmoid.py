"""Sigmoid: squash into 0..1.

forward    y = 1 / (1 + exp(-x))
backward   dx = dy * y * (1 - y)
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax

from glassformer.names import tag
from glassformer.shapes import Array, Float, Key


class Cache(NamedTuple):
    y: Float[Array, "*B"]


@dataclass(frozen=True)
class Sigmoid:
    def init(self, key: Key) -> None:
        return None

    def forward(self, params: None, x: Float[Array, "*B"]) -> tuple[Float[Array, "*B"], Cache]:
        y = tag("y", jax.nn.sigmoid(x))
        return y, Cache(y=y)

    def backward(self, params: None, cache: Cache, dy: Float[Array, "*B"]) -> tuple[Float[Array, "*B"], None]:
        dy = tag("dy", dy)
        # y = 1 / (1 + exp(-x))
        return dy * cache.y * (1 - cache.y), None
