"""Class token: put one learned token in front of the sequence, for the model to gather its answer in.

forward    y = concat(token, x)
backward   dtoken = first(dy)      dx = rest(dy)
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import expect
from glassformer.layers.precision import wide
from glassformer.names import tag
from glassformer.shapes import Array, Float, Key


class Params(NamedTuple):
    token: Float[Array, "C"]


@dataclass(frozen=True)
class ClassToken:
    width: int  # C

    def init(self, key: Key) -> Params:
        return Params(token=0.02 * jax.random.normal(key, (self.width,)))

    def forward(self, params: Params, x: Float[Array, "B T C"]) -> tuple[Float[Array, "B T+1 C"], None]:
        expect("class token", "width of the input", x.shape[-1], self.width)
        token = jnp.broadcast_to(params.token, (x.shape[0], 1, self.width))
        y = tag("y", jnp.concatenate([token, x], axis=1))
        return y, None

    def backward(
        self, params: Params, cache: None, dy: Float[Array, "B T+1 C"]
    ) -> tuple[Float[Array, "B T C"], Params]:
        dy = tag("dy", dy)
        # y = [token, x]
        dtoken, dx = jnp.sum(wide(dy[:, 0]), axis=0), dy[:, 1:]
        return dx, Params(token=dtoken)
