"""RMS normalisation: bring each token to unit root-mean-square, then apply a learned gain.

forward    rms_inv = 1 / sqrt(mean(x^2) + eps)      xhat = x * rms_inv      y = xhat * gain
backward   dxhat = dy * gain      dx = rms_inv * (dxhat - xhat * mean(dxhat * xhat))      dgain = sum_tokens(dy * xhat)

Derived, beside its elder, in docs/derivations/layer_norm.md.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from glassformer.errors import at_least, expect
from glassformer.layers.layer_norm import leading
from glassformer.layers.precision import wide
from glassformer.names import tag
from glassformer.shapes import Array, Float, Key


class Params(NamedTuple):
    gain: Float[Array, "C"]
    wide = ("gain",)  # as in layer_norm.py


class Cache(NamedTuple):
    xhat: Float[Array, "*B C"]  # input at unit RMS, before the gain
    rms_inv: Float[Array, "*B 1"]  # 1 / RMS of each token


@dataclass(frozen=True)
class RMSNorm:
    width: int  # C
    eps: float = 1e-6  # as in T5

    def __post_init__(self) -> None:
        at_least("RMS norm", 1, width=self.width)

    def init(self, key: Key) -> Params:
        return Params(gain=jnp.ones(self.width))

    def forward(self, params: Params, x: Float[Array, "*B C"]) -> tuple[Float[Array, "*B C"], Cache]:
        expect("rms norm", "width of the input", x.shape[-1], self.width)
        narrow, x = jnp.result_type(x), wide(x)
        rms_inv = tag("rms_inv", lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + self.eps))
        xhat = tag("xhat", x * rms_inv)
        y = tag("y", (xhat * params.gain).astype(narrow))
        return y, Cache(xhat=xhat.astype(narrow), rms_inv=rms_inv)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "*B C"]) -> tuple[Float[Array, "*B C"], Params]:
        dy = tag("dy", dy)
        narrow, dy = jnp.result_type(dy), wide(dy)
        xhat, rms_inv = wide(cache.xhat), cache.rms_inv
        # y = xhat * gain
        dgain = jnp.sum(dy * xhat, axis=leading(dy))
        dxhat = tag("dxhat", dy * params.gain)
        # xhat = x * rms_inv, where rms_inv depends on x too: the subtracted term is its share
        dx = rms_inv * (dxhat - xhat * jnp.mean(dxhat * xhat, axis=-1, keepdims=True))
        return dx.astype(narrow), Params(gain=dgain)
