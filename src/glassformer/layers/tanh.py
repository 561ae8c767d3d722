"""Tanh: squash into -1..1.

forward    y = tanh(x)
backward   dx = dy * (1 - y^2)
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from glassformer.names import tag
from glassformer.shapes import Array, Float, Key


class Cache(NamedTuple):
    y: Float[Array, "*B"]


@dataclass(frozen=True)
class Tanh:
    def init(self, key: Key) -> None:
        return None

    def forward(self, params: None, x: Float[Array, "*B"]) -> tuple[Float[Array, "*B"], Cache]:
        y = tag("y", jnp.tanh(x))
        return y, Cache(y=y)

    def backward(self, params: None, cache: Cache, dy: Float[Array, "*B"]) -> tuple[Float[Array, "*B"], None]:
        dy = tag("dy", dy)
        # y = tanh(x)
        return dy * (1 - cache.y * cache.y), None
