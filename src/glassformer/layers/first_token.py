"""First-token pool: the answer is read off position 0, where the class token stands.

forward    y = first(x)
backward   dx = fill(dy, T)

The gradient stands at position 0, zeros elsewhere.
"""

from dataclasses import dataclass

import jax.numpy as jnp

from glassformer.layers.mean_pool import Cache
from glassformer.names import tag
from glassformer.shapes import Array, Float, Key, Static


@dataclass(frozen=True)
class FirstToken:
    def init(self, key: Key) -> None:
        return None

    def forward(self, params: None, x: Float[Array, "B T C"]) -> tuple[Float[Array, "B C"], Cache]:
        y = tag("y", x[:, 0])
        return y, Cache(tokens=Static(x.shape[1]))

    def backward(self, params: None, cache: Cache, dy: Float[Array, "B C"]) -> tuple[Float[Array, "B T C"], None]:
        dy = tag("dy", dy)
        # y = x[:, 0]
        B, C = dy.shape
        dx = jnp.zeros((B, cache.tokens.value, C), dy.dtype).at[:, 0].set(dy)
        return dx, None
