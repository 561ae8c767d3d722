"""The half of T5 that writes: from the embedded target and the memory, the values that the head reads.

x -> drop -> L decoder blocks (causal, cross-attention to the memory), which share one relative bias -> norm -> drop
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from glassformer.layers import (
    Dropout,
    PreNormDecoderBlock,
    RelativeBias,
    RMSNorm,
    dropout,
    pre_norm_decoder_block,
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
    blocks: tuple[pre_norm_decoder_block.Params, ...] | Stacked
    norm: rms_norm.Params


class Inputs(NamedTuple):
    x: Float[Array, "B T C"]
    memory: Float[Array, "B S C"]


class Cache(NamedTuple):
    drop: dropout.Cache
    bias: relative_bias.Cache
    blocks: tuple[pre_norm_decoder_block.Cache, ...] | Stacked
    norm: rms_norm.Cache
    drop_last: dropout.Cache


@dataclass(frozen=True)
class T5Decoder:
    bias: RelativeBias
    block: PreNormDecoderBlock
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
        x: Inputs,
        *,
        memory_mask: Bool[Array, "#B #H #T #S"] | Mask | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "B T C"], Cache]:
        key_drop, key_last, *keys = split_or_none(key, 2 + self.depth)
        place = jnp.arange(x.x.shape[1])
        resid, drop = at("drop", self.drop).forward(None, x.x, key=key_drop)
        bias, bias_cache = at("bias", self.bias).forward(params.bias, relative_bias.Inputs(query=place, memory=place))
        given = pre_norm_decoder_block.Inputs(x=resid, memory=x.memory, bias=bias)
        resid, blocks = self.blocks.forward(params.blocks, given, memory_mask=memory_mask, keys=keys)
        h, norm = at("norm", self.norm).forward(params.norm, resid)
        h, drop_last = at("drop_last", self.drop).forward(None, h, key=key_last)
        return h, Cache(drop=drop, bias=bias_cache, blocks=blocks, norm=norm, drop_last=drop_last)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T C"]) -> tuple[Inputs, Params]:
        dh, _ = at("drop_last", self.drop).backward(None, cache.drop_last, dy)
        dresid, dnorm = at("norm", self.norm).backward(params.norm, cache.norm, dh)
        d, dblocks = self.blocks.backward(params.blocks, cache.blocks, dresid)
        _, dtable = at("bias", self.bias).backward(params.bias, cache.bias, d.bias)
        dx, _ = at("drop", self.drop).backward(None, cache.drop, d.x)
        return Inputs(x=dx, memory=d.memory), Params(bias=dtable, blocks=dblocks, norm=dnorm)
