"""Post-norm block, as in the original transformer: add first, then normalise the sum.

forward    sum1 = x + drop1(attn(x))          mid = norm1(sum1)
           sum2 = mid + drop2(ff(mid))        y = norm2(sum2)
backward   dsum2 = norm2.backward(dy)         dmid = dsum2 + ff.backward(drop2.backward(dsum2))
           dsum1 = norm1.backward(dmid)       dx = dsum1 + attn.backward(drop1.backward(dsum1))

At each sum the gradient goes both ways; where they part, it adds up.
Vaswani et al., 2017, and BERT. The order most later models use is pre_norm_block.py.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax

from glassformer.layers import dropout
from glassformer.layers.contract import Layer, keywords_for, one_more, split_or_none
from glassformer.layers.dropout import Dropout
from glassformer.layers.masks import Mask
from glassformer.names import at, tag
from glassformer.shapes import Array, Bool, Float, Key


class Params(NamedTuple):
    attn: Any
    norm1: Any
    ff: Any
    norm2: Any


class Cache(NamedTuple):
    attn: Any
    drop1: dropout.Cache
    norm1: Any
    ff: Any
    drop2: dropout.Cache
    norm2: Any


@dataclass(frozen=True)
class PostNormBlock:
    norm: Layer  # settings of both norms; each has weights of its own
    attn: Layer  # self-attention of any kind, causal or not
    ff: Layer  # feed-forward, gated or not
    dropout: Dropout = Dropout(0.0)
    axes: ClassVar = {"sum1": "B T C", "sum2": "B T C"}

    def init(self, key: Key) -> Params:
        key_attn, key_norm1, key_ff, key_norm2 = jax.random.split(key, 4)
        return Params(
            attn=self.attn.init(key_attn),
            norm1=self.norm.init(key_norm1),
            ff=self.ff.init(key_ff),
            norm2=self.norm.init(key_norm2),
        )

    def forward(
        self,
        params: Params,
        x: Float[Array, "B T C"],
        *,
        mask: Bool[Array, "#B #H #T #T"] | Mask | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "B T C"], Cache]:
        key1, key2 = split_or_none(key, 2)
        x = tag("x", x)
        a, attn = at("attn", self.attn).forward(params.attn, x, mask=mask, **keywords_for(self.attn, key=one_more(key)))
        a, drop1 = at("drop1", self.dropout).forward(None, a, key=key1)
        sum1 = tag("sum1", x + a)
        mid, norm1 = at("norm1", self.norm).forward(params.norm1, sum1)
        f, ff = at("ff", self.ff).forward(params.ff, mid)
        f, drop2 = at("drop2", self.dropout).forward(None, f, key=key2)
        sum2 = tag("sum2", mid + f)
        y, norm2 = at("norm2", self.norm).forward(params.norm2, sum2)
        return y, Cache(attn=attn, drop1=drop1, norm1=norm1, ff=ff, drop2=drop2, norm2=norm2)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T C"]) -> tuple[Float[Array, "B T C"], Params]:
        # y = norm2(mid + drop2(ff(mid)))
        dsum2, dnorm2 = at("norm2", self.norm).backward(params.norm2, cache.norm2, dy)
        dsum2 = tag("dsum2", dsum2)
        df, _ = at("drop2", self.dropout).backward(None, cache.drop2, dsum2)
        dbranch, dff = at("ff", self.ff).backward(params.ff, cache.ff, df)
        dmid = dsum2 + dbranch
        # mid = norm1(x + drop1(attn(x)))
        dsum1, dnorm1 = at("norm1", self.norm).backward(params.norm1, cache.norm1, dmid)
        dsum1 = tag("dsum1", dsum1)
        da, _ = at("drop1", self.dropout).backward(None, cache.drop1, dsum1)
        dbranch, dattn = at("attn", self.attn).backward(params.attn, cache.attn, da)
        dx = tag("dx", dsum1 + dbranch)
        return dx, Params(attn=dattn, norm1=dnorm1, ff=dff, norm2=dnorm2)
