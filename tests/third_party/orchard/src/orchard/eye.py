"""Eye: a small vision transformer that squashes where others normalise.

image -> patches -> linear + positions -> depth x block (with orchard's layer in it) -> squash -> mean -> linear
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

from glassformer.layers import (
    FeedForward,
    Linear,
    MeanPool,
    MultiHeadAttention,
    Patches,
    Positions,
    PreNormBlock,
    SelfAttention,
    linear,
    positions,
    pre_norm_block,
)
from glassformer.models import Images, Network
from glassformer.names import at
from glassformer.shapes import Array, Float, Key, UInt8
from orchard import dynamic_tanh
from orchard.dynamic_tanh import DynamicTanh


class Params(NamedTuple):
    patch: linear.Params
    positions: positions.Params
    blocks: tuple[pre_norm_block.Params, ...]
    squash: dynamic_tanh.Params
    head: linear.Params


class Cache(NamedTuple):
    prepare: Any
    patch: linear.Cache
    blocks: tuple[pre_norm_block.Cache, ...]
    squash: dynamic_tanh.Cache
    pool: Any
    head: linear.Cache


@dataclass(frozen=True)
class Eye(Network):
    images: Images = Images()
    patch_size: int = 4
    width: int = 8  # C
    hidden: int = 12  # F
    heads: int = 2  # H
    depth: int = 1  # L

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
    def squash(self) -> DynamicTanh:
        return DynamicTanh(self.width)

    @property
    def block(self) -> PreNormBlock:
        attention = SelfAttention(MultiHeadAttention(self.width, self.heads))
        return PreNormBlock(self.squash, attention, FeedForward(self.width, self.hidden))

    @property
    def head(self) -> Linear:
        return Linear(self.width, self.images.classes)

    def init(self, key: Key) -> Params:
        key_patch, key_positions, key_squash, key_head, *keys = jax.random.split(key, 4 + self.depth)
        return Params(
            patch=self.patch.init(key_patch),
            positions=self.positions.init(key_positions),
            blocks=tuple(map(self.block.init, keys)),
            squash=self.squash.init(key_squash),
            head=self.head.init(key_head),
        )

    def forward(
        self, params: Params, x: UInt8[Array, "B Y X G"] | Float[Array, "B Y X G"]
    ) -> tuple[Float[Array, "B K"], Cache]:
        self.images.check("Eye", x)
        pixels, prepare = at("prepare", self.images.prepare).forward(None, x)
        patches, _ = at("patches", self.patches).forward(None, pixels)
        tokens, patch = at("patch", self.patch).forward(params.patch, patches)
        resid, _ = at("positions", self.positions).forward(params.positions, tokens)
        blocks = []
        for i in range(self.depth):
            resid, block = at(f"blocks.{i}", self.block).forward(params.blocks[i], resid)
            blocks.append(block)
        h, squash = at("squash", self.squash).forward(params.squash, resid)
        pooled, pool = at("pool", MeanPool()).forward(None, h)
        logits, head = at("head", self.head).forward(params.head, pooled)
        return logits, Cache(prepare, patch, tuple(blocks), squash, pool, head)

    def backward(
        self, params: Params, cache: Cache, dy: Float[Array, "B K"]
    ) -> tuple[Float[Array, "B Y X G"] | None, Params]:
        dpooled, dhead = at("head", self.head).backward(params.head, cache.head, dy)
        dh, _ = at("pool", MeanPool()).backward(None, cache.pool, dpooled)
        dresid, dsquash = at("squash", self.squash).backward(params.squash, cache.squash, dh)
        dblocks = []
        for i in reversed(range(self.depth)):
            dresid, dblock = at(f"blocks.{i}", self.block).backward(params.blocks[i], cache.blocks[i], dresid)
            dblocks.insert(0, dblock)
        dtokens, dpositions = at("positions", self.positions).backward(params.positions, None, dresid)
        dpatches, dpatch = at("patch", self.patch).backward(params.patch, cache.patch, dtokens)
        dpixels, _ = at("patches", self.patches).backward(None, None, dpatches)
        dx, _ = at("prepare", self.images.prepare).backward(None, cache.prepare, dpixels)
        return dx, Params(dpatch, dpositions, tuple(dblocks), dsquash, dhead)
