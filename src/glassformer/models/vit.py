"""Vision transformer: image patches as tokens, pre-norm encoder blocks, one answer per image.

image -> patches -> linear [+ class token] + positions -> depth x block -> norm -> pool -> linear -> logits

With a class token the answer is read off position 0, without one it is the mean over all tokens. Images are B x Y x X
pixels of G channels, bytes (which have no gradient: dx is None) or floats. Without a key nothing is dropped out.
Dosovitskiy et al., 2020. DeiT (Touvron et al., 2020) has a distillation token behind the class token, and may have a
head on each.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import jax

from glassformer.errors import SettingError
from glassformer.layers import (
    Attention,
    ClassToken,
    DistilledHead,
    Dropout,
    FeedForward,
    FirstToken,
    Layer,
    LayerNorm,
    Linear,
    MeanPool,
    MultiHeadAttention,
    Patches,
    Positions,
    PreNormBlock,
    SelfAttention,
    checkpoint,
    class_token,
    distilled_head,
    layer_norm,
    linear,
    mean_pool,
    positions,
    pre_norm_block,
    standardise,
)
from glassformer.layers.attend import Attend
from glassformer.layers.contract import split_or_none
from glassformer.models.attending import Attending
from glassformer.models.images import Images
from glassformer.names import at
from glassformer.shapes import Array, Float, Key, UInt8


class Params(NamedTuple):
    patch: linear.Params
    distillation_token: class_token.Params | None
    class_token: class_token.Params | None
    positions: positions.Params
    blocks: tuple[pre_norm_block.Params, ...]
    norm: layer_norm.Params
    head: linear.Params | distilled_head.Params


class Cache(NamedTuple):
    """Patches, class token and positions keep nothing."""

    prepare: standardise.Cache
    patch: linear.Cache
    blocks: tuple[pre_norm_block.Cache | checkpoint.Cache, ...]
    norm: layer_norm.Cache
    pool: mean_pool.Cache | None  # both pools keep the number of tokens; a distilled head reads all of them
    head: linear.Cache | distilled_head.Cache


@dataclass(frozen=True)
class ViT(Attending):
    tasks: ClassVar[tuple[str, ...]] = ("classify", "regress")

    images: Images = Images()
    patch_size: int = 4
    width: int = 64  # C
    hidden: int = 128  # F
    heads: int = 4  # H
    depth: int = 1  # L
    start: positions.Start = positions.Sinusoidal()  # first value of the trained table
    with_class_token: bool = False
    distillation: Literal["none", "token", "head"] = "none"  # DeiT: a token behind the class token; with a head, too
    dropout: float = 0.0
    eps: float = 1e-5  # of the norms; 1e-12 in published weights
    attend: Attend = Attention()
    window: int | None = None  # how far a token sees, itself counted; None: everywhere
    global_tokens: int = 0  # with a window: the first so many see all and are seen by all
    checkpoint: bool = False  # compute the insides of blocks again in backward instead of keeping them

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.distillation != "none" and not self.with_class_token:
            raise SettingError(
                f"ViT: distillation is {self.distillation!r}, and there is no class token that its token could follow; "
                "set with_class_token"
            )

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
    def class_token(self) -> ClassToken:
        return ClassToken(self.width)

    @property
    def positions(self) -> Positions:
        in_front = self.with_class_token + (self.distillation != "none")
        return Positions(self.patches.tokens + in_front, self.width, self.start)

    @property
    def block(self) -> Layer:
        block = PreNormBlock(
            norm=self.norm,
            attn=SelfAttention(MultiHeadAttention(self.width, self.heads, attend=self.attend)),
            ff=FeedForward(self.width, self.hidden),
            dropout=Dropout(self.dropout),
        )
        return self.kept(block)

    @property
    def norm(self) -> LayerNorm:
        return LayerNorm(self.width, self.eps)

    @property
    def pool(self) -> FirstToken | MeanPool:
        return FirstToken() if self.with_class_token else MeanPool()

    @property
    def head(self) -> Layer:
        return (DistilledHead if self.distillation == "head" else Linear)(self.width, self.images.classes)

    def init(self, key: Key) -> Params:
        key_patch, key_class, key_positions, key_blocks, key_norm, key_head = jax.random.split(key, 6)
        key_distillation = jax.random.fold_in(key_class, 1)
        distilled = self.distillation != "none"
        return Params(
            patch=self.patch.init(key_patch),
            class_token=self.class_token.init(key_class) if self.with_class_token else None,
            distillation_token=self.class_token.init(key_distillation) if distilled else None,
            positions=self.positions.init(key_positions),
            blocks=tuple(self.block.init(key_block) for key_block in jax.random.split(key_blocks, self.depth)),
            norm=self.norm.init(key_norm),
            head=self.head.init(key_head),
        )

    def forward(
        self, params: Params, x: Float[Array, "B Y X G"] | UInt8[Array, "B Y X G"], *, key: Key | None = None
    ) -> tuple[Float[Array, "B K"], Cache]:
        self.images.check(type(self).__name__, x)
        pixels, prepare = at("prepare", self.images.prepare).forward(None, x)
        patches, _ = at("patches", self.patches).forward(None, pixels)
        tokens, patch = at("patch", self.patch).forward(params.patch, patches)
        if params.distillation_token is not None:
            tokens, _ = at("distillation_token", self.class_token).forward(params.distillation_token, tokens)
        if params.class_token is not None:
            tokens, _ = at("class_token", self.class_token).forward(params.class_token, tokens)
        resid, _ = at("positions", self.positions).forward(params.positions, tokens)
        keys = split_or_none(key, self.depth)
        resid, blocks = self.blocks.forward(params.blocks, resid, mask=self.mask(), keys=keys)
        h, norm = at("norm", self.norm).forward(params.norm, resid)
        pool = None
        if self.distillation != "head":
            h, pool = at("pool", self.pool).forward(None, h)
        logits, head = at("head", self.head).forward(params.head, h)
        return logits, Cache(prepare=prepare, patch=patch, blocks=blocks, norm=norm, pool=pool, head=head)

    def backward(
        self, params: Params, cache: Cache, dy: Float[Array, "B K"]
    ) -> tuple[Float[Array, "B Y X G"] | None, Params]:
        dh, dhead = at("head", self.head).backward(params.head, cache.head, dy)
        if cache.pool is not None:
            dh, _ = at("pool", self.pool).backward(None, cache.pool, dh)
        dresid, dnorm = at("norm", self.norm).backward(params.norm, cache.norm, dh)
        dresid, dblocks = self.blocks.backward(params.blocks, cache.blocks, dresid)
        dtokens, dpositions = at("positions", self.positions).backward(params.positions, None, dresid)
        dclass_token = None
        if params.class_token is not None:
            dtokens, dclass_token = at("class_token", self.class_token).backward(params.class_token, None, dtokens)
        ddistillation = None
        if params.distillation_token is not None:
            token = at("distillation_token", self.class_token)
            dtokens, ddistillation = token.backward(params.distillation_token, None, dtokens)
        dpatches, dpatch = at("patch", self.patch).backward(params.patch, cache.patch, dtokens)
        dpixels, _ = at("patches", self.patches).backward(None, None, dpatches)
        dx, _ = at("prepare", self.images.prepare).backward(None, cache.prepare, dpixels)
        return dx, Params(
            patch=dpatch,
            class_token=dclass_token,
            distillation_token=ddistillation,
            positions=dpositions,
            blocks=dblocks,
            norm=dnorm,
            head=dhead,
        )
