"""Unit norm: bring each vector to a Euclidean length of 1, so that a dot product is a cosine.

forward    norm_inv = 1 / sqrt(sum(x^2) + eps)      y = x * norm_inv
backward   dx = norm_inv * (dy - y * sum(dy * y))

What would make a vector longer is taken out of its gradient: only its direction counts. Derived
in docs/derivations/info_nce.md.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from glassformer.layers.precision import wide
from glassformer.names import tag
from glassformer.shapes import Array, Float, Key


class Cache(NamedTuple):
    y: Float[Array, "*B C"]
    norm_inv: Float[Array, "*B 1"]  # 1 / length of each vector


@dataclass(frozen=True)
class UnitNorm:
    eps: float = 1e-24  # a vector of zeros stays one

    def init(self, key: Key) -> None:
        return None

    def forward(self, params: None, x: Float[Array, "*B C"]) -> tuple[Float[Array, "*B C"], Cache]:
        norm_inv = tag("norm_inv", lax.rsqrt(jnp.sum(wide(x) ** 2, axis=-1, keepdims=True) + self.eps))
        y = tag("y", (x * norm_inv).astype(jnp.result_type(x)))
        return y, Cache(y=y, norm_inv=norm_inv)

    def backward(self, params: None, cache: Cache, dy: Float[Array, "*B C"]) -> tuple[Float[Array, "*B C"], None]:
        dy = tag("dy", dy)
        # y = x * norm_inv, where norm_inv depends on x too: the subtracted term is its share
        y = wide(cache.y)
        dx = cache.norm_inv * (dy - y * jnp.sum(dy * y, axis=-1, keepdims=True))
        return dx.astype(jnp.result_type(dy)), None
