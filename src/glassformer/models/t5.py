"""T5: reads one text in both directions, then writes another, token by token, looking at what it has read.

source ids -> embedding -> L blocks with relative bias -> norm -> memory
target ids -> embedding -> L decoder blocks, each token looking back and at the memory -> norm -> logits

One table embeds both texts and is the head as well, scaled by 1 / sqrt(C) (v1.0), or the head has its own (v1.1). Where
a token stands is told by the relative bias alone, one for all blocks of the encoder and one for those of the decoder.
Raffel et al., 2020; the defaults are those of T5 small. v1.1: T5(gated=True, activation=GELUTanh(), tied=False).
Ids are integers and have no gradient: dx is Inputs(None, None). Without a key nothing is dropped out.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import at_least
from glassformer.layers import (
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
    biased_pre_norm_block,
    dropout,
    embedding,
    pre_norm_block,
    pre_norm_decoder_block,
    relative_bias,
    rms_norm,
    tied_head,
)
from glassformer.layers.contract import split_or_none
from glassformer.layers.masks import padding
from glassformer.models.model import Network
from glassformer.models.text import Activation, Text
from glassformer.names import scope
from glassformer.shapes import Array, Bool, Float, Integer, Key

NO_BIAS = tied_head.Params(b=None)


class EncoderParams(NamedTuple):
    bias: relative_bias.Params
    blocks: tuple[pre_norm_block.Params, ...]
    norm: rms_norm.Params


class DecoderParams(NamedTuple):
    bias: relative_bias.Params
    blocks: tuple[pre_norm_decoder_block.Params, ...]
    norm: rms_norm.Params


class Params(NamedTuple):
    embed: embedding.Params
    encoder: EncoderParams
    decoder: DecoderParams
    head: embedding.Params | None  # None: the table of the embedding


class Inputs(NamedTuple):
    source: Integer[Array, "B S"]  # the text to read
    target: Integer[Array, "B T"]  # the text written so far, behind a start token


class EncoderCache(NamedTuple):
    drop: dropout.Cache
    bias: relative_bias.Cache
    blocks: tuple[pre_norm_block.Cache, ...]
    norm: rms_norm.Cache
    drop_memory: dropout.Cache


class DecoderCache(NamedTuple):
    drop: dropout.Cache
    bias: relative_bias.Cache
    blocks: tuple[pre_norm_decoder_block.Cache, ...]
    norm: rms_norm.Cache
    drop_last: dropout.Cache


class Cache(NamedTuple):
    embed: embedding.Cache
    encoder: EncoderCache
    embed_target: embedding.Cache
    decoder: DecoderCache
    head: tied_head.Cache


@dataclass(frozen=True)
class T5(Network):
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
        at_least("T5", 1, depth=self.depth, decoder_depth=self.decoder_blocks)

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
        return MultiHeadAttention(self.width, self.heads, bias=False, scale=1.0, head_width=self.head_width)

    @property
    def ff(self) -> FeedForward | GatedFeedForward:
        kind = GatedFeedForward if self.gated else FeedForward
        return kind(self.width, self.hidden, self.activation, bias=False)

    @property
    def encoder_bias(self) -> RelativeBias:
        return RelativeBias(self.heads, self.buckets, self.reach, std=self.width**-0.5)

    @property
    def decoder_bias(self) -> RelativeBias:
        return RelativeBias(self.heads, self.buckets, self.reach, bidirectional=False, std=self.width**-0.5)

    @property
    def encoder_block(self) -> BiasedPreNormBlock:
        return BiasedPreNormBlock(self.norm, self.attn, self.ff, self.drop)

    @property
    def decoder_block(self) -> PreNormDecoderBlock:
        return PreNormDecoderBlock(self.norm, self.attn, self.attn, self.ff, self.drop)

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
        key_encoder_bias, key_encoder_norm, *keys_encoder = jax.random.split(key_encoder, 2 + self.depth)
        key_decoder_bias, key_decoder_norm, *keys_decoder = jax.random.split(key_decoder, 2 + self.decoder_blocks)
        return Params(
            embed=self.embed.init(key_embed),
            encoder=EncoderParams(
                bias=self.encoder_bias.init(key_encoder_bias),
                blocks=tuple(self.start(self.encoder_block, key_block) for key_block in keys_encoder),
                norm=self.norm.init(key_encoder_norm),
            ),
            decoder=DecoderParams(
                bias=self.decoder_bias.init(key_decoder_bias),
                blocks=tuple(self.start(self.decoder_block, key_block) for key_block in keys_decoder),
                norm=self.norm.init(key_decoder_norm),
            ),
            head=None if self.tied else self.own_head.init(key_head),
        )

    def start(self, block: BiasedPreNormBlock | PreNormDecoderBlock, key: Key) -> Any:
        key, key_normal = jax.random.split(key)
        leaves, structure = jax.tree.flatten(block.init(key))
        keys = jax.random.split(key_normal, len(leaves))
        params = structure.unflatten(
            jax.random.normal(k, leaf.shape) * leaf.shape[0] ** -0.5 if leaf.ndim == 2 else leaf
            for k, leaf in zip(keys, leaves, strict=True)
        )
        attentions = [part for part in ("attn", "cross") if hasattr(params, part)]
        softened = {part: getattr(params, part) for part in attentions}
        return params._replace(
            **{part: attn._replace(w_q=attn.w_q * self.head_width**-0.5) for part, attn in softened.items()}
        )

    def forward(
        self,
        params: Params,
        x: Inputs,
        *,
        keep: Bool[Array, "B S"] | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "B T V"], Cache]:
        """`keep` is False at source tokens that only fill up. A target filled up at its end needs none."""
        self.text.check("T5, source", x.source)
        self.text.check("T5, target", x.target)
        mask = None if keep is None else padding(keep)
        key_encoder, key_decoder = split_or_none(key, 2)
        with scope("embed"):
            source, embed = self.embed.forward(params.embed, x.source)
        with scope("encoder"):
            memory, encoder = self.encode(params.encoder, source, mask, key_encoder)
        with scope("embed_target"):
            target, embed_target = self.embed.forward(params.embed, x.target)
        with scope("decoder"):
            h, decoder = self.decode(params.decoder, target, memory, mask, key_decoder)
        table = params.embed if params.head is None else params.head
        with scope("head"):
            logits, head = self.head.forward(NO_BIAS, tied_head.Inputs(x=h, emb=table.emb))
        return logits, Cache(embed=embed, encoder=encoder, embed_target=embed_target, decoder=decoder, head=head)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T V"]) -> tuple[Any, Params]:
        with scope("head"):
            d, _ = self.head.backward(NO_BIAS, cache.head, dy)
        with scope("decoder"):
            dtarget, dmemory, ddecoder = self.decode_backward(params.decoder, cache.decoder, d.x)
        with scope("embed_target"):
            _, dembed_target = self.embed.backward(params.embed, cache.embed_target, dtarget)
        with scope("encoder"):
            dsource, dencoder = self.encode_backward(params.encoder, cache.encoder, dmemory)
        with scope("embed"):
            _, dembed_source = self.embed.backward(params.embed, cache.embed, dsource)
        demb = dembed_source.emb + dembed_target.emb  # one table for both texts
        # table = embed or head
        if params.head is None:  # tied: read a third time, at the output
            demb, dhead = demb + d.emb, None
        else:
            dhead = embedding.Params(emb=d.emb)
        dx = Inputs(None, None)  # pyright: ignore[reportArgumentType]
        return dx, Params(embed=embedding.Params(emb=demb), encoder=dencoder, decoder=ddecoder, head=dhead)

    def encode(
        self,
        params: EncoderParams,
        x: Float[Array, "B S C"],
        mask: Bool[Array, "B 1 1 S"] | None,
        key: Key | None,
    ) -> tuple[Float[Array, "B S C"], EncoderCache]:
        """From the embedded source, the memory that the decoder looks at."""
        key_drop, key_memory, *keys = split_or_none(key, 2 + self.depth)
        place = jnp.arange(x.shape[1])
        with scope("drop"):
            resid, drop = self.drop.forward(None, x, key=key_drop)
        with scope("bias"):
            bias, bias_cache = self.encoder_bias.forward(params.bias, relative_bias.Inputs(query=place, memory=place))
        blocks = []
        for i, key_block in enumerate(keys):
            given = biased_pre_norm_block.Inputs(x=resid, bias=bias)
            with scope("blocks"), scope(i):
                resid, block = self.encoder_block.forward(params.blocks[i], given, mask=mask, key=key_block)
            blocks.append(block)
        with scope("norm"):
            h, norm = self.norm.forward(params.norm, resid)
        with scope("drop_memory"):
            memory, drop_memory = self.drop.forward(None, h, key=key_memory)
        return memory, EncoderCache(
            drop=drop, bias=bias_cache, blocks=tuple(blocks), norm=norm, drop_memory=drop_memory
        )

    def encode_backward(
        self, params: EncoderParams, cache: EncoderCache, dmemory: Float[Array, "B S C"]
    ) -> tuple[Float[Array, "B S C"], EncoderParams]:
        with scope("drop_memory"):
            dh, _ = self.drop.backward(None, cache.drop_memory, dmemory)
        with scope("norm"):
            dresid, dnorm = self.norm.backward(params.norm, cache.norm, dh)
        dbias: Any = 0  # every block read the same bias
        dblocks = []
        for i in reversed(range(self.depth)):
            with scope("blocks"), scope(i):
                d, dblock = self.encoder_block.backward(params.blocks[i], cache.blocks[i], dresid)
            dresid, dbias = d.x, dbias + d.bias
            dblocks.append(dblock)
        with scope("bias"):
            _, dtable = self.encoder_bias.backward(params.bias, cache.bias, dbias)
        with scope("drop"):
            dx, _ = self.drop.backward(None, cache.drop, dresid)
        return dx, EncoderParams(bias=dtable, blocks=tuple(reversed(dblocks)), norm=dnorm)

    def decode(
        self,
        params: DecoderParams,
        x: Float[Array, "B T C"],
        memory: Float[Array, "B S C"],
        memory_mask: Bool[Array, "B 1 1 S"] | None,
        key: Key | None,
    ) -> tuple[Float[Array, "B T C"], DecoderCache]:
        """From the embedded target and the memory, the values that the head reads."""
        key_drop, key_last, *keys = split_or_none(key, 2 + self.decoder_blocks)
        place = jnp.arange(x.shape[1])
        with scope("drop"):
            resid, drop = self.drop.forward(None, x, key=key_drop)
        with scope("bias"):
            bias, bias_cache = self.decoder_bias.forward(params.bias, relative_bias.Inputs(query=place, memory=place))
        blocks = []
        for i, key_block in enumerate(keys):
            given = pre_norm_decoder_block.Inputs(x=resid, memory=memory, bias=bias)
            with scope("blocks"), scope(i):
                resid, block = self.decoder_block.forward(
                    params.blocks[i], given, memory_mask=memory_mask, key=key_block
                )
            blocks.append(block)
        with scope("norm"):
            h, norm = self.norm.forward(params.norm, resid)
        with scope("drop_last"):
            h, drop_last = self.drop.forward(None, h, key=key_last)
        return h, DecoderCache(drop=drop, bias=bias_cache, blocks=tuple(blocks), norm=norm, drop_last=drop_last)

    def decode_backward(
        self, params: DecoderParams, cache: DecoderCache, dh: Float[Array, "B T C"]
    ) -> tuple[Float[Array, "B T C"], Float[Array, "B S C"], DecoderParams]:
        with scope("drop_last"):
            dh, _ = self.drop.backward(None, cache.drop_last, dh)
        with scope("norm"):
            dresid, dnorm = self.norm.backward(params.norm, cache.norm, dh)
        dbias: Any = 0  # every block read the same bias
        dmemory: Any = 0  # and the same memory
        dblocks = []
        for i in reversed(range(self.decoder_blocks)):
            with scope("blocks"), scope(i):
                d, dblock = self.decoder_block.backward(params.blocks[i], cache.blocks[i], dresid)
            dresid, dmemory, dbias = d.x, dmemory + d.memory, dbias + d.bias
            dblocks.append(dblock)
        with scope("bias"):
            _, dtable = self.decoder_bias.backward(params.bias, cache.bias, dbias)
        with scope("drop"):
            dx, _ = self.drop.backward(None, cache.drop, dresid)
        return dx, dmemory, DecoderParams(bias=dtable, blocks=tuple(reversed(dblocks)), norm=dnorm)
