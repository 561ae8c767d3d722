"""GELU by tanh: the approximation that GPT-2 was trained with.

forward    u = sqrt(2 / pi) * (x + 0.044715 * x^3)      gate = (1 + tanh(u)) / 2      y = x * gate
backward   dgate = dy * x      du = dgate * 2 * gate * (1 - gate)
           dx = dy * gate + du * sqrt(2 / pi) * (1 + 3 * 0.044715 * x^2)
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from glassformer.layers.precision import as_stored, is_narrow, wide
from glassformer.names import tag
from glassformer.shapes import Array, Float, Key

CUBIC = 0.044715  # fitted by Hendrycks and Gimpel
OUTER = math.sqrt(2 / math.pi)


class Cache(NamedTuple):
    x: Float[Array, "*B"]
    gate: Float[Array, "*B"] | None  # the share of x that passes; None in bf16, where making it again is quicker


@dataclass(frozen=True)
class GELUTanh:
    def init(self, key: Key) -> None:
        return None

    def forward(self, params: None, x: Float[Array, "*B"]) -> tuple[Float[Array, "*B"], Cache]:
        x = tag("x", x)
        gate = tag("gate", gate_of(wide(x)))
        y = tag("y", (wide(x) * gate).astype(jnp.result_type(x)))
        return y, Cache(x=x, gate=None if is_narrow(x.dtype) else gate)

    def backward(self, params: None, cache: Cache, dy: Float[Array, "*B"]) -> tuple[Float[Array, "*B"], None]:
        dy = tag("dy", dy)
        narrow, dy = jnp.result_type(dy), wide(dy)
        x, outer = wide(cache.x), as_stored(jnp.asarray(OUTER, dy.dtype), narrow)
        gate = gate_of(x, outer) if cache.gate is None else cache.gate
        # y = x * gate
        dgate = tag("dgate", dy * x)
        # gate = (1 + tanh(u)) / 2, u = OUTER * (x + CUBIC * x^3)
        du = dgate * 2 * gate * (1 - gate)
        dx = tag("dx", (dy * gate + du * OUTER * (1 + 3 * CUBIC * x * x)).astype(narrow))
        return dx, None


def gate_of(x: Float[Array, "*B"], outer: Float[Array, ""] | float = OUTER) -> Float[Array, "*B"]:
    return 0.5 * (1 + jnp.tanh(outer * (x + CUBIC * x * x * x)))
