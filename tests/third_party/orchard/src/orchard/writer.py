"""Writer: a small language model with orchard's squashing in glassformer's blocks, and a head of its own.

ids -> embedding + positions -> depth x block, each token looking back only -> squash -> linear
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax

from glassformer.layers import (
    CausalSelfAttention,
    Embedding,
    FeedForward,
    Linear,
    MultiHeadAttention,
    Positions,
    PreNormBlock,
    embedding,
    linear,
    positions,
    pre_norm_block,
)
from glassformer.models import Network, Text
from glassformer.names import at
from glassformer.shapes import Array, Float, Integer, Key
from orchard import dynamic_tanh
from orchard.dynamic_tanh import DynamicTanh


class Params(NamedTuple):
    embed: embedding.Params
    positions: positions.Params
    blocks: tuple[pre_norm_block.Params, ...]
    squash: dynamic_tanh.Params
    head: linear.Params


class Cache(NamedTuple):
    embed: embedding.Cache
    blocks: tuple[pre_norm_block.Cache, ...]
    squash: dynamic_tanh.Cache
    head: linear.Cache


@dataclass(frozen=True)
class Writer(Network):
    tasks: ClassVar[tuple[str, ...]] = ("next-token",)
    output_axis: ClassVar[str] = "symbols"

    text: Text = Text(vocabulary=64, context=16)
    width: int = 8  # C
    hidden: int = 12  # F
    heads: int = 2  # H
    depth: int = 1  # L

    @property
    def input(self) -> Text:
        return self.text

    @property
    def embed(self) -> Embedding:
        return Embedding(self.text.vocabulary, self.width)

    @property
    def positions(self) -> Positions:
        return Positions(self.text.context, self.width)

    @property
    def squash(self) -> DynamicTanh:
        return DynamicTanh(self.width)

    @property
    def block(self) -> PreNormBlock:
        attention = CausalSelfAttention(MultiHeadAttention(self.width, self.heads))
        return PreNormBlock(self.squash, attention, FeedForward(self.width, self.hidden))

    @property
    def head(self) -> Linear:
        return Linear(self.width, self.text.vocabulary)

    def init(self, key: Key) -> Params:
        key_embed, key_positions, key_squash, key_head, *keys = jax.random.split(key, 4 + self.depth)
        return Params(
            embed=self.embed.init(key_embed),
            positions=self.positions.init(key_positions),
            blocks=tuple(map(self.block.init, keys)),
            squash=self.squash.init(key_squash),
            head=self.head.init(key_head),
        )

    def forward(self, params: Params, x: Integer[Array, "B T"]) -> tuple[Float[Array, "B T V"], Cache]:
        self.text.check("Writer", x)
        tokens, embed = at("embed", self.embed).forward(params.embed, x)
        resid, _ = at("positions", self.positions).forward(params.positions, tokens)
        blocks = []
        for i in range(self.depth):
            resid, block = at(f"blocks.{i}", self.block).forward(params.blocks[i], resid)
            blocks.append(block)
        h, squash = at("squash", self.squash).forward(params.squash, resid)
        logits, head = at("head", self.head).forward(params.head, h)
        return logits, Cache(embed, tuple(blocks), squash, head)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T V"]) -> tuple[None, Params]:
        dh, dhead = at("head", self.head).backward(params.head, cache.head, dy)
        dresid, dsquash = at("squash", self.squash).backward(params.squash, cache.squash, dh)
        dblocks = []
        for i in reversed(range(self.depth)):
            dresid, dblock = at(f"blocks.{i}", self.block).backward(params.blocks[i], cache.blocks[i], dresid)
            dblocks.insert(0, dblock)
        dtokens, dpositions = at("positions", self.positions).backward(params.positions, None, dresid)
        _, dembed = at("embed", self.embed).backward(params.embed, cache.embed, dtokens)
        return None, Params(dembed, dpositions, tuple(dblocks), dsquash, dhead)
