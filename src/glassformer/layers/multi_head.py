"""Multi-head attention: project into H heads, let each attend by itself, join them and project back.

forward    q = split(query @ w_q + b_q, H)      k = split(memory @ w_k + b_k, H)      v = split(memory @ w_v + b_v, H)
           joined = join(z)      y = joined @ w_o + b_o
backward   djoined = dy @ w_o^T      dz = split(djoined, H)
           dquery = join(dq) @ w_q^T      dmemory = join(dk) @ w_k^T + join(dv) @ w_v^T
           dw_q = query^T @ join(dq)      dw_k = memory^T @ join(dk)      dw_v = memory^T @ join(dv)
           db_q = sum_tokens(join(dq))    db_k = sum_tokens(join(dk))     db_v = sum_tokens(join(dv))
           dw_o = joined^T @ dy           db_o = sum_tokens(dy)

From q, k and v to z: `attend`, in each head of D = A / H: attention.py, or another way (attend.py). Memory went into k
and into v, so its gradient is the sum of both. Query and memory are the same tokens in self-attention
(self_attention.py) and two sequences in cross-attention. Rotary positions and key heads that several query heads share:
grouped_query.py.
Derived in docs/derivations/multi_head.md.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import SettingError, ShapeError, at_least, expect
from glassformer.layers import attention
from glassformer.layers.attend import Attend
from glassformer.layers.attention import Attention
from glassformer.layers.contract import keywords_for
from glassformer.layers.linear import project, project_backward, xavier
from glassformer.layers.masks import Mask
from glassformer.names import at, tag
from glassformer.shapes import Array, Bool, Float, Key


class Params(NamedTuple):
    w_q: Float[Array, "C A"]
    w_k: Float[Array, "C A"]
    w_v: Float[Array, "C A"]
    w_o: Float[Array, "A C"] | None
    b_q: Float[Array, "A"] | None
    b_k: Float[Array, "A"] | None
    b_v: Float[Array, "A"] | None
    b_o: Float[Array, "C"] | None


class Inputs(NamedTuple):
    query: Float[Array, "B T C"]
    memory: Float[Array, "B S C"]
    bias: Float[Array, "#B #H #T #S"] | None = None  # added to the scores


class Cache(NamedTuple):
    query: Float[Array, "B T C"]
    memory: Float[Array, "B S C"]
    unscoped: Any  # of `attend`, whose names are this layer's: q, k, v, pattern, …
    joined: Float[Array, "B T A"]  # z of all heads, side by side


@dataclass(frozen=True)
class MultiHeadAttention:
    width: int  # C
    heads: int  # H
    bias: bool = True
    output: bool = True  # False: no w_o, the joined heads are the result
    head_width: int | None = None  # D; None: C / H
    attend: Attend = Attention()  # what each head does

    def __post_init__(self) -> None:
        at_least("attention", 1, width=self.width, heads=self.heads)
        if self.head_width is not None:
            at_least("attention", 1, head_width=self.head_width)
            if not self.output:
                raise SettingError("attention: with a head_width, w_o leads back to the width; set output=True")
        elif self.width % self.heads:
            near = min((h for h in range(1, self.width + 1) if self.width % h == 0), key=lambda h: abs(h - self.heads))
            raise ShapeError(f"attention: width {self.width} does not divide into {self.heads} heads; try heads={near}")

    @property
    def joined(self) -> int:
        """A: the width of all heads side by side."""
        return self.width if self.head_width is None else self.heads * self.head_width

    def init(self, key: Key) -> Params:
        key_q, key_k, key_v, key_o = jax.random.split(key, 4)

        def zeros(width: int) -> Float[Array, "A"] | None:
            return jnp.zeros(width) if self.bias else None

        return Params(
            w_q=xavier(key_q, self.width, self.joined),
            w_k=xavier(key_k, self.width, self.joined),
            w_v=xavier(key_v, self.width, self.joined),
            w_o=xavier(key_o, self.joined, self.width) if self.output else None,
            b_q=zeros(self.joined),
            b_k=zeros(self.joined),
            b_v=zeros(self.joined),
            b_o=zeros(self.width) if self.output else None,
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
        k = self.split(project(memory, params.w_k, params.b_k))
        v = self.split(project(memory, params.w_v, params.b_v))
        given = attention.Inputs(q=q, k=k, v=v, bias=x.bias)
        z, heads = at("", self.attend).forward(None, given, mask=mask, **keywords_for(self.attend, key=key))
        joined = tag("joined", self.join(z))
        y = joined if params.w_o is None else tag("y", project(joined, params.w_o, params.b_o))
        return y, Cache(query=query, memory=memory, unscoped=heads, joined=joined)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T C"]) -> tuple[Inputs, Params]:
        # y = joined @ w_o + b_o
        if params.w_o is None:
            djoined, dw_o, db_o = dy, None, None
        else:
            djoined, dw_o, db_o = project_backward(cache.joined, params.w_o, params.b_o, tag("dy", dy))
        djoined = tag("djoined", djoined)
        # joined = the heads' z side by side
        d, _ = at("", self.attend).backward(None, cache.unscoped, self.split(djoined))
        # q = query @ w_q + b_q;  k, v = memory @ w_k + b_k, memory @ w_v + b_v
        dquery, dw_q, db_q = project_backward(cache.query, params.w_q, params.b_q, self.join(d.q))
        dmemory_k, dw_k, db_k = project_backward(cache.memory, params.w_k, params.b_k, self.join(d.k))
        dmemory_v, dw_v, db_v = project_backward(cache.memory, params.w_v, params.b_v, self.join(d.v))
        dmemory = tag("dmemory", dmemory_k + dmemory_v)
        dparams = Params(w_q=dw_q, w_k=dw_k, w_v=dw_v, w_o=dw_o, b_q=db_q, b_k=db_k, b_v=db_v, b_o=db_o)
        return Inputs(query=tag("dquery", dquery), memory=dmemory, bias=d.bias), dparams

    def split(self, x: Float[Array, "B T A"]) -> Float[Array, "B T H D"]:
        return x.reshape(*x.shape[:2], self.heads, self.joined // self.heads)

    def join(self, x: Float[Array, "B T H D"]) -> Float[Array, "B T A"]:
        return x.reshape(*x.shape[:2], self.joined)
