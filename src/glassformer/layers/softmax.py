"""Softmax: turn a row of scores into shares that add up to one.

forward    y = exp(x) / sum(exp(x))
backward   dx = y * (dy - sum(dy * y))

The maximum of the row is subtracted first, so that exp cannot overflow; it cancels, in the value and in the gradient. A
row that is -inf everywhere (nothing may be chosen) gives all zeros, and its gradient is zero: nothing is ever 0 / 0.
Derived in docs/derivations/softmax.md.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from glassformer.layers.precision import wide
from glassformer.names import tag
from glassformer.shapes import Array, Float, Key


class Cache(NamedTuple):
    y: Float[Array, "*B K"]


@dataclass(frozen=True)
class Softmax:
    def init(self, key: Key) -> None:
        return None

    def forward(self, params: None, x: Float[Array, "*B K"]) -> tuple[Float[Array, "*B K"], Cache]:
        y = tag("y", softmax(x))
        return y, Cache(y=y)

    def backward(self, params: None, cache: Cache, dy: Float[Array, "*B K"]) -> tuple[Float[Array, "*B K"], None]:
        dy = tag("dy", dy)
        return softmax_backward(cache.y, dy), None


def softmax(x: Float[Array, "*B K"]) -> Float[Array, "*B K"]:
    narrow, x = jnp.result_type(x), wide(x)
    highest = lax.stop_gradient(jnp.max(x, axis=-1, keepdims=True))
    highest = jnp.where(jnp.isneginf(highest), 0, highest)
    weight = jnp.exp(x - highest)
    total = jnp.sum(weight, axis=-1, keepdims=True)
    return (weight / jnp.where(total == 0, 1, total)).astype(narrow)


def softmax_backward(y: Float[Array, "*B K"], dy: Float[Array, "*B K"]) -> Float[Array, "*B K"]:
    # the subtracted sum is what raising one score takes from all the others
    narrow, y, dy = jnp.result_type(y), wide(y), wide(dy)
    return (y * (dy - jnp.sum(dy * y, axis=-1, keepdims=True))).astype(narrow)
