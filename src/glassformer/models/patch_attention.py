"""The patch-attention digit classifier: one head of attention over image patches, nothing else around it.

image -> patches -> linear + positions + ReLU -> attention -> feed-forward -> mean over tokens -> linear -> logits

No residual, no normalisation, no output projection after attention: the smallest model in which attention does the
work, and small enough to follow every number. `vit` is what it grows into, `patch_block` puts parts around it.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax

from glassformer.layers import (
    FeedForward,
    Layer,
    Linear,
    MeanPool,
    MultiHeadAttention,
    Patches,
    Positions,
    ReLU,
    SelfAttention,
    linear,
    mean_pool,
    positions,
    relu,
    standardise,
)
from glassformer.models.images import Images
from glassformer.models.model import Network
from glassformer.names import at
from glassformer.shapes import Array, Float, Key, UInt8


class Params(NamedTuple):
    patch: linear.Params
    positions: positions.Params
    attn: Any  # of self-attention, and what stands around it
    ff: Any
    head: linear.Params


class Cache(NamedTuple):
    prepare: standardise.Cache
    patch: linear.Cache
    relu: relu.Cache
    attn: Any
    ff: Any
    pool: mean_pool.Cache
    head: linear.Cache


@dataclass(frozen=True)
class PatchAttention(Network):
    tasks: ClassVar[tuple[str, ...]] = ("classify", "regress")

    images: Images = Images()
    patch_size: int = 4
    width: int = 16  # C
    hidden: int = 32  # F
    start: positions.Start = positions.Uniform(0.1)

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
        return Positions(self.patches.tokens, self.width, self.start)

    @property
    def attn(self) -> Layer:
        return SelfAttention(MultiHeadAttention(self.width, heads=1, output=False))

    @property
    def ff(self) -> Layer:
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
        self.images.check(type(self).__name__, x)
        pixels, prepare = at("prepare", self.images.prepare).forward(None, x)
        patches, _ = at("patches", self.patches).forward(None, pixels)
        tokens, patch = at("patch", self.patch).forward(params.patch, patches)
        tokens, _ = at("positions", self.positions).forward(params.positions, tokens)
        tokens, relu = at("relu", ReLU()).forward(None, tokens)
        z, attn = at("attn", self.attn).forward(params.attn, tokens)
        z, ff = at("ff", self.ff).forward(params.ff, z)
        pooled, pool = at("pool", MeanPool()).forward(None, z)
        logits, head = at("head", self.head).forward(params.head, pooled)
        return logits, Cache(prepare=prepare, patch=patch, relu=relu, attn=attn, ff=ff, pool=pool, head=head)

    def backward(
        self, params: Params, cache: Cache, dy: Float[Array, "B K"]
    ) -> tuple[Float[Array, "B Y X G"] | None, Params]:
        dpooled, dhead = at("head", self.head).backward(params.head, cache.head, dy)
        dz, _ = at("pool", MeanPool()).backward(None, cache.pool, dpooled)
        dz, dff = at("ff", self.ff).backward(params.ff, cache.ff, dz)
        dtokens, dattn = at("attn", self.attn).backward(params.attn, cache.attn, dz)
        dtokens, _ = at("relu", ReLU()).backward(None, cache.relu, dtokens)
        dtokens, dpositions = at("positions", self.positions).backward(params.positions, None, dtokens)
        dpatches, dpatch = at("patch", self.patch).backward(params.patch, cache.patch, dtokens)
        dpixels, _ = at("patches", self.patches).backward(None, None, dpatches)
        dx, _ = at("prepare", self.images.prepare).backward(None, cache.prepare, dpixels)
        return dx, Params(patch=dpatch, positions=dpositions, attn=dattn, ff=dff, head=dhead)
