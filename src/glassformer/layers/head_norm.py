"""Head norm: bring each head of each token to unit root-mean-square, then apply one learned gain for all heads.

forward    rms_inv = 1 / sqrt(mean(x^2) + eps)      xhat = x * rms_inv      y = xhat * gain
backward   dxhat = dy * gain      dx = rms_inv * (dxhat - xhat * mean(dxhat * xhat))
           dgain = sum_heads(sum_tokens(dy * xhat))

rms_norm.py over the width of a head. On q and k, before they are rotated, it bounds the scores: no product of a q and a
k is larger than D times their gains, however large the weights grow. As in Qwen3; Dehghani et al., 2023.
"""

from dataclasses import dataclass
from typing import NamedTuple

from glassformer.layers import rms_norm
from glassformer.layers.rms_norm import RMSNorm
from glassformer.shapes import Array, Float, Key


class Params(NamedTuple):
    gain: Float[Array, "D"]
    wide = ("gain",)  # as in layer_norm.py


class Cache(NamedTuple):
    xhat: Float[Array, "B T H D"]  # input at unit RMS, before the gain
    rms_inv: Float[Array, "B T H 1"]  # 1 / RMS of each head


@dataclass(frozen=True)
class HeadNorm:
    head_width: int  # D
    eps: float = 1e-6

    @property
    def norm(self) -> RMSNorm:
        return RMSNorm(self.head_width, self.eps)

    def init(self, key: Key) -> Params:
        return Params(*self.norm.init(key))

    def forward(self, params: Params, x: Float[Array, "B T H D"]) -> tuple[Float[Array, "B T H D"], Cache]:
        y, cache = self.norm.forward(rms_norm.Params(*params), x)
        return y, Cache(*cache)

    def backward(
        self, params: Params, cache: Cache, dy: Float[Array, "B T H D"]
    ) -> tuple[Float[Array, "B T H D"], Params]:
        dx, dparams = self.norm.backward(rms_norm.Params(*params), rms_norm.Cache(*cache), dy)
        return dx, Params(*dparams)
