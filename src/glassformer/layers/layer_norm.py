"""Layer normalisation: bring each token to mean 0 and variance 1, then apply a learned gain and bias.

forward    centred = x - mean(x)      std_inv = 1 / sqrt(mean(centred^2) + eps)
           xhat = centred * std_inv   y = xhat * gain + bias
backward   dxhat = dy * gain          dx = std_inv * (dxhat - mean(dxhat) - xhat * mean(dxhat * xhat))
           dgain = sum_tokens(dy * xhat)      dbias = sum_tokens(dy)

Derived in docs/derivations/layer_norm.md.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from glassformer.errors import at_least, expect
from glassformer.layers.precision import as_stored, wide
from glassformer.names import tag
from glassformer.shapes import Array, Float, Key


class Params(NamedTuple):
    gain: Float[Array, "C"]
    bias: Float[Array, "C"]
    wide = ("gain", "bias")  # next to 1 a bfloat16 has steps of 0.008: what a gain learns would be lost


class Cache(NamedTuple):
    xhat: Float[Array, "*B C"]  # input at mean 0 and variance 1, before gain and bias
    std_inv: Float[Array, "*B 1"]  # 1 / standard deviation of each token


@dataclass(frozen=True)
class LayerNorm:
    width: int  # C
    eps: float = 1e-5

    def __post_init__(self) -> None:
        at_least("layer norm", 1, width=self.width)

    def init(self, key: Key) -> Params:
        return Params(gain=jnp.ones(self.width), bias=jnp.zeros(self.width))

    def forward(self, params: Params, x: Float[Array, "*B C"]) -> tuple[Float[Array, "*B C"], Cache]:
        expect("layer norm", "width of the input", x.shape[-1], self.width)
        narrow, x = jnp.result_type(x), wide(x)
        centred = x - as_stored(jnp.mean(x, axis=-1, keepdims=True), narrow)
        std_inv = lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + self.eps)
        std_inv = tag("std_inv", as_stored(std_inv, narrow))
        xhat = tag("xhat", centred * std_inv)
        y = tag("y", (xhat * params.gain + params.bias).astype(narrow))
        return y, Cache(xhat=xhat.astype(narrow), std_inv=std_inv)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "*B C"]) -> tuple[Float[Array, "*B C"], Params]:
        dy = tag("dy", dy)
        narrow, dy = jnp.result_type(dy), wide(dy)
        xhat, std_inv = wide(cache.xhat), cache.std_inv
        # y = xhat * gain + bias
        dgain = jnp.sum(dy * xhat, axis=leading(dy))
        dbias = jnp.sum(dy, axis=leading(dy))
        dxhat = tag("dxhat", dy * params.gain)
        # xhat = (x - mean) * std_inv: the first subtracted term is the share of mean, the second that of std_inv
        through_mean = jnp.mean(dxhat, axis=-1, keepdims=True)
        through_std = xhat * jnp.mean(dxhat * xhat, axis=-1, keepdims=True)
        dx = std_inv * (dxhat - through_mean - through_std)
        return dx.astype(narrow), Params(gain=dgain, bias=dbias)


def leading(x: Float[Array, "*B C"]) -> tuple[int, ...]:
    """All axes but the last: a weight per channel receives the sum over all tokens."""
    return tuple(range(x.ndim - 1))
