"""Post-norm decoder block, as in the original transformer: look back, look at a memory, feed-forward.

forward    sum1 = x + drop1(attn(x, x, bias))             mid = norm1(sum1)
           sum2 = mid + drop2(cross(mid, memory))         found = norm2(sum2)
           sum3 = found + drop3(ff(found))                y = norm3(sum3)
backward   dsum3 = norm3.backward(dy)                     dfound = dsum3 + ff.backward(drop3.backward(dsum3))
           dsum2 = norm2.backward(dfound)                 dmid = dsum2 + cross.dquery
           dsum1 = norm1.backward(dmid)                   dx = dsum1 + attn.dquery + attn.dmemory

In attn token t sees 0 … t. At each sum the gradient goes both ways; where they part, it adds up.
Vaswani et al., 2017. The order most later models use is pre_norm_decoder_block.py.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax

from glassformer.layers import dropout, multi_head
from glassformer.layers.contract import Layer, split_or_none
from glassformer.layers.dropout import Dropout
from glassformer.layers.masks import causal, combined
from glassformer.layers.pre_norm_decoder_block import Inputs
from glassformer.names import at, tag
from glassformer.shapes import Array, Bool, Float, Key


class Params(NamedTuple):
    attn: Any
    norm1: Any
    cross: Any
    norm2: Any
    ff: Any
    norm3: Any


class Cache(NamedTuple):
    attn: Any
    drop1: dropout.Cache
    norm1: Any
    cross: Any
    drop2: dropout.Cache
    norm2: Any
    ff: Any
    drop3: dropout.Cache
    norm3: Any


@dataclass(frozen=True)
class PostNormDecoderBlock:
    norm: Layer  # settings of all three norms; each has weights of its own
    attn: Layer  # multi-head or grouped-query
    cross: Layer  # likewise
    ff: Layer  # feed-forward, gated or not
    dropout: Dropout = Dropout(0.0)
    axes: ClassVar = {"sum1": "B T C", "sum2": "B T C", "sum3": "B T C"}

    def init(self, key: Key) -> Params:
        key_attn, key_norm1, key_cross, key_norm2, key_ff, key_norm3 = jax.random.split(key, 6)
        return Params(
            attn=self.attn.init(key_attn),
            norm1=self.norm.init(key_norm1),
            cross=self.cross.init(key_cross),
            norm2=self.norm.init(key_norm2),
            ff=self.ff.init(key_ff),
            norm3=self.norm.init(key_norm3),
        )

    def forward(
        self,
        params: Params,
        x: Inputs,
        *,
        mask: Bool[Array, "#B #H #T #T"] | None = None,  # besides the causal one: padding
        memory_mask: Bool[Array, "#B #H #T #S"] | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "B T C"], Cache]:
        key1, key2, key3 = split_or_none(key, 3)
        tokens = tag("x", x.x)
        back = combined(causal(tokens.shape[1]), mask)
        own = multi_head.Inputs(query=tokens, memory=tokens, bias=x.bias)
        a, attn = at("attn", self.attn).forward(params.attn, own, mask=back)
        a, drop1 = at("drop1", self.dropout).forward(None, a, key=key1)
        sum1 = tag("sum1", tokens + a)
        mid, norm1 = at("norm1", self.norm).forward(params.norm1, sum1)
        given = multi_head.Inputs(query=mid, memory=x.memory)
        c, cross = at("cross", self.cross).forward(params.cross, given, mask=memory_mask)
        c, drop2 = at("drop2", self.dropout).forward(None, c, key=key2)
        sum2 = tag("sum2", mid + c)
        found, norm2 = at("norm2", self.norm).forward(params.norm2, sum2)
        f, ff = at("ff", self.ff).forward(params.ff, found)
        f, drop3 = at("drop3", self.dropout).forward(None, f, key=key3)
        sum3 = tag("sum3", found + f)
        y, norm3 = at("norm3", self.norm).forward(params.norm3, sum3)
        return y, Cache(
            attn=attn,
            drop1=drop1,
            norm1=norm1,
            cross=cross,
            drop2=drop2,
            norm2=norm2,
            ff=ff,
            drop3=drop3,
            norm3=norm3,
        )

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T C"]) -> tuple[Inputs, Params]:
        # y = norm3(found + drop3(ff(found)))
        dsum3, dnorm3 = at("norm3", self.norm).backward(params.norm3, cache.norm3, dy)
        dsum3 = tag("dsum3", dsum3)
        df, _ = at("drop3", self.dropout).backward(None, cache.drop3, dsum3)
        dbranch, dff = at("ff", self.ff).backward(params.ff, cache.ff, df)
        dfound = dsum3 + dbranch
        # found = norm2(mid + drop2(cross(mid, memory)))
        dsum2, dnorm2 = at("norm2", self.norm).backward(params.norm2, cache.norm2, dfound)
        dsum2 = tag("dsum2", dsum2)
        dc, _ = at("drop2", self.dropout).backward(None, cache.drop2, dsum2)
        d_cross, dcross = at("cross", self.cross).backward(params.cross, cache.cross, dc)
        dmid = dsum2 + d_cross.query
        # mid = norm1(x + drop1(attn(x, x, bias)))
        dsum1, dnorm1 = at("norm1", self.norm).backward(params.norm1, cache.norm1, dmid)
        dsum1 = tag("dsum1", dsum1)
        da, _ = at("drop1", self.dropout).backward(None, cache.drop1, dsum1)
        d, dattn = at("attn", self.attn).backward(params.attn, cache.attn, da)
        dx = tag("dx", dsum1 + d.query + d.memory)
        dparams = Params(attn=dattn, norm1=dnorm1, cross=dcross, norm2=dnorm2, ff=dff, norm3=dnorm3)
        return Inputs(x=dx, memory=d_cross.memory, bias=d.bias), dparams
