"""Pre-norm block: the residual stream is only ever added to, so the gradient has a straight way back.

forward    resid_mid = resid_pre + drop1(attn(norm1(resid_pre)))
           resid_post = resid_mid + drop2(ff(norm2(resid_mid)))
backward   dresid_mid = dresid_post + norm2.backward(ff.backward(drop2.backward(dresid_post)))
           dresid_pre = dresid_mid + norm1.backward(attn.backward(drop1.backward(dresid_mid)))

At each sum the gradient goes both ways, along the stream and through the branch; where they part, it adds up.
As in GPT-2 and ViT; the order of the original paper is post_norm_block.py.
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
    norm1: Any
    attn: Any
    norm2: Any
    ff: Any


class Cache(NamedTuple):
    norm1: Any
    attn: Any
    drop1: dropout.Cache
    norm2: Any
    ff: Any
    drop2: dropout.Cache


@dataclass(frozen=True)
class PreNormBlock:
    norm: Layer  # settings of both norms; each has weights of its own
    attn: Layer  # self-attention of any kind, causal or not
    ff: Layer  # feed-forward, gated or not
    dropout: Dropout = Dropout(0.0)
    axes: ClassVar = {"resid_mid": "B T C"}

    def init(self, key: Key) -> Params:
        key_norm1, key_attn, key_norm2, key_ff = jax.random.split(key, 4)
        return Params(
            norm1=self.norm.init(key_norm1),
            attn=self.attn.init(key_attn),
            norm2=self.norm.init(key_norm2),
            ff=self.ff.init(key_ff),
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
        resid_pre = tag("resid_pre", x)
        h, norm1 = at("norm1", self.norm).forward(params.norm1, resid_pre)
        a, attn = at("attn", self.attn).forward(params.attn, h, mask=mask, **keywords_for(self.attn, key=one_more(key)))
        a, drop1 = at("drop1", self.dropout).forward(None, a, key=key1)
        resid_mid = tag("resid_mid", resid_pre + a)
        h, norm2 = at("norm2", self.norm).forward(params.norm2, resid_mid)
        f, ff = at("ff", self.ff).forward(params.ff, h)
        f, drop2 = at("drop2", self.dropout).forward(None, f, key=key2)
        resid_post = tag("resid_post", resid_mid + f)
        return resid_post, Cache(norm1=norm1, attn=attn, drop1=drop1, norm2=norm2, ff=ff, drop2=drop2)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T C"]) -> tuple[Float[Array, "B T C"], Params]:
        dresid_post = tag("dresid_post", dy)
        # resid_post = resid_mid + drop2(ff(norm2(resid_mid)))
        df, _ = at("drop2", self.dropout).backward(None, cache.drop2, dresid_post)
        dh, dff = at("ff", self.ff).backward(params.ff, cache.ff, df)
        dbranch, dnorm2 = at("norm2", self.norm).backward(params.norm2, cache.norm2, dh)
        dresid_mid = tag("dresid_mid", dresid_post + dbranch)
        # resid_mid = resid_pre + drop1(attn(norm1(resid_pre)))
        da, _ = at("drop1", self.dropout).backward(None, cache.drop1, dresid_mid)
        dh, dattn = at("attn", self.attn).backward(params.attn, cache.attn, da)
        dbranch, dnorm1 = at("norm1", self.norm).backward(params.norm1, cache.norm1, dh)
        dresid_pre = tag("dresid_pre", dresid_mid + dbranch)
        return dresid_pre, Params(norm1=dnorm1, attn=dattn, norm2=dnorm2, ff=dff)
