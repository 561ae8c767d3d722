"""Grouped-query attention: H query heads share J heads of keys and values, so that less is kept while generating.

forward    q = rotary_q(norm_q(split(query @ w_q + b_q, H)))
           k_shared = rotary_k(norm_k(split(memory @ w_k + b_k, J)))      v_shared = split(memory @ w_v + b_v, J)
           k = repeat(k_shared, H)      v = repeat(v_shared, H)
           joined = join(z)             y = joined @ w_o + b_o
backward   djoined = dy @ w_o^T         dz = split(djoined, H)
           dk_shared = group_sum(dk, J)             dv_shared = group_sum(dv, J)
           from_q = join(norm_q.backward(rotary_q.backward(dq)))
           from_k = join(norm_k.backward(rotary_k.backward(dk_shared)))
           dquery = from_q @ w_q^T      dmemory = from_k @ w_k^T + join(dv_shared) @ w_v^T
           dw_q = query^T @ from_q      dw_k = memory^T @ from_k      dw_v = memory^T @ join(dv_shared)
           db_q = sum_tokens(from_q)    db_k = sum_tokens(from_k)     db_v = sum_tokens(join(dv_shared))
           dw_o = joined^T @ dy         db_o = sum_tokens(dy)

From q, k and v to z: `attend`, as in multi_head.py. Each head of k and v serves a group of H / J heads of q, and
receives the sum of the gradients of its group. Rotary positions (rotary.py) turn q and k by their places, what came in
stays to be seen as rotary_q.x and rotary_k.x; norms of q and k (head_norm.py) come before. The heads are A = H D wide.
J = H is multi-head attention (with rotary positions as in Llama), J = 1 multi-query attention. Ainslie et al., 2023.
Derived in docs/derivations/grouped_query.md.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import ShapeError, at_least, expect
from glassformer.layers import attention, head_norm, rotary, scaled_rotary
from glassformer.layers.attend import Attend
from glassformer.layers.attention import Attention
from glassformer.layers.contract import keywords_for
from glassformer.layers.head_norm import HeadNorm
from glassformer.layers.linear import project, project_backward, xavier
from glassformer.layers.masks import Mask, as_mask
from glassformer.layers.multi_head import Inputs
from glassformer.layers.rotary import Rotary
from glassformer.layers.scaled_rotary import ScaledRotary
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
    norm_q: head_norm.Params | None = None
    norm_k: head_norm.Params | None = None


class Cache(NamedTuple):
    query: Float[Array, "B T C"]
    memory: Float[Array, "B S C"]
    norm_q: head_norm.Cache | None
    norm_k: head_norm.Cache | None
    rotary_q: rotary.Cache | scaled_rotary.Cache | None
    rotary_k: rotary.Cache | scaled_rotary.Cache | None
    k_shared: Float[Array, "B S J D"]
    v_shared: Float[Array, "B S J D"]
    unscoped: Any  # of `attend`, whose names are this layer's: q, pattern, …; without k and v
    joined: Float[Array, "B T A"]  # z of all heads, side by side


@dataclass(frozen=True)
class GroupedQueryAttention:
    width: int  # C
    heads: int  # H
    key_heads: int  # J
    head_width: int | None = None  # D; None: C / H
    bias: Literal["qkv"] | bool = False  # "qkv": none on the way out
    norm: HeadNorm | None = None  # settings of those of q and of k; each has a gain of its own
    rotary: Rotary | ScaledRotary | None = None
    attend: Attend = Attention()  # what each head does

    def __post_init__(self) -> None:
        at_least("attention", 1, width=self.width, heads=self.heads, key_heads=self.key_heads)
        if self.heads % self.key_heads or (self.head_width is None and self.width % self.heads):
            raise ShapeError(
                f"attention: width {self.width}, {self.heads} heads and {self.key_heads} key heads do not divide; "
                "expected key heads that divide the heads, and heads that divide the width or have a head_width"
            )
        at_least("attention", 1, head_width=self.per_head)
        if self.norm is not None:
            expect("attention", "width of the norms of q and k", self.norm.head_width, self.per_head)
        if self.rotary is not None:
            self.rotary.check(self.per_head)

    @property
    def per_head(self) -> int:
        """D: the width of a head."""
        return self.width // self.heads if self.head_width is None else self.head_width

    def init(self, key: Key) -> Params:
        key_q, key_k, key_v, key_o = jax.random.split(key, 4)
        joined, shared = self.heads * self.per_head, self.key_heads * self.per_head  # A, E

        def zeros(width: int, has_bias: bool = bool(self.bias)) -> Float[Array, "O"] | None:
            return jnp.zeros(width) if has_bias else None

        return Params(
            w_q=xavier(key_q, self.width, joined),
            w_k=xavier(key_k, self.width, shared),
            w_v=xavier(key_v, self.width, shared),
            w_o=xavier(key_o, joined, self.width),
            b_q=zeros(joined),
            b_k=zeros(shared),
            b_v=zeros(shared),
            b_o=zeros(self.width, self.bias is True),
            norm_q=None if self.norm is None else self.norm.init(key),
            norm_k=None if self.norm is None else self.norm.init(key),
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
        norm_q = norm_k = rotary_q = rotary_k = None
        if self.norm is not None and params.norm_q is not None and params.norm_k is not None:
            q, norm_q = at("norm_q", self.norm).forward(params.norm_q, q)
            k_shared, norm_k = at("norm_k", self.norm).forward(params.norm_k, k_shared)
        if self.rotary is not None:
            length: Any = {"length": as_mask(mask).lengths} if self.rotary.by_length else {}
            q, rotary_q = at("rotary_q", self.rotary).forward(None, q, **length)
            k_shared, rotary_k = at("rotary_k", self.rotary).forward(None, k_shared, **length)
        k_shared = tag("k_shared", k_shared)
        shared = attention.Inputs(q=q, k=self.spread(k_shared), v=self.spread(v_shared), bias=x.bias)
        z, heads = at("", self.attend).forward(None, shared, mask=mask, **keywords_for(self.attend, key=key))
        joined = tag("joined", join(z))
        y = tag("y", project(joined, params.w_o, params.b_o))
        return y, Cache(
            query=query,
            memory=memory,
            norm_q=norm_q,
            norm_k=norm_k,
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
        # q, k_shared = rotary_q(q), rotary_k(k_shared)
        if self.rotary is not None:
            rotary: Any = self.rotary  # whose cache it is
            dq, _ = at("rotary_q", rotary).backward(None, cache.rotary_q, dq)
            dk_shared, _ = at("rotary_k", rotary).backward(None, cache.rotary_k, dk_shared)
        # q, k_shared = norm_q(q), norm_k(k_shared)
        dnorm_q = dnorm_k = None
        if self.norm is not None:
            norm: Any = self.norm
            dq, dnorm_q = at("norm_q", norm).backward(params.norm_q, cache.norm_q, dq)
            dk_shared, dnorm_k = at("norm_k", norm).backward(params.norm_k, cache.norm_k, dk_shared)
        # q = query @ w_q + b_q;  k_shared, v_shared = memory @ w_k + b_k, memory @ w_v + b_v
        dquery, dw_q, db_q = project_backward(cache.query, params.w_q, params.b_q, join(dq))
        dmemory_k, dw_k, db_k = project_backward(cache.memory, params.w_k, params.b_k, join(dk_shared))
        dmemory_v, dw_v, db_v = project_backward(cache.memory, params.w_v, params.b_v, join(dv_shared))
        dmemory = tag("dmemory", dmemory_k + dmemory_v)
        dparams = Params(dw_q, dw_k, dw_v, dw_o, db_q, db_k, db_v, db_o, dnorm_q, dnorm_k)
        return Inputs(query=tag("dquery", dquery), memory=dmemory, bias=d.bias), dparams

    def split(self, x: Float[Array, "B T O"]) -> Float[Array, "B T H D"]:
        return x.reshape(*x.shape[:2], -1, self.per_head)

    def spread(self, x: Float[Array, "B S J D"]) -> Float[Array, "B S H D"]:
        """Each head once for every head of its group."""
        return jnp.repeat(x, self.heads // self.key_heads, axis=2)

    def gather(self, x: Float[Array, "B S H D"]) -> Float[Array, "B S J D"]:
        """What was read by a group receives the sum of the group's gradients."""
        B, S, _, D = x.shape
        return jnp.sum(x.reshape(B, S, self.key_heads, -1, D), axis=3)


def join(x: Float[Array, "B T H D"]) -> Float[Array, "B T O"]:
    return x.reshape(*x.shape[:2], -1)
