"""T5: reads one text in both directions, then writes another, token by token, looking at what it has read.

source ids -> embedding -> L blocks with relative bias -> norm -> memory
target ids -> embedding -> L decoder blocks, each token looking back and at the memory -> norm -> logits

One table embeds both texts and is the head as well, scaled by 1 / sqrt(C) (v1.0), or the head has its own (v1.1). Where
a token stands is told by the relative bias alone, one for all blocks of the encoder and one for those of the decoder.
Raffel et al., 2020; the defaults are those of T5 small. v1.1: T5(gated=True, activation=GELUTanh(), tied=False).
Ids are integers and have no gradient: dx is Inputs(None, None). Without a key nothing is dropped out.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import at_least
from glassformer.layers import (
    Attention,
    BiasedPreNormBlock,
    Dropout,
    Embedding,
    FeedForward,
    GatedFeedForward,
    MultiHeadAttention,
    PreNormDecoderBlock,
    RelativeBias,
    ReLU,
    RMSNorm,
    TiedHead,
    embedding,
    relative_bias,
    tied_head,
)
from glassformer.layers.contract import split_or_none
from glassformer.layers.linear import project
from glassformer.layers.masks import Mask, within
from glassformer.models import t5_decoder, t5_encoder
from glassformer.models.incremental import Incremental, Source
from glassformer.models.kv_cache import KVCache, attend_cached, attend_next
from glassformer.models.model import Network
from glassformer.models.t5_decoder import T5Decoder
from glassformer.models.t5_encoder import T5Encoder
from glassformer.models.text import Activation, Text
from glassformer.names import at, named_leaves, with_leaves
from glassformer.shapes import Array, Bool, Float, Integer, Key


class Params(NamedTuple):
    embed: embedding.Params
    encoder: t5_encoder.Params
    decoder: t5_decoder.Params
    head: embedding.Params | None  # None: the table of the embedding


class Inputs(NamedTuple):
    source: Integer[Array, "B S"]  # the text to read
    target: Integer[Array, "B T"]  # the text written so far, behind a start token


class Cache(NamedTuple):
    embed: embedding.Cache
    encoder: t5_encoder.Cache
    embed_target: embedding.Cache
    decoder: t5_decoder.Cache
    head: tied_head.Cache


class State(NamedTuple):
    """What is kept of the prompt, and of the answer so far. All rows are at the same place of their answers."""

    source: Source  # its memory: for the cross-attention of each block, the keys and values of the prompt
    blocks: tuple[KVCache, ...]
    place: Integer[Array, "B"]  # where the next token of each row will stand


@dataclass(frozen=True)
class T5(Network, Incremental):
    tasks: ClassVar[tuple[str, ...]] = ("translate",)
    output_axis: ClassVar[str] = "symbols"
    has_stack = True

    text: Text = Text(vocabulary=32128, context=512)  # the context bounds source and target, each
    width: int = 512  # C
    hidden: int = 2048  # F
    heads: int = 8  # H
    head_width: int = 64  # D
    depth: int = 6  # L, of the encoder
    decoder_depth: int | None = None  # None: as the encoder
    buckets: int = 32  # R, of the relative biases
    reach: int = 128
    gated: bool = False
    activation: Activation = ReLU()
    tied: bool = True
    dropout: float = 0.0
    eps: float = 1e-6  # of the norms

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("T5", 1, depth=self.depth, decoder_depth=self.decoder_blocks)

    @property
    def input(self) -> Text:
        return self.text

    @property
    def decoder_blocks(self) -> int:
        return self.depth if self.decoder_depth is None else self.decoder_depth

    @property
    def embed(self) -> Embedding:
        return Embedding(self.text.vocabulary, self.width, std=1.0)

    @property
    def norm(self) -> RMSNorm:
        return RMSNorm(self.width, self.eps)

    @property
    def drop(self) -> Dropout:
        return Dropout(self.dropout)

    @property
    def attn(self) -> MultiHeadAttention:
        return MultiHeadAttention(
            self.width, self.heads, bias=False, head_width=self.head_width, attend=Attention(scale=1.0)
        )

    @property
    def ff(self) -> FeedForward | GatedFeedForward:
        kind = GatedFeedForward if self.gated else FeedForward
        return kind(self.width, self.hidden, self.activation, bias=False)

    @property
    def encoder(self) -> T5Encoder:
        block = BiasedPreNormBlock(self.norm, self.attn, self.ff, self.drop)
        return T5Encoder(self.bias(bidirectional=True), block, self.norm, self.drop, self.depth)

    @property
    def decoder(self) -> T5Decoder:
        block = PreNormDecoderBlock(self.norm, self.attn, self.attn, self.ff, self.drop)
        return T5Decoder(self.bias(bidirectional=False), block, self.norm, self.drop, self.decoder_blocks)

    def bias(self, *, bidirectional: bool) -> RelativeBias:
        return RelativeBias(self.heads, self.buckets, self.reach, bidirectional, std=self.width**-0.5)

    @property
    def own_head(self) -> Embedding:
        return Embedding(self.text.vocabulary, self.width, std=self.width**-0.5)

    @property
    def head(self) -> TiedHead:
        return TiedHead(self.text.vocabulary, scale=self.width**-0.5 if self.tied else 1.0)

    def example(self, batch: int) -> Inputs:
        return Inputs(source=self.text.example(batch), target=self.text.example(batch))  # pyright: ignore[reportArgumentType]

    def init(self, key: Key) -> Params:
        """As T5 starts: values of unit size everywhere, and queries small enough to stand in for the missing scale."""
        key_embed, key_encoder, key_decoder, key_head = jax.random.split(key, 4)
        return Params(
            embed=self.embed.init(key_embed),
            encoder=self.start(self.encoder, key_encoder),
            decoder=self.start(self.decoder, key_decoder),
            head=None if self.tied else self.own_head.init(key_head),
        )

    def start(self, half: T5Encoder | T5Decoder, key: Key) -> Any:
        _, _, *keys = jax.random.split(key, 2 + half.depth)
        return half.init(key)._replace(blocks=tuple(self.start_block(half.block, key_block) for key_block in keys))

    def start_block(self, block: BiasedPreNormBlock | PreNormDecoderBlock, key: Key) -> Any:
        key, key_normal = jax.random.split(key)
        leaves, structure = jax.tree.flatten(block.init(key))
        keys = jax.random.split(key_normal, len(leaves))
        params = structure.unflatten(
            jax.random.normal(k, leaf.shape) * leaf.shape[0] ** -0.5 if leaf.ndim == 2 else leaf
            for k, leaf in zip(keys, leaves, strict=True)
        )
        queries = {name: leaf for name, leaf in named_leaves(params).items() if name.endswith(".w_q")}
        return with_leaves(params, {name: leaf * self.head_width**-0.5 for name, leaf in queries.items()})

    def forward(
        self,
        params: Params,
        x: Inputs,
        *,
        keep: Bool[Array, "B S"] | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "B T V"], Cache]:
        """`keep` is the padding mask of the source. A target padded at its end needs none."""
        self.text.check("T5, source", x.source)
        self.text.check("T5, target", x.target)
        mask = None if keep is None else Mask(keep=keep)
        key_encoder, key_decoder = split_or_none(key, 2)
        source, embed = at("embed", self.embed).forward(params.embed, x.source)
        memory, encoder = at("encoder", self.encoder).forward(params.encoder, source, mask=mask, key=key_encoder)
        target, embed_target = at("embed_target", self.embed).forward(params.embed, x.target)
        read = t5_decoder.Inputs(x=target, memory=memory)
        h, decoder = at("decoder", self.decoder).forward(params.decoder, read, memory_mask=mask, key=key_decoder)
        table = params.embed if params.head is None else params.head
        logits, head = at("head", self.head).forward(None, tied_head.Inputs(x=h, emb=table.emb))
        return logits, Cache(embed=embed, encoder=encoder, embed_target=embed_target, decoder=decoder, head=head)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T V"]) -> tuple[Any, Params]:
        d, _ = at("head", self.head).backward(None, cache.head, dy)
        dread, ddecoder = at("decoder", self.decoder).backward(params.decoder, cache.decoder, d.x)
        _, dembed_target = at("embed_target", self.embed).backward(params.embed, cache.embed_target, dread.x)
        dsource, dencoder = at("encoder", self.encoder).backward(params.encoder, cache.encoder, dread.memory)
        _, dembed_source = at("embed", self.embed).backward(params.embed, cache.embed, dsource)
        demb = dembed_source.emb + dembed_target.emb  # one table for both texts
        # table = embed or head
        if params.head is None:  # tied: read a third time, at the output
            demb, dhead = demb + d.emb, None
        else:
            dhead = embedding.Params(emb=d.emb)
        dx = Inputs(None, None)  # pyright: ignore[reportArgumentType]
        return dx, Params(embed=embedding.Params(emb=demb), encoder=dencoder, decoder=ddecoder, head=dhead)

    @property
    def longest(self) -> int:
        """Of the prompt, and by itself of the answer."""
        return self.text.context

    def prefill(
        self, params: Params, ids: Integer[Array, "B S"], lengths: Integer[Array, "B"], *, start_token: Any = 0
    ) -> tuple[Float[Array, "B V"], State]:
        """The encoder over the prompts, then the first step, with the start token."""
        keep = within(lengths, ids.shape[1])
        tokens, _ = self.embed.forward(params.embed, ids)
        memory, _ = self.encoder.forward(params.encoder, tokens, mask=Mask(keep=keep))
        split, batch = self.attn.split, len(ids)
        source = tuple(
            KVCache(k=split(project(memory, cross.w_k, cross.b_k)), v=split(project(memory, cross.w_v, cross.b_v)))
            for cross in (block.cross for block in params.decoder.blocks)
        )
        empty = jnp.zeros((batch, self.longest, self.heads, self.head_width), memory.dtype)
        blocks = (KVCache(k=empty, v=empty),) * self.decoder_blocks
        state = State(Source(keep, source), blocks, jnp.zeros(batch, jnp.int32))
        return self.step(params, state, jnp.full(batch, start_token))

    def step(self, params: Params, state: State, tokens: Integer[Array, "B"]) -> tuple[Float[Array, "B V"], State]:
        """What `forward` gives behind the last token of the answer, from that token and what is kept of the others."""
        now = relative_bias.Inputs(query=state.place[:1], memory=jnp.arange(self.longest))
        bias, _ = self.decoder.bias.forward(params.decoder.bias, now)  # (1, H, 1, M)
        resid, _ = self.embed.forward(params.embed, tokens[:, None])
        norm, attn, ff, blocks = self.norm, self.attn, self.ff, []
        for weights, cache, cross in zip(params.decoder.blocks, state.blocks, state.source.memory, strict=True):
            h, _ = norm.forward(weights.norm1, resid)
            a, cache = attend_next(attn, weights.attn, h, cache, state.place, bias)
            resid = resid + a
            h, _ = norm.forward(weights.norm2, resid)
            q = attn.split(project(h, weights.cross.w_q, weights.cross.b_q))
            resid = resid + attend_cached(attn, weights.cross, q, cross, Mask(keep=state.source.keep))
            h, _ = norm.forward(weights.norm3, resid)
            f, _ = ff.forward(weights.ff, h)
            resid = resid + f
            blocks.append(cache)
        h, _ = norm.forward(params.decoder.norm, resid)
        table = params.embed if params.head is None else params.head
        scores, _ = self.head.forward(None, tied_head.Inputs(x=h[:, 0], emb=table.emb))
        return scores, State(state.source, tuple(blocks), state.place + 1)
