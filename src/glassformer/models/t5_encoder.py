"""The half of T5 that reads: from the embedded source, the memory that the decoder attends to.

x -> drop -> L pre-norm blocks, which share one relative bias -> norm -> drop -> memory
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from glassformer.layers import (
    BiasedPreNormBlock,
    Dropout,
    RelativeBias,
    RMSNorm,
    biased_pre_norm_block,
    dropout,
    pre_norm_block,
    relative_bias,
    rms_norm,
)
from glassformer.layers.contract import split_or_none
from glassformer.layers.masks import Mask
from glassformer.models.stack import Stack, Stacked
from glassformer.names import at
from glassformer.shapes import Array, Bool, Float, Key


class Params(NamedTuple):
    bias: relative_bias.Params
    blocks: tuple[pre_norm_block.Params, ...] | Stacked
    norm: rms_norm.Params


class Cache(NamedTuple):
    drop: dropout.Cache
    bias: relative_bias.Cache
    blocks: tuple[pre_norm_block.Cache, ...] | Stacked
    norm: rms_norm.Cache
    drop_memory: dropout.Cache


@dataclass(frozen=True)
class T5Encoder:
    bias: RelativeBias
    block: BiasedPreNormBlock
    norm: RMSNorm
    drop: Dropout
    depth: int  # L

    @property
    def blocks(self) -> Stack:
        return Stack(self.block)

    def init(self, key: Key) -> Params:
        key_bias, key_norm, *keys = jax.random.split(key, 2 + self.depth)
        return Params(
            bias=self.bias.init(key_bias),
            blocks=tuple(self.block.init(key_block) for key_block in keys),
            norm=self.norm.init(key_norm),
        )

    def forward(
        self,
        params: Params,
        x: Float[Array, "B S C"],
        *,
        mask: Bool[Array, "#B #H #S #S"] | Mask | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "B S C"], Cache]:
        key_drop, key_memory, *keys = split_or_none(key, 2 + self.depth)
        place = jnp.arange(x.shape[1])
        resid, drop = at("drop", self.drop).forward(None, x, key=key_drop)
        bias, bias_cache = at("bias", self.bias).forward(params.bias, relative_bias.Inputs(query=place, memory=place))
        given = biased_pre_norm_block.Inputs(x=resid, bias=bias)
        resid, blocks = self.blocks.forward(params.blocks, given, mask=mask, keys=keys)
        h, norm = at("norm", self.norm).forward(params.norm, resid)
        memory, drop_memory = at("drop_memory", self.drop).forward(None, h, key=key_memory)
        return memory, Cache(drop=drop, bias=bias_cache, blocks=blocks, norm=norm, drop_memory=drop_memory)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B S C"]) -> tuple[Float[Array, "B S C"], Params]:
        dh, _ = at("drop_memory", self.drop).backward(None, cache.drop_memory, dy)
        dresid, dnorm = at("norm", self.norm).backward(params.norm, cache.norm, dh)
        d, dblocks = self.blocks.backward(params.blocks, cache.blocks, dresid)
        _, dtable = at("bias", self.bias).backward(params.bias, cache.bias, d.bias)
        dx, _ = at("drop", self.drop).backward(None, cache.drop, d.x)
        return dx, Params(bias=dtable, blocks=dblocks, norm=dnorm)
