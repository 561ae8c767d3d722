"""Grouped-query attention: H query heads share J heads of keys and values, so that less is kept while generating.

forward    q = rotary_q(split(query @ w_q + b_q, H))
           k_shared = rotary_k(split(memory @ w_k + b_k, J))      v_shared = split(memory @ w_v + b_v, J)
           k = repeat(k_shared, H)      v = repeat(v_shared, H)
           joined = join(z)             y = joined @ w_o + b_o
backward   djoined = dy @ w_o^T         dz = split(djoined, H)
           dk_shared = group_sum(dk, J)             dv_shared = group_sum(dv, J)
           from_q = join(rotary_q.backward(dq))     from_k = join(rotary_k.backward(dk_shared))
           dquery = from_q @ w_q^T      dmemory = from_k @ w_k^T + join(dv_shared) @ w_v^T
           dw_q = query^T @ from_q      dw_k = memory^T @ from_k      dw_v = memory^T @ join(dv_shared)
           db_q = sum_tokens(from_q)    db_k = sum_tokens(from_k)     db_v = sum_tokens(join(dv_shared))
           dw_o = joined^T @ dy         db_o = sum_tokens(dy)

From q, k and v to z: `attend`, as in multi_head.py. Each head of k and v serves a group of H / J heads of q, and
receives the sum of the gradients of its group. Rotary positions (rotary.py) turn q and k by their places.
J = H is multi-head attention (with rotary positions as in Llama), J = 1 multi-query attention. Ainslie et al., 2023.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import ShapeError, at_least, expect
from glassformer.layers import attention, rotary
from glassformer.layers.attend import Attend
from glassformer.layers.attention import Attention
from glassformer.layers.contract import keywords_for
from glassformer.layers.linear import project, project_backward, xavier
from glassformer.layers.masks import Mask
from glassformer.layers.multi_head import Inputs
from glassformer.layers.rotary import Rotary
from glassformer.names import at, tag
from glassformer.shapes import Array, Bool, Float, Key


class Params(NamedTuple):
    w_q: Float[Array, "C A"]
    w_k: Float[Array, "C E"]
    w_v: Float[Array, "C E"]
    w_o: Float[Array, "A C"]
    b_q: Float[Array, "A"] | None
    b_k: Float[Array, "E"] | None
    b_v: Float[Array, "E"] | None
    b_o: Float[Array, "C"] | None


class Cache(NamedTuple):
    query: Float[Array, "B T C"]
    memory: Float[Array, "B S C"]
    rotary_q: rotary.Cache | None
    rotary_k: rotary.Cache | None
    k_shared: Float[Array, "B S J D"]
    v_shared: Float[Array, "B S J D"]
    unscoped: Any  # of `attend`, whose names are this layer's: q, pattern, …; without k and v
    joined: Float[Array, "B T A"]  # z of all heads, side by side


@dataclass(frozen=True)
class GroupedQueryAttention:
    width: int  # C
    heads: int  # H
    key_heads: int  # J
    bias: bool = False
    rotary: Rotary | None = None
    attend: Attend = Attention()  # what each head does

    def __post_init__(self) -> None:
        at_least("attention", 1, width=self.width, heads=self.heads, key_heads=self.key_heads)
        if self.width % self.heads or self.heads % self.key_heads:
            raise ShapeError(
                f"attention: width {self.width}, {self.heads} heads and {self.key_heads} key heads do not divide; "
                "expected key heads that divide the heads, and heads that divide the width"
            )

    def init(self, key: Key) -> Params:
        key_q, key_k, key_v, key_o = jax.random.split(key, 4)
        shared = self.width // self.heads * self.key_heads  # E

        def zeros(width: int) -> Float[Array, "O"] | None:
            return jnp.zeros(width) if self.bias else None

        return Params(
            w_q=xavier(key_q, self.width, self.width),
            w_k=xavier(key_k, self.width, shared),
            w_v=xavier(key_v, self.width, shared),
            w_o=xavier(key_o, self.width, self.width),
            b_q=zeros(self.width),
            b_k=zeros(shared),
            b_v=zeros(shared),
            b_o=zeros(self.width),
        )

    def forward(
        self,
        params: Params,
        x: Inputs,
        *,
        mask: Bool[Array, "#B #H #T #S"] | Mask | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "B T C"], Cache]:
        expect("attention", "width of the query", x.query.shape[-1], self.width)
        expect("attention", "width of the memory", x.memory.shape[-1], self.width)
        query, memory = tag("query", x.query), tag("memory", x.memory)
        q = self.split(project(query, params.w_q, params.b_q))
        k_shared = self.split(project(memory, params.w_k, params.b_k))
        v_shared = tag("v_shared", self.split(project(memory, params.w_v, params.b_v)))
        rotary_q = rotary_k = None
        if self.rotary is not None:
            q, rotary_q = at("rotary_q", self.rotary).forward(None, q)
            k_shared, rotary_k = at("rotary_k", self.rotary).forward(None, k_shared)
        k_shared = tag("k_shared", k_shared)
        shared = attention.Inputs(q=q, k=self.spread(k_shared), v=self.spread(v_shared), bias=x.bias)
        z, heads = at("", self.attend).forward(None, shared, mask=mask, **keywords_for(self.attend, key=key))
        joined = tag("joined", join(z))
        y = tag("y", project(joined, params.w_o, params.b_o))
        return y, Cache(
            query=query,
            memory=memory,
            rotary_q=rotary_q,
            rotary_k=rotary_k,
            k_shared=k_shared,
            v_shared=v_shared,
            unscoped=heads._replace(k=None, v=None),
            joined=joined,
        )

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T C"]) -> tuple[Inputs, Params]:
        # y = joined @ w_o + b_o
        djoined, dw_o, db_o = project_backward(cache.joined, params.w_o, params.b_o, tag("dy", dy))
        djoined = tag("djoined", djoined)
        # joined = the heads' z side by side, where each head of k and v serves its group
        heads = cache.unscoped._replace(k=self.spread(cache.k_shared), v=self.spread(cache.v_shared))
        d, _ = at("", self.attend).backward(None, heads, self.split(djoined))
        dq = d.q
        dk_shared, dv_shared = tag("dk_shared", self.gather(d.k)), tag("dv_shared", self.gather(d.v))
        # q, k_shared = rotary(q), rotary(k_shared)
        if self.rotary is not None and cache.rotary_q is not None and cache.rotary_k is not None:
            dq, _ = at("rotary_q", self.rotary).backward(None, cache.rotary_q, dq)
            dk_shared, _ = at("rotary_k", self.rotary).backward(None, cache.rotary_k, dk_shared)
        # q = query @ w_q + b_q;  k_shared, v_shared = memory @ w_k + b_k, memory @ w_v + b_v
        dquery, dw_q, db_q = project_backward(cache.query, params.w_q, params.b_q, join(dq))
        dmemory_k, dw_k, db_k = project_backward(cache.memory, params.w_k, params.b_k, join(dk_shared))
        dmemory_v, dw_v, db_v = project_backward(cache.memory, params.w_v, params.b_v, join(dv_shared))
        dmemory = tag("dmemory", dmemory_k + dmemory_v)
        dparams = Params(w_q=dw_q, w_k=dw_k, w_v=dw_v, w_o=dw_o, b_q=db_q, b_k=db_k, b_v=db_v, b_o=db_o)
        return Inputs(query=tag("dquery", dquery), memory=dmemory, bias=d.bias), dparams

    def split(self, x: Float[Array, "B T O"]) -> Float[Array, "B T H D"]:
        return x.reshape(*x.shape[:2], -1, self.width // self.heads)

    def spread(self, x: Float[Array, "B S J D"]) -> Float[Array, "B S H D"]:
        """Each head once for every head of its group."""
        return jnp.repeat(x, self.heads // self.key_heads, axis=2)

    def gather(self, x: Float[Array, "B S H D"]) -> Float[Array, "B S J D"]:
        """What was read by a group receives the sum of the group's gradients."""
        B, S, _, D = x.shape
        return jnp.sum(x.reshape(B, S, self.key_heads, -1, D), axis=3)


def join(x: Float[Array, "B T H D"]) -> Float[Array, "B T O"]:
    return x.reshape(*x.shape[:2], -1)
