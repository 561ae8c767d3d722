"""Llama: a language model of today's parts. RMS norm, rotary positions, grouped queries, a gated feed-forward.

ids -> embedding -> L pre-norm blocks, each token looking back only -> RMS norm -> logits

Against GPT (gpt.py): norms without mean and bias; places turn q and k instead of being added to tokens; several heads
of q share one of k and v, so that less is kept while writing; SwiGLU; no biases. Touvron et al., 2023. Its family:

Mistral    window
Qwen2      bias = "qkv"
Qwen3      head_norm = true, head_width
SmolLM     tied = true
Llama 3    rotary = { kind = "scaled-rotary", scaling = "llama3-scaling", base = 500000.0 }

The defaults are those of SmolLM 135M. Ids are integers and have no gradient: dx is None.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, cast

import jax
import jax.numpy as jnp

from glassformer.layers import (
    Attention,
    CausalSelfAttention,
    Embedding,
    GatedFeedForward,
    GroupedQueryAttention,
    HeadNorm,
    Layer,
    PreNormBlock,
    RMSNorm,
    Rotary,
    ScaledRotary,
    SiLU,
    TiedHead,
    checkpoint,
    embedding,
    pre_norm_block,
    rms_norm,
    tied_head,
)
from glassformer.layers.attend import Attend
from glassformer.layers.contract import split_or_none
from glassformer.layers.masks import within
from glassformer.models.attending import Attending
from glassformer.models.incremental import ENDLESS, Incremental
from glassformer.models.kv_cache import KVCache, attend_next, first_cache, keys_and_values, rolls, with_room
from glassformer.models.text import Activation, Text, normal_matrices
from glassformer.models.tied_output import TiedOutput
from glassformer.names import at
from glassformer.shapes import Array, Bool, Float, Integer, Key


class Params(NamedTuple):
    embed: embedding.Params
    blocks: tuple[pre_norm_block.Params, ...]
    norm: rms_norm.Params
    head: embedding.Params | None  # None: the table of the embedding


class Cache(NamedTuple):
    embed: embedding.Cache
    blocks: tuple[pre_norm_block.Cache | checkpoint.Cache, ...]
    norm: rms_norm.Cache
    head: tied_head.Cache | None  # None where head and loss are one (losses/head_and_loss.py)


class State(NamedTuple):
    """What is kept of the tokens so far."""

    blocks: tuple[KVCache, ...]
    place: Integer[Array, "B"]  # where the next token of each row will stand


@dataclass(frozen=True)
class Llama(Attending, Incremental, TiedOutput):
    tasks: ClassVar[tuple[str, ...]] = ("next-token", "answer", "chat")
    output_axis: ClassVar[str] = "symbols"

    text: Text = Text(49152, 2048)
    width: int = 576  # C
    hidden: int = 1536  # F
    heads: int = 9  # H
    key_heads: int = 3  # J
    head_width: int | None = None  # D; None: C / H
    depth: int = 30  # L
    rotary: Rotary | ScaledRotary = Rotary()
    head_norm: bool = False  # RMS norms of the heads of q and k
    bias: Literal["qkv"] | bool = False  # of attention; "qkv": none on the way out
    tied: bool = True
    eps: float = 1e-5  # of the norms
    activation: Activation = SiLU()
    attend: Attend = Attention()
    window: int | None = None  # how far a token sees, itself counted; None: everywhere
    global_tokens: int = 0  # with a window: the first so many see all and are seen by all
    checkpoint: bool = False  # compute the insides of blocks again in backward instead of keeping them

    @property
    def input(self) -> Text:
        return self.text

    @property
    def embed(self) -> Embedding:
        return Embedding(self.text.vocabulary, self.width)

    @property
    def attn(self) -> GroupedQueryAttention:
        plain = GroupedQueryAttention(self.width, self.heads, self.key_heads, self.head_width)
        norm = HeadNorm(plain.per_head, self.eps) if self.head_norm else None
        return replace(plain, bias=self.bias, norm=norm, rotary=self.rotary, attend=self.attend)

    @property
    def ff(self) -> GatedFeedForward:
        return GatedFeedForward(self.width, self.hidden, self.activation)

    @property
    def block(self) -> Layer:
        return self.kept(PreNormBlock(self.norm, CausalSelfAttention(self.attn), self.ff))

    @property
    def norm(self) -> RMSNorm:
        return RMSNorm(self.width, self.eps)

    @property
    def head(self) -> TiedHead:
        return TiedHead(self.text.vocabulary)

    def init(self, key: Key) -> Params:
        """Normal; what is added to the stream is smaller, as in GPT-2, so that depth does not widen it."""
        key_normal, key_embed, key_blocks, key_norm, key_head = jax.random.split(key, 5)
        params = Params(
            embed=self.embed.init(key_embed),
            blocks=tuple(self.block.init(key_block) for key_block in jax.random.split(key_blocks, self.depth)),
            norm=self.norm.init(key_norm),
            head=None if self.tied else self.embed.init(key_head),
        )
        params = normal_matrices(key_normal, params)
        return params._replace(blocks=tuple(map(self.softened, params.blocks)))

    def softened(self, block: pre_norm_block.Params) -> pre_norm_block.Params:
        share = (2 * self.depth) ** -0.5  # two branches of each block add to the stream
        return block._replace(
            attn=block.attn._replace(w_o=block.attn.w_o * share),
            ff=block.ff._replace(w_down=block.ff.w_down * share),
        )

    def forward(
        self,
        params: Params,
        x: Integer[Array, "B T"],
        *,
        keep: Bool[Array, "B T"] | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "B T V"], Cache]:
        """`keep` is the padding mask, False at padding; place 0 is the first token either way."""
        h, cache = self.to_head(params, x, keep=keep, key=key)
        logits, head = at("head", self.head).forward(None, h)
        return logits, cache._replace(head=head)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T V"]) -> tuple[None, Params]:
        d, _ = at("head", self.head).backward(None, cast(tied_head.Cache, cache.head), dy)
        return None, self.from_head(params, cache, d)

    def to_head(
        self,
        params: Params,
        x: Integer[Array, "B T"],
        *,
        keep: Bool[Array, "B T"] | None = None,
        key: Key | None = None,
    ) -> tuple[tied_head.Inputs, Cache]:
        self.text.check("Llama", x)
        keys = split_or_none(key, self.depth)
        resid, embed = at("embed", self.embed).forward(params.embed, x)
        resid, blocks = self.blocks.forward(params.blocks, resid, mask=self.mask(keep), keys=keys)
        h, norm = at("norm", self.norm).forward(params.norm, resid)
        table = params.embed if params.head is None else params.head
        return tied_head.Inputs(x=h, emb=table.emb), Cache(embed=embed, blocks=blocks, norm=norm, head=None)

    def from_head(self, params: Params, cache: Cache, d: tied_head.Inputs) -> Params:
        dresid, dnorm = at("norm", self.norm).backward(params.norm, cache.norm, d.x)
        dresid, dblocks = self.blocks.backward(params.blocks, cache.blocks, dresid)
        _, dembed = at("embed", self.embed).backward(params.embed, cache.embed, dresid)
        # table = embed or head
        if params.head is None:  # tied: read at the input and at the output
            dembed, dhead = embedding.Params(emb=dembed.emb + d.emb), None
        else:
            dhead = embedding.Params(emb=d.emb)
        return Params(embed=dembed, blocks=dblocks, norm=dnorm, head=dhead)

    @property
    def longest(self) -> int:
        """The context, but for a window or a rope that grows: those go on without end."""
        return ENDLESS if rolls(self.sees()) or self.rotary.by_length else self.text.context

    def prefill(
        self, params: Params, ids: Integer[Array, "B T"], lengths: Integer[Array, "B"]
    ) -> tuple[Float[Array, "B V"], State]:
        """The keys and values that forward keeps for backward are kept here. What pads a shorter prompt lies behind
        it, where no real token looks, and is overwritten as the row goes on."""
        longer = replace(self.text, context=max(self.text.context, ids.shape[1]))  # no more than `longest`
        plain = replace(self, checkpoint=False, text=longer)
        h, cache = plain.to_head(params, ids, keep=within(lengths, ids.shape[1]))
        inside: Any = cache.blocks
        blocks = tuple(first_cache(*keys_and_values(block.attn), lengths, self.sees()) for block in inside)
        last = h.x[jnp.arange(len(ids)), lengths - 1]
        scores, _ = self.head.forward(None, h._replace(x=last))
        return scores, State(blocks, lengths)

    def make_room(self, state: State, tokens: int) -> State:
        return state._replace(blocks=tuple(with_room(block, tokens, self.sees()) for block in state.blocks))

    def step(self, params: Params, state: State, tokens: Integer[Array, "B"]) -> tuple[Float[Array, "B V"], State]:
        """`forward` for one token of each row, at its place."""
        resid, _ = self.embed.forward(params.embed, tokens[:, None])
        norm, attn, ff, blocks = self.norm, self.attn, self.ff, []
        for weights, cache in zip(params.blocks, state.blocks, strict=True):
            h, _ = norm.forward(weights.norm1, resid)
            a, cache = attend_next(attn, weights.attn, h, cache, state.place, mask=self.sees())
            resid = resid + a
            h, _ = norm.forward(weights.norm2, resid)
            f, _ = ff.forward(weights.ff, h)
            resid = resid + f
            blocks.append(cache)
        h, _ = norm.forward(params.norm, resid)
        table = params.embed if params.head is None else params.head
        scores, _ = self.head.forward(None, tied_head.Inputs(x=h[:, 0], emb=table.emb))
        return scores, State(tuple(blocks), state.place + 1)
