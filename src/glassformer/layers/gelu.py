"""GELU, exact: x times the probability that a standard normal variable is below x.

forward    cdf = (1 + erf(x / sqrt(2))) / 2      y = x * cdf
backward   pdf = exp(-x^2 / 2) / sqrt(2 * pi)    dx = dy * (cdf + x * pdf)

pdf is the derivative of cdf. Hendrycks and Gimpel, 2016. For the approximation by tanh see gelu_tanh.py.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from glassformer.layers.precision import as_stored, wide
from glassformer.names import tag
from glassformer.shapes import Array, Float, Key

ROOT = math.sqrt(2)


class Cache(NamedTuple):
    x: Float[Array, "*B"]


@dataclass(frozen=True)
class GELU:
    def init(self, key: Key) -> None:
        return None

    def forward(self, params: None, x: Float[Array, "*B"]) -> tuple[Float[Array, "*B"], Cache]:
        x = tag("x", x)
        y = tag("y", (x * normal_cdf(wide(x))).astype(jnp.result_type(x)))
        return y, Cache(x=x)

    def backward(self, params: None, cache: Cache, dy: Float[Array, "*B"]) -> tuple[Float[Array, "*B"], None]:
        dy = tag("dy", dy)
        narrow, dy = jnp.result_type(dy), wide(dy)
        x, root = wide(cache.x), as_stored(jnp.asarray(ROOT, dy.dtype), narrow)
        # y = x * cdf(x): x by itself, and x inside cdf
        pdf = jnp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        dx = tag("dx", (dy * (normal_cdf(x, root) + x * pdf)).astype(narrow))
        return dx, None


def normal_cdf(x: Float[Array, "*B"], root: Float[Array, ""] | float = ROOT) -> Float[Array, "*B"]:
    return 0.5 * (1 + lax.erf(x / root))
