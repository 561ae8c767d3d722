"""An image model of my own: patches as tokens, one transformer block of glassformer's, and a gate of mine.

glassformer gradcheck --code my_model.py
glassformer train --code my_model.py --recipe recipe.toml
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from glassformer import register
from glassformer.layers import (
    FeedForward,
    LayerNorm,
    Linear,
    MeanPool,
    MultiHeadAttention,
    Patches,
    Positions,
    PreNormBlock,
    SelfAttention,
    linear,
    mean_pool,
    positions,
    pre_norm_block,
    standardise,
)
from glassformer.models import Images, Network
from glassformer.names import at, tag
from glassformer.shapes import Array, Float, Key, UInt8

# ---- a layer: settings, parameters, what backward needs, and the pair forward and backward


class GateParams(NamedTuple):
    w: Float[Array, "C C"]
    b: Float[Array, "C"]


class GateCache(NamedTuple):
    x: Float[Array, "B T C"]
    gate: Float[Array, "B T C"]


@register.layer("my-gate")
@dataclass(frozen=True)
class Gate:
    """Gate: each token decides how much of itself goes on, channel by channel.

    forward    gate = sigmoid(x @ w + b)      y = x * gate
    backward   dgate = dy * x      dpre = dgate * gate * (1 - gate)
               dw = x^T @ dpre      db = sum_tokens(dpre)      dx = dy * gate + dpre @ w^T
    """

    width: int = 16  # C

    def init(self, key: Key) -> GateParams:
        return GateParams(
            w=jax.random.normal(key, (self.width, self.width)) * self.width**-0.5, b=jnp.zeros(self.width)
        )

    def forward(self, params: GateParams, x: Float[Array, "B T C"]) -> tuple[Float[Array, "B T C"], GateCache]:
        x = tag("x", x)  # what is tagged, the lens shows
        gate = tag("gate", jax.nn.sigmoid(x @ params.w + params.b))
        y = tag("y", x * gate)
        return y, GateCache(x=x, gate=gate)

    def backward(
        self, params: GateParams, cache: GateCache, dy: Float[Array, "B T C"]
    ) -> tuple[Float[Array, "B T C"], GateParams]:
        dy = tag("dy", dy)
        # y = x * gate
        dgate = tag("dgate", dy * cache.x)
        # gate = sigmoid(x @ w + b)
        dpre = dgate * cache.gate * (1 - cache.gate)
        dw = jnp.einsum("bti,bto->io", cache.x, dpre)
        db = jnp.sum(dpre, axis=(0, 1))
        # x was read twice: its gradients add up
        dx = tag("dx", dy * cache.gate + dpre @ params.w.T)
        return dx, GateParams(w=dw, b=db)


# ---- a model: one line a part; backward is forward read from the bottom


class Params(NamedTuple):
    patch: linear.Params
    positions: positions.Params
    block: pre_norm_block.Params
    gate: GateParams
    head: linear.Params


class Cache(NamedTuple):
    prepare: standardise.Cache
    patch: linear.Cache
    block: pre_norm_block.Cache
    gate: GateCache
    pool: mean_pool.Cache
    head: linear.Cache


@register.model("my-model")
@dataclass(frozen=True)
class MyModel(Network):
    """Image patches as tokens, one transformer block, a gate, one answer per image."""

    tasks: ClassVar[tuple[str, ...]] = ("classify",)

    images: Images = Images()  # sizes and classes are taken from the data
    patch_size: int = 4
    width: int = 16  # C
    hidden: int = 32  # F
    heads: int = 2  # H

    @property
    def input(self) -> Images:
        return self.images

    @property
    def patches(self) -> Patches:
        return Patches(self.images.shape, self.patch_size)

    @property
    def patch(self) -> Linear:
        return Linear(self.patches.values, self.width)

    @property
    def positions(self) -> Positions:
        return Positions(self.patches.tokens, self.width)

    @property
    def block(self) -> PreNormBlock:
        attention = SelfAttention(MultiHeadAttention(self.width, self.heads))
        return PreNormBlock(LayerNorm(self.width), attention, FeedForward(self.width, self.hidden))

    @property
    def gate(self) -> Gate:
        return Gate(self.width)

    @property
    def head(self) -> Linear:
        return Linear(self.width, self.images.classes)

    def init(self, key: Key) -> Params:
        keys = jax.random.split(key, 5)
        return Params(
            patch=self.patch.init(keys[0]),
            positions=self.positions.init(keys[1]),
            block=self.block.init(keys[2]),
            gate=self.gate.init(keys[3]),
            head=self.head.init(keys[4]),
        )

    def forward(
        self, params: Params, x: UInt8[Array, "B Y X G"] | Float[Array, "B Y X G"]
    ) -> tuple[Float[Array, "B K"], Cache]:
        self.images.check("MyModel", x)
        pixels, prepare = at("prepare", self.images.prepare).forward(None, x)
        patches, _ = at("patches", self.patches).forward(None, pixels)
        tokens, patch = at("patch", self.patch).forward(params.patch, patches)
        tokens, _ = at("positions", self.positions).forward(params.positions, tokens)
        tokens, block = at("block", self.block).forward(params.block, tokens)
        tokens, gate = at("gate", self.gate).forward(params.gate, tokens)
        pooled, pool = at("pool", MeanPool()).forward(None, tokens)
        logits, head = at("head", self.head).forward(params.head, pooled)
        return logits, Cache(prepare=prepare, patch=patch, block=block, gate=gate, pool=pool, head=head)

    def backward(
        self, params: Params, cache: Cache, dy: Float[Array, "B K"]
    ) -> tuple[Float[Array, "B Y X G"] | None, Params]:
        dpooled, dhead = at("head", self.head).backward(params.head, cache.head, dy)
        dtokens, _ = at("pool", MeanPool()).backward(None, cache.pool, dpooled)
        dtokens, dgate = at("gate", self.gate).backward(params.gate, cache.gate, dtokens)
        dtokens, dblock = at("block", self.block).backward(params.block, cache.block, dtokens)
        dtokens, dpositions = at("positions", self.positions).backward(params.positions, None, dtokens)
        dpatches, dpatch = at("patch", self.patch).backward(params.patch, cache.patch, dtokens)
        dpixels, _ = at("patches", self.patches).backward(None, None, dpatches)
        dx, _ = at("prepare", self.images.prepare).backward(None, cache.prepare, dpixels)
        return dx, Params(patch=dpatch, positions=dpositions, block=dblock, gate=dgate, head=dhead)
