"""GPT: a language model. From the tokens so far, scores for the one that comes next, at every place at once.

ids -> embedding + positions -> L pre-norm blocks, each token looking back only -> norm -> the table again -> logits

The head is the embedding table read the other way (tied), or a table of its own. Positions are a learned table, as in
GPT-2, or turn queries and keys inside attention (rotary). Radford et al., 2019; the defaults are those of GPT-2 small.
Ids are integers and have no gradient: dx is None. Without a key nothing is dropped out.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, cast

import jax
import jax.numpy as jnp

from glassformer.layers import (
    Attention,
    CausalSelfAttention,
    Dropout,
    Embedding,
    FeedForward,
    GELUTanh,
    GroupedQueryAttention,
    Layer,
    LayerNorm,
    MultiHeadAttention,
    Positions,
    PreNormBlock,
    Rotary,
    TiedHead,
    checkpoint,
    dropout,
    embedding,
    layer_norm,
    positions,
    pre_norm_block,
    tied_head,
)
from glassformer.layers.attend import Attend
from glassformer.layers.contract import split_or_none
from glassformer.models.attending import Attending
from glassformer.models.incremental import ENDLESS, Incremental
from glassformer.models.kv_cache import KVCache, attend_next, first_cache, keys_and_values, rolls, with_room
from glassformer.models.text import Activation, Text, normal_matrices
from glassformer.models.tied_output import TiedOutput
from glassformer.names import at
from glassformer.shapes import Array, Bool, Float, Integer, Key


class Params(NamedTuple):
    embed: embedding.Params
    positions: positions.Params | None  # None: rotary
    blocks: tuple[pre_norm_block.Params, ...]
    norm: layer_norm.Params
    head: embedding.Params | None  # None: the table of the embedding


class Cache(NamedTuple):
    """Positions keep nothing."""

    embed: embedding.Cache
    drop: dropout.Cache
    blocks: tuple[pre_norm_block.Cache | checkpoint.Cache, ...]
    norm: layer_norm.Cache
    head: tied_head.Cache | None  # None where head and loss are one (losses/head_and_loss.py)


class State(NamedTuple):
    """What is kept of the tokens so far."""

    blocks: tuple[KVCache, ...]
    place: Integer[Array, "B"]  # where the next token of each row will stand


@dataclass(frozen=True)
class GPT(Attending, Incremental, TiedOutput):
    tasks: ClassVar[tuple[str, ...]] = ("next-token", "answer", "chat")
    output_axis: ClassVar[str] = "symbols"

    text: Text = Text()
    width: int = 768  # C
    hidden: int = 3072  # F
    heads: int = 12  # H
    depth: int = 12  # L
    rotary: Rotary | None = None  # None: a learned table of positions
    tied: bool = True
    dropout: float = 0.0
    eps: float = 1e-5  # of the norms
    activation: Activation = GELUTanh()
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
    def positions(self) -> Positions:
        return Positions(self.text.context, self.width)

    @property
    def attn(self) -> MultiHeadAttention | GroupedQueryAttention:
        if self.rotary is None:
            return MultiHeadAttention(self.width, self.heads, attend=self.attend)
        return GroupedQueryAttention(
            self.width, self.heads, self.heads, bias=True, rotary=self.rotary, attend=self.attend
        )

    @property
    def ff(self) -> FeedForward:
        return FeedForward(self.width, self.hidden, self.activation)

    @property
    def block(self) -> Layer:
        return self.kept(PreNormBlock(self.norm, CausalSelfAttention(self.attn), self.ff, self.drop))

    @property
    def drop(self) -> Dropout:
        return Dropout(self.dropout)

    @property
    def norm(self) -> LayerNorm:
        return LayerNorm(self.width, self.eps)

    @property
    def head(self) -> TiedHead:
        return TiedHead(self.text.vocabulary)

    def init(self, key: Key) -> Params:
        """Normal, as GPT-2 starts; what is added to the stream is smaller, so that depth does not widen it."""
        key, key_normal = jax.random.split(key)
        key_embed, key_positions, key_blocks, key_norm, key_head = jax.random.split(key, 5)
        params = Params(
            embed=self.embed.init(key_embed),
            positions=self.positions.init(key_positions) if self.rotary is None else None,
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
        self.text.check("GPT", x)
        mask = self.mask(keep)
        key_drop, *keys = split_or_none(key, 1 + self.depth)
        tokens, embed = at("embed", self.embed).forward(params.embed, x)
        if params.positions is not None:
            tokens, _ = at("positions", self.positions).forward(params.positions, tokens)
        resid, drop = at("drop", self.drop).forward(None, tokens, key=key_drop)
        resid, blocks = self.blocks.forward(params.blocks, resid, mask=mask, keys=keys)
        h, norm = at("norm", self.norm).forward(params.norm, resid)
        table = params.embed if params.head is None else params.head
        cache = Cache(embed=embed, drop=drop, blocks=blocks, norm=norm, head=None)
        return tied_head.Inputs(x=h, emb=table.emb), cache

    def from_head(self, params: Params, cache: Cache, d: tied_head.Inputs) -> Params:
        dresid, dnorm = at("norm", self.norm).backward(params.norm, cache.norm, d.x)
        dresid, dblocks = self.blocks.backward(params.blocks, cache.blocks, dresid)
        dtokens, _ = at("drop", self.drop).backward(None, cache.drop, dresid)
        dpositions = None
        if params.positions is not None:
            dtokens, dpositions = at("positions", self.positions).backward(params.positions, None, dtokens)
        _, dembed = at("embed", self.embed).backward(params.embed, cache.embed, dtokens)
        # table = embed or head
        if params.head is None:  # tied: read at the input and at the output
            dembed, dhead = embedding.Params(emb=dembed.emb + d.emb), None
        else:
            dhead = embedding.Params(emb=d.emb)
        return Params(embed=dembed, positions=dpositions, blocks=dblocks, norm=dnorm, head=dhead)

    @property
    def longest(self) -> int:
        """The context, but without end with a window and rotary positions."""
        return ENDLESS if self.rotary is not None and rolls(self.sees()) else self.text.context

    def prefill(
        self, params: Params, ids: Integer[Array, "B T"], lengths: Integer[Array, "B"]
    ) -> tuple[Float[Array, "B V"], State]:
        """The keys and values that forward keeps for backward are kept here. What pads a shorter prompt lies behind
        it, where no real token looks, and is overwritten as the row goes on."""
        longer = replace(self.text, context=max(self.text.context, ids.shape[1]))  # no more than `longest`
        h, cache = replace(self, checkpoint=False, text=longer).to_head(params, ids)
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
        if params.positions is not None and params.positions.pos is not None:
            resid = resid + params.positions.pos[state.place][:, None]
        norm, attn, ff, blocks = self.norm, self.attn, self.ff, []
        for weights, cache in zip(params.blocks, state.blocks, strict=True):
            h, _ = norm.forward(weights.norm1, resid)
            a, cache = attend_next(attn, weights.attn, h, cache, state.place, mask=self.sees())
            resid = resid + a
            h, _ = norm.forward(weights.norm2, resid)
            f, _ = ff.forward(weights.ff, h)
            resid = resid + f
            blocks.append(cache)
        h, _ = self.norm.forward(params.norm, resid)
        table = params.embed if params.head is None else params.head
        scores, _ = self.head.forward(None, tied_head.Inputs(x=h[:, 0], emb=table.emb))
        return scores, State(tuple(blocks), state.place + 1)
