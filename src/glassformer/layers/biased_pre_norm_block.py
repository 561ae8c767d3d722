"""Pre-norm block of T5's encoder: with a bias on the scores that comes in beside x.

forward    h = norm1(resid_pre)      resid_mid = resid_pre + drop1(attn(h, h, bias))
           resid_post = resid_mid + drop2(ff(norm2(resid_mid)))
backward   dresid_mid = dresid_post + norm2.backward(ff.backward(drop2.backward(dresid_post)))
           dresid_pre = dresid_mid + norm1.backward(attn.dquery + attn.dmemory)

Its weights and what it keeps are those of pre_norm_block.py. The bias is made by relative_bias.py; all blocks read the
same one, so a model adds up the gradients that each returns.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax

from glassformer.layers import multi_head
from glassformer.layers.contract import Layer, split_or_none
from glassformer.layers.dropout import Dropout
from glassformer.layers.masks import Mask
from glassformer.layers.pre_norm_block import Cache, Params
from glassformer.names import at, tag
from glassformer.shapes import Array, Bool, Float, Key


class Inputs(NamedTuple):
    x: Float[Array, "B T C"]
    bias: Float[Array, "#B #H #T #T"]  # added to the scores


@dataclass(frozen=True)
class BiasedPreNormBlock:
    norm: Layer  # settings of both norms; each has weights of its own
    attn: Layer  # multi-head or grouped-query
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
        x: Inputs,
        *,
        mask: Bool[Array, "#B #H #T #T"] | Mask | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "B T C"], Cache]:
        key1, key2 = split_or_none(key, 2)
        resid_pre = tag("resid_pre", x.x)
        h, norm1 = at("norm1", self.norm).forward(params.norm1, resid_pre)
        given = multi_head.Inputs(query=h, memory=h, bias=x.bias)
        a, attn = at("attn", self.attn).forward(params.attn, given, mask=mask)
        a, drop1 = at("drop1", self.dropout).forward(None, a, key=key1)
        resid_mid = tag("resid_mid", resid_pre + a)
        h, norm2 = at("norm2", self.norm).forward(params.norm2, resid_mid)
        f, ff = at("ff", self.ff).forward(params.ff, h)
        f, drop2 = at("drop2", self.dropout).forward(None, f, key=key2)
        resid_post = tag("resid_post", resid_mid + f)
        return resid_post, Cache(norm1=norm1, attn=attn, drop1=drop1, norm2=norm2, ff=ff, drop2=drop2)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T C"]) -> tuple[Inputs, Params]:
        dresid_post = tag("dresid_post", dy)
        # resid_post = resid_mid + drop2(ff(norm2(resid_mid)))
        df, _ = at("drop2", self.dropout).backward(None, cache.drop2, dresid_post)
        dh, dff = at("ff", self.ff).backward(params.ff, cache.ff, df)
        dbranch, dnorm2 = at("norm2", self.norm).backward(params.norm2, cache.norm2, dh)
        dresid_mid = tag("dresid_mid", dresid_post + dbranch)
        # resid_mid = resid_pre + drop1(attn(h, h, bias)), where h = norm1(resid_pre)
        da, _ = at("drop1", self.dropout).backward(None, cache.drop1, dresid_mid)
        d, dattn = at("attn", self.attn).backward(params.attn, cache.attn, da)
        dbranch, dnorm1 = at("norm1", self.norm).backward(params.norm1, cache.norm1, d.query + d.memory)
        dresid_pre = tag("dresid_pre", dresid_mid + dbranch)
        return Inputs(x=dresid_pre, bias=d.bias), Params(norm1=dnorm1, attn=dattn, norm2=dnorm2, ff=dff)
