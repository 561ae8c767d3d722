"""Dynamic tanh: squash every number instead of normalising the token, with a learned steepness.

forward    squashed = tanh(alpha * x)      y = squashed * gain + bias
backward   dsquashed = dy * gain      dinner = dsquashed * (1 - squashed^2)      dx = dinner * alpha
           dalpha = sum_tokens(sum(dinner * x))      dgain = sum_tokens(dy * squashed)      dbias = sum_tokens(dy)

Zhu et al., 2025. C twin: dynamic_tanh.h.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from glassformer.names import tag
from glassformer.shapes import Array, Float, Key


class Params(NamedTuple):
    alpha: Float[Array, "1"]
    gain: Float[Array, "C"]
    bias: Float[Array, "C"]


class Cache(NamedTuple):
    x: Float[Array, "*B C"]
    squashed: Float[Array, "*B C"]


@dataclass(frozen=True)
class DynamicTanh:
    width: int  # C
    start: float = 0.5  # of alpha

    def init(self, key: Key) -> Params:
        return Params(alpha=jnp.full(1, self.start), gain=jnp.ones(self.width), bias=jnp.zeros(self.width))

    def forward(self, params: Params, x: Float[Array, "*B C"]) -> tuple[Float[Array, "*B C"], Cache]:
        x = tag("x", x)
        squashed = tag("squashed", jnp.tanh(params.alpha * x))
        y = tag("y", squashed * params.gain + params.bias)
        return y, Cache(x=x, squashed=squashed)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "*B C"]) -> tuple[Float[Array, "*B C"], Params]:
        dy, axes = tag("dy", dy), tuple(range(dy.ndim - 1))
        # y = squashed * gain + bias
        dgain, dbias = jnp.sum(dy * cache.squashed, axis=axes), jnp.sum(dy, axis=axes)
        dsquashed = tag("dsquashed", dy * params.gain)
        # squashed = tanh(alpha * x)
        dinner = dsquashed * (1 - cache.squashed**2)
        dalpha = jnp.sum(dinner * cache.x)[None]
        dx = tag("dx", dinner * params.alpha)
        return dx, Params(alpha=dalpha, gain=dgain, bias=dbias)
