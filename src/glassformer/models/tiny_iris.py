"""The smallest model with attention in it: a table row of four numbers, 475 weights, for the smallest devices.

row -> standardise -> linear + ReLU -> cut into tokens -> self-attention -> mean over tokens -> linear -> logits

Four measurements of a flower become four tokens of width 8; each token is made of all measurements, and two heads let
them exchange what they found. No residual, no normalisation, no positions: each token has weights of its own.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax

from glassformer.layers import (
    Linear,
    MeanPool,
    MultiHeadAttention,
    ReLU,
    Reshape,
    SelfAttention,
    linear,
    mean_pool,
    relu,
    reshape,
    self_attention,
)
from glassformer.models.columns import Columns
from glassformer.models.model import Network
from glassformer.names import at
from glassformer.shapes import Array, Float, Key


class Params(NamedTuple):
    spread: linear.Params
    attn: self_attention.Params
    head: linear.Params


class Cache(NamedTuple):
    """Standardising keeps nothing."""

    spread: linear.Cache
    relu: relu.Cache
    cut: reshape.Cache
    attn: self_attention.Cache
    pool: mean_pool.Cache
    head: linear.Cache


@dataclass(frozen=True)
class TinyIris(Network):
    tasks: ClassVar[tuple[str, ...]] = ("classify", "regress")

    columns: Columns = Columns()
    tokens: int = 4  # T
    width: int = 8  # C
    heads: int = 2  # H

    @property
    def input(self) -> Columns:
        return self.columns

    @property
    def spread(self) -> Linear:
        return Linear(self.columns.count, self.tokens * self.width)

    @property
    def cut(self) -> Reshape:
        return Reshape((self.tokens, self.width))

    @property
    def attn(self) -> SelfAttention:
        return SelfAttention(MultiHeadAttention(self.width, self.heads))

    @property
    def head(self) -> Linear:
        return Linear(self.width, self.columns.classes)

    def init(self, key: Key) -> Params:
        key_spread, key_attn, key_head = jax.random.split(key, 3)
        return Params(spread=self.spread.init(key_spread), attn=self.attn.init(key_attn), head=self.head.init(key_head))

    def forward(self, params: Params, x: Float[Array, "B I"]) -> tuple[Float[Array, "B K"], Cache]:
        self.columns.check("TinyIris", x)
        row, _ = at("prepare", self.columns.prepare).forward(None, x)
        h, spread = at("spread", self.spread).forward(params.spread, row)
        h, relu = at("relu", ReLU()).forward(None, h)
        tokens, cut = at("cut", self.cut).forward(None, h)
        z, attn = at("attn", self.attn).forward(params.attn, tokens)
        pooled, pool = at("pool", MeanPool()).forward(None, z)
        logits, head = at("head", self.head).forward(params.head, pooled)
        return logits, Cache(spread=spread, relu=relu, cut=cut, attn=attn, pool=pool, head=head)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B K"]) -> tuple[Float[Array, "B I"], Params]:
        dpooled, dhead = at("head", self.head).backward(params.head, cache.head, dy)
        dz, _ = at("pool", MeanPool()).backward(None, cache.pool, dpooled)
        dtokens, dattn = at("attn", self.attn).backward(params.attn, cache.attn, dz)
        dh, _ = at("cut", self.cut).backward(None, cache.cut, dtokens)
        dh, _ = at("relu", ReLU()).backward(None, cache.relu, dh)
        drow, dspread = at("spread", self.spread).backward(params.spread, cache.spread, dh)
        dx, _ = at("prepare", self.columns.prepare).backward(None, None, drow)
        return dx, Params(spread=dspread, attn=dattn, head=dhead)
