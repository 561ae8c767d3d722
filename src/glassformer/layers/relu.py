"""ReLU: keep what is positive.

forward    y = max(x, 0)
backward   dx = dy * step(y)

step is 1 where y > 0, else 0.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from glassformer.names import tag
from glassformer.shapes import Array, Float, Key


class Cache(NamedTuple):
    y: Float[Array, "*B"]


@dataclass(frozen=True)
class ReLU:
    def init(self, key: Key) -> None:
        return None

    def forward(self, params: None, x: Float[Array, "*B"]) -> tuple[Float[Array, "*B"], Cache]:
        y = tag("y", jnp.maximum(x, 0))
        return y, Cache(y=y)

    def backward(self, params: None, cache: Cache, dy: Float[Array, "*B"]) -> tuple[Float[Array, "*B"], None]:
        dy = tag("dy", dy)
        # y = max(x, 0)
        return jnp.where(cache.y > 0, dy, 0), None
