"""Mean pool: one vector for the whole sequence, the mean of its tokens.

forward    y = mean_tokens(x)
backward   dx = dy / T

Every token receives the same gradient.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from glassformer.layers.precision import wide
from glassformer.names import tag
from glassformer.shapes import Array, Float, Key, Static


class Cache(NamedTuple):
    tokens: Static  # T


@dataclass(frozen=True)
class MeanPool:
    def init(self, key: Key) -> None:
        return None

    def forward(self, params: None, x: Float[Array, "B T C"]) -> tuple[Float[Array, "B C"], Cache]:
        y = tag("y", jnp.mean(wide(x), axis=1).astype(jnp.result_type(x)))
        return y, Cache(tokens=Static(x.shape[1]))

    def backward(self, params: None, cache: Cache, dy: Float[Array, "B C"]) -> tuple[Float[Array, "B T C"], None]:
        dy = tag("dy", dy)
        # y = sum of x over the tokens / T
        B, C = dy.shape
        dx = jnp.broadcast_to(dy[:, None, :] / cache.tokens.value, (B, cache.tokens.value, C))
        return dx, None
