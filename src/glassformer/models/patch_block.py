"""The patch-attention classifier with one thing changed: what stands around its attention and its feed-forward.

image -> patches -> linear + positions + ReLU -> attention -> feed-forward -> mean over tokens -> linear -> logits

bare               f(x)               as in patch_attention.py, weight for weight
residual           x + f(x)           f: attention, then feed-forward
normed             f(norm(x))
normed-residual    x + f(norm(x))     the pre-norm block

For asking what a part is worth, one at a time. A seed draws the same weights in all of them: norms draw nothing, and
the matrices have the same shapes with one head or several, with an output projection or without.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

from glassformer.layers import (
    FeedForward,
    Layer,
    LayerNorm,
    Linear,
    MeanPool,
    MultiHeadAttention,
    Patches,
    Positions,
    PreNorm,
    ReLU,
    Residual,
    SelfAttention,
    linear,
    mean_pool,
    positions,
    relu,
    standardise,
)
from glassformer.models.images import Images
from glassformer.models.model import Model
from glassformer.names import scope
from glassformer.shapes import Array, Float, Key, UInt8


@dataclass(frozen=True)
class Bare:
    def around(self, branch: Layer, width: int) -> Layer:
        return branch


@dataclass(frozen=True)
class WithResidual:
    def around(self, branch: Layer, width: int) -> Layer:
        return Residual(branch)


@dataclass(frozen=True)
class Normed:
    def around(self, branch: Layer, width: int) -> Layer:
        return PreNorm(LayerNorm(width), branch)


@dataclass(frozen=True)
class NormedResidual:
    def around(self, branch: Layer, width: int) -> Layer:
        return Residual(PreNorm(LayerNorm(width), branch))


Block = Bare | WithResidual | Normed | NormedResidual


class Params(NamedTuple):
    patch: linear.Params
    positions: positions.Params
    attn: Any  # of self-attention and what the block puts around it
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
class PatchBlock(Model):
    images: Images = Images()
    patch_size: int = 4
    width: int = 16  # C
    hidden: int = 32  # F
    start: positions.Start = positions.Uniform(0.1)
    block: Block = Bare()
    heads: int = 1  # H
    output: bool = False  # True: w_o behind the joined heads

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
        attn = SelfAttention(MultiHeadAttention(self.width, self.heads, output=self.output))
        return self.block.around(attn, self.width)

    @property
    def ff(self) -> Layer:
        return self.block.around(FeedForward(self.width, self.hidden, ReLU()), self.width)

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
