"""SiLU (swish): x times its own sigmoid.

forward    gate = sigmoid(x)      y = x * gate
backward   dgate = dy * x         dx = dy * gate + dgate * gate * (1 - gate)
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax

from glassformer.names import tag
from glassformer.shapes import Array, Float, Key


class Cache(NamedTuple):
    x: Float[Array, "*B"]
    gate: Float[Array, "*B"]  # the share of x that passes


@dataclass(frozen=True)
class SiLU:
    def init(self, key: Key) -> None:
        return None

    def forward(self, params: None, x: Float[Array, "*B"]) -> tuple[Float[Array, "*B"], Cache]:
        x = tag("x", x)
        gate = tag("gate", jax.nn.sigmoid(x))
        y = tag("y", x * gate)
        return y, Cache(x=x, gate=gate)

    def backward(self, params: None, cache: Cache, dy: Float[Array, "*B"]) -> tuple[Float[Array, "*B"], None]:
        dy = tag("dy", dy)
        x, gate = cache.x, cache.gate
        # y = x * gate
        dgate = tag("dgate", dy * x)
        # gate = sigmoid(x)
        dx = tag("dx", dy * gate + dgate * gate * (1 - gate))
        return dx, None
