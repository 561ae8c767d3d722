"""Pre-norm decoder block: look back at the own sequence, then at a memory (what an encoder read), then feed-forward.

forward    h = norm1(resid_pre)      resid_mid = resid_pre + drop1(attn(h, h, bias))
           resid_cross = resid_mid + drop2(cross(norm2(resid_mid), memory))
           resid_post = resid_cross + drop3(ff(norm3(resid_cross)))
backward   dresid_cross = dresid_post + norm3.backward(ff.backward(drop3.backward(dresid_post)))
           dresid_mid = dresid_cross + norm2.backward(cross.dquery)
           dresid_pre = dresid_mid + norm1.backward(attn.dquery + attn.dmemory)

In attn token t sees 0 … t. At each sum the gradient goes both ways, along the stream and through the branch; where they
part, it adds up. As in T5, whose blocks all read the same memory and the same bias: a model adds up the gradients that
each returns.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax

from glassformer.layers import dropout, multi_head
from glassformer.layers.contract import Layer, split_or_none
from glassformer.layers.dropout import Dropout
from glassformer.layers.masks import Mask, and_causal
from glassformer.names import at, tag
from glassformer.shapes import Array, Bool, Float, Key


class Params(NamedTuple):
    norm1: Any
    attn: Any
    norm2: Any
    cross: Any
    norm3: Any
    ff: Any


class Inputs(NamedTuple):
    x: Float[Array, "B T C"]
    memory: Float[Array, "B S C"]
    bias: Float[Array, "#B #H #T #T"] | None = None  # added to the scores of self-attention


class Cache(NamedTuple):
    norm1: Any
    attn: Any
    drop1: dropout.Cache
    norm2: Any
    cross: Any
    drop2: dropout.Cache
    norm3: Any
    ff: Any
    drop3: dropout.Cache


@dataclass(frozen=True)
class PreNormDecoderBlock:
    norm: Layer  # settings of all three norms; each has weights of its own
    attn: Layer  # multi-head or grouped-query
    cross: Layer  # likewise
    ff: Layer  # feed-forward, gated or not
    dropout: Dropout = Dropout(0.0)
    axes: ClassVar = {"resid_mid": "B T C", "resid_cross": "B T C"}

    def init(self, key: Key) -> Params:
        key_norm1, key_attn, key_norm2, key_cross, key_norm3, key_ff = jax.random.split(key, 6)
        return Params(
            norm1=self.norm.init(key_norm1),
            attn=self.attn.init(key_attn),
            norm2=self.norm.init(key_norm2),
            cross=self.cross.init(key_cross),
            norm3=self.norm.init(key_norm3),
            ff=self.ff.init(key_ff),
        )

    def forward(
        self,
        params: Params,
        x: Inputs,
        *,
        mask: Bool[Array, "#B #H #T #T"] | Mask | None = None,  # besides the causal one: padding
        memory_mask: Bool[Array, "#B #H #T #S"] | Mask | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "B T C"], Cache]:
        key1, key2, key3 = split_or_none(key, 3)
        resid_pre = tag("resid_pre", x.x)
        h, norm1 = at("norm1", self.norm).forward(params.norm1, resid_pre)
        given = multi_head.Inputs(query=h, memory=h, bias=x.bias)
        a, attn = at("attn", self.attn).forward(params.attn, given, mask=and_causal(mask))
        a, drop1 = at("drop1", self.dropout).forward(None, a, key=key1)
        resid_mid = tag("resid_mid", resid_pre + a)
        h, norm2 = at("norm2", self.norm).forward(params.norm2, resid_mid)
        given = multi_head.Inputs(query=h, memory=x.memory)
        c, cross = at("cross", self.cross).forward(params.cross, given, mask=memory_mask)
        c, drop2 = at("drop2", self.dropout).forward(None, c, key=key2)
        resid_cross = tag("resid_cross", resid_mid + c)
        h, norm3 = at("norm3", self.norm).forward(params.norm3, resid_cross)
        f, ff = at("ff", self.ff).forward(params.ff, h)
        f, drop3 = at("drop3", self.dropout).forward(None, f, key=key3)
        resid_post = tag("resid_post", resid_cross + f)
        return resid_post, Cache(
            norm1=norm1,
            attn=attn,
            drop1=drop1,
            norm2=norm2,
            cross=cross,
            drop2=drop2,
            norm3=norm3,
            ff=ff,
            drop3=drop3,
        )

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T C"]) -> tuple[Inputs, Params]:
        dresid_post = tag("dresid_post", dy)
        # resid_post = resid_cross + drop3(ff(norm3(resid_cross)))
        df, _ = at("drop3", self.dropout).backward(None, cache.drop3, dresid_post)
        dh, dff = at("ff", self.ff).backward(params.ff, cache.ff, df)
        dbranch, dnorm3 = at("norm3", self.norm).backward(params.norm3, cache.norm3, dh)
        dresid_cross = tag("dresid_cross", dresid_post + dbranch)
        # resid_cross = resid_mid + drop2(cross(norm2(resid_mid), memory))
        dc, _ = at("drop2", self.dropout).backward(None, cache.drop2, dresid_cross)
        d_cross, dcross = at("cross", self.cross).backward(params.cross, cache.cross, dc)
        dbranch, dnorm2 = at("norm2", self.norm).backward(params.norm2, cache.norm2, d_cross.query)
        dresid_mid = tag("dresid_mid", dresid_cross + dbranch)
        # resid_mid = resid_pre + drop1(attn(h, h, bias)), where h = norm1(resid_pre)
        da, _ = at("drop1", self.dropout).backward(None, cache.drop1, dresid_mid)
        d, dattn = at("attn", self.attn).backward(params.attn, cache.attn, da)
        dbranch, dnorm1 = at("norm1", self.norm).backward(params.norm1, cache.norm1, d.query + d.memory)
        dresid_pre = tag("dresid_pre", dresid_mid + dbranch)
        dx = Inputs(x=dresid_pre, memory=d_cross.memory, bias=d.bias)
        return dx, Params(norm1=dnorm1, attn=dattn, norm2=dnorm2, cross=dcross, norm3=dnorm3, ff=dff)
