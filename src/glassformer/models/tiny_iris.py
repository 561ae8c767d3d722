"""The smallest model with attention in it: a table row of four numbers, 475 weights, for the smallest devices.

row -> standardise -> linear + ReLU -> cut into tokens -> self-attention -> mean over tokens -> linear -> logits

Four measurements of a flower become four tokens of width 8; each token is made of all measurements, and two heads let
them exchange what they found. No residual, no normalisation, no positions: each token has weights of its own.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax

from glassformer.layers import (
    Linear,
    MeanPool,
    MultiHeadAttention,
    ReLU,
    SelfAttention,
    linear,
    mean_pool,
    relu,
    self_attention,
)
from glassformer.models.columns import Columns
from glassformer.models.model import Network
from glassformer.names import scope
from glassformer.shapes import Array, Float, Key


class Params(NamedTuple):
    spread: linear.Params
    attn: self_attention.Params
    head: linear.Params


class Cache(NamedTuple):
    """Standardising keeps nothing."""

    spread: linear.Cache
    relu: relu.Cache
    attn: self_attention.Cache
    pool: mean_pool.Cache
    head: linear.Cache


@dataclass(frozen=True)
class TinyIris(Network):
    columns: Columns = Columns()
    tokens: int = 4  # T
    width: int = 8  # C
    heads: int = 2  # H

    @property
    def spread(self) -> Linear:
        return Linear(self.columns.count, self.tokens * self.width)

    @property
    def attn(self) -> SelfAttention:
        return SelfAttention(MultiHeadAttention(self.width, self.heads))

    @property
    def head(self) -> Linear:
        return Linear(self.width, self.columns.classes)

    def example(self, batch: int) -> jax.ShapeDtypeStruct:
        return self.columns.example(batch)

    def init(self, key: Key) -> Params:
        key_spread, key_attn, key_head = jax.random.split(key, 3)
        return Params(spread=self.spread.init(key_spread), attn=self.attn.init(key_attn), head=self.head.init(key_head))

    def forward(self, params: Params, x: Float[Array, "B I"]) -> tuple[Float[Array, "B K"], Cache]:
        self.columns.check("TinyIris", x)
        with scope("prepare"):
            row, _ = self.columns.prepare.forward(None, x)
        with scope("spread"):
            h, spread = self.spread.forward(params.spread, row)
        with scope("relu"):
            h, relu = ReLU().forward(None, h)
        tokens = h.reshape(-1, self.tokens, self.width)
        with scope("attn"):
            z, attn = self.attn.forward(params.attn, tokens)
        with scope("pool"):
            pooled, pool = MeanPool().forward(None, z)
        with scope("head"):
            logits, head = self.head.forward(params.head, pooled)
        return logits, Cache(spread=spread, relu=relu, attn=attn, pool=pool, head=head)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B K"]) -> tuple[Float[Array, "B I"], Params]:
        with scope("head"):
            dpooled, dhead = self.head.backward(params.head, cache.head, dy)
        with scope("pool"):
            dz, _ = MeanPool().backward(None, cache.pool, dpooled)
        with scope("attn"):
            dtokens, dattn = self.attn.backward(params.attn, cache.attn, dz)
        dh = dtokens.reshape(len(dy), -1)  # tokens = h, cut
        with scope("relu"):
            dh, _ = ReLU().backward(None, cache.relu, dh)
        with scope("spread"):
            drow, dspread = self.spread.backward(params.spread, cache.spread, dh)
        with scope("prepare"):
            dx, _ = self.columns.prepare.backward(None, None, drow)
        return dx, Params(spread=dspread, attn=dattn, head=dhead)
