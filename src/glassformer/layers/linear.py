"""Linear: every token through the same matrix.

forward    y = x @ w + b
backward   dx = dy @ w^T      dw = x^T @ dy      db = sum_tokens(dy)
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import at_least, expect
from glassformer.layers.precision import wide, wide_product
from glassformer.names import tag
from glassformer.shapes import Array, Float, Key


class Params(NamedTuple):
    w: Float[Array, "I O"]
    b: Float[Array, "O"] | None


class Cache(NamedTuple):
    x: Float[Array, "*B I"]


@dataclass(frozen=True)
class Linear:
    inputs: int  # I
    outputs: int  # O
    bias: bool = True

    def __post_init__(self) -> None:
        at_least("linear", 1, inputs=self.inputs, outputs=self.outputs)

    def init(self, key: Key) -> Params:
        b = jnp.zeros(self.outputs) if self.bias else None
        return Params(w=xavier(key, self.inputs, self.outputs), b=b)

    def forward(self, params: Params, x: Float[Array, "*B I"]) -> tuple[Float[Array, "*B O"], Cache]:
        expect("linear", "width of the input", x.shape[-1], self.inputs)
        x = tag("x", x)
        y = tag("y", project(x, params.w, params.b))
        return y, Cache(x=x)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "*B O"]) -> tuple[Float[Array, "*B I"], Params]:
        dy = tag("dy", dy)
        # y = x @ w + b
        dx, dw, db = project_backward(cache.x, params.w, params.b, dy)
        return tag("dx", dx), Params(w=dw, b=db)


def xavier(key: Key, fan_in: int, fan_out: int) -> Float[Array, "I O"]:
    """Uniform in ±sqrt(6 / (fan_in + fan_out)): keeps the variance of activations and of gradients about level."""
    limit = (6 / (fan_in + fan_out)) ** 0.5
    return jax.random.uniform(key, (fan_in, fan_out), minval=-limit, maxval=limit)


def project(x: Float[Array, "*B I"], w: Float[Array, "I O"], b: Float[Array, "O"] | None) -> Float[Array, "*B O"]:
    """x @ w + b, shared by every layer that owns a matrix."""
    return x @ w if b is None else x @ w + b


def project_backward(
    x: Float[Array, "*B I"], w: Float[Array, "I O"], b: Float[Array, "O"] | None, dy: Float[Array, "*B O"]
) -> tuple[Float[Array, "*B I"], Float[Array, "I O"], Float[Array, "O"] | None]:
    """The gradients of `project`: (dx, dw, db). Those of weights are wide."""
    tokens_x, tokens_dy = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    dx = dy @ w.T
    dw = wide_product(tokens_x.T, tokens_dy)
    db = None if b is None else jnp.sum(wide(tokens_dy), axis=0)
    return dx, dw, db
