"""The patch-attention digit classifier: one head of attention over image patches, nothing else around it.

image -> patches -> linear + positions + ReLU -> attention -> feed-forward -> mean over tokens -> linear -> logits

No residual, no normalisation, no output projection after attention: the smallest model in which attention does the
work, and small enough to follow every number. `vit` is what it grows into.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax

from glassformer.layers import (
    FeedForward,
    Linear,
    MeanPool,
    MultiHeadAttention,
    Patches,
    Positions,
    ReLU,
    SelfAttention,
    feed_forward,
    linear,
    mean_pool,
    positions,
    relu,
    self_attention,
    standardise,
)
from glassformer.models.images import Images
from glassformer.models.model import Model
from glassformer.names import scope
from glassformer.shapes import Array, Float, Key, UInt8


class Params(NamedTuple):
    patch: linear.Params
    positions: positions.Params
    attn: self_attention.Params
    ff: feed_forward.Params
    head: linear.Params


class Cache(NamedTuple):
    prepare: standardise.Cache
    patch: linear.Cache
    relu: relu.Cache
    attn: self_attention.Cache
    ff: feed_forward.Cache
    pool: mean_pool.Cache
    head: linear.Cache


@dataclass(frozen=True)
class PatchAttention(Model):
    images: Images = Images()
    patch_size: int = 4
    width: int = 16  # C
    hidden: int = 32  # F
    start: positions.Start = positions.Uniform(0.1)

    @property
    def patches(self) -> Patches:
        return Patches(self.images.shape, self.patch_size)

    @property
    def patch(self) -> Linear:
        return Linear(self.patches.values, self.width)

    @property
    def positions(self) -> Positions:
        return Positions(self.patches.tokens, self.width, self.start)

    @property
    def attn(self) -> SelfAttention:
        return SelfAttention(MultiHeadAttention(self.width, heads=1, output=False))

    @property
    def ff(self) -> FeedForward:
        return FeedForward(self.width, self.hidden, ReLU())

    @property
    def head(self) -> Linear:
        return Linear(self.width, self.images.classes)

    def init(self, key: Key) -> Params:
        key_patch, key_positions, key_attn, key_ff, key_head = jax.random.split(key, 5)
        return Params(
            patch=self.patch.init(key_patch),
            positions=self.positions.init(key_positions),
            attn=self.attn.init(key_attn),
            ff=self.ff.init(key_ff),
            head=self.head.init(key_head),
        )

    def forward(
        self, params: Params, x: Float[Array, "B Y X G"] | UInt8[Array, "B Y X G"]
    ) -> tuple[Float[Array, "B K"], Cache]:
        self.check_input(x)
        with scope("prepare"):
            pixels, prepare = self.images.prepare.forward(None, x)
        with scope("patches"):
            patches, _ = self.patches.forward(None, pixels)
        with scope("patch"):
            tokens, patch = self.patch.forward(params.patch, patches)
        with scope("positions"):
            tokens, _ = self.positions.forward(params.positions, tokens)
        with scope("relu"):
            tokens, relu = ReLU().forward(None, tokens)
        with scope("attn"):
            z, attn = self.attn.forward(params.attn, tokens)
        with scope("ff"):
            z, ff = self.ff.forward(params.ff, z)
        with scope("pool"):
            pooled, pool = MeanPool().forward(None, z)
        with scope("head"):
            logits, head = self.head.forward(params.head, pooled)
        return logits, Cache(prepare=prepare, patch=patch, relu=relu, attn=attn, ff=ff, pool=pool, head=head)

    def backward(
        self, params: Params, cache: Cache, dy: Float[Array, "B K"]
    ) -> tuple[Float[Array, "B Y X G"] | None, Params]:
        with scope("head"):
            dpooled, dhead = self.head.backward(params.head, cache.head, dy)
        with scope("pool"):
            dz, _ = MeanPool().backward(None, cache.pool, dpooled)
        with scope("ff"):
            dz, dff = self.ff.backward(params.ff, cache.ff, dz)
        with scope("attn"):
            dtokens, dattn = self.attn.backward(params.attn, cache.attn, dz)
        with scope("relu"):
            dtokens, _ = ReLU().backward(None, cache.relu, dtokens)
        with scope("positions"):
            dtokens, dpositions = self.positions.backward(params.positions, None, dtokens)
        with scope("patch"):
            dpatches, dpatch = self.patch.backward(params.patch, cache.patch, dtokens)
        with scope("patches"):
            dpixels, _ = self.patches.backward(None, None, dpatches)
        with scope("prepare"):
            dx, _ = self.images.prepare.backward(None, cache.prepare, dpixels)
        return dx, Params(patch=dpatch, positions=dpositions, attn=dattn, ff=dff, head=dhead)
