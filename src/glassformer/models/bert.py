"""BERT: reads a text in both directions and gives every token a value that knows all the others.

ids -> token + segment + position embeddings -> norm -> L post-norm blocks -> one value per token

RoBERTa counts positions from `first_position`; DistilBERT has no segments, and ReLU in its pooler.

What a task makes of the values is a head's work (bert_heads.py): BERTFor(BERT(…), ClassHead(…)).
Devlin et al., 2018; the defaults are those of BERT base. Ids and segments are integers: dx is None.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.layers import (
    GELU,
    Attention,
    CountedPositions,
    Dropout,
    Embedding,
    FeedForward,
    FirstToken,
    Layer,
    LayerNorm,
    MaskedMeanPool,
    MultiHeadAttention,
    Positions,
    PostNormBlock,
    SelfAttention,
    Tanh,
    checkpoint,
    counted_positions,
    dropout,
    embedding,
    layer_norm,
    positions,
    post_norm_block,
)
from glassformer.layers.attend import Attend
from glassformer.layers.contract import keywords_for, split_or_none
from glassformer.models.attending import Attending
from glassformer.models.bert_heads import ClassHead, MaskedHead, MaskedInputs, Pooler, SpanHead, TagHead, VectorHead
from glassformer.models.model import Network
from glassformer.models.text import Activation, Text, normal_matrices
from glassformer.names import at
from glassformer.shapes import Array, Bool, Float, Integer, Key

if TYPE_CHECKING:
    from glassformer.data.dataset import Dataset

TASKS = ("masked", "classify", "tag", "span", "contrast")
Head = ClassHead | TagHead | SpanHead | MaskedHead | VectorHead


class Params(NamedTuple):
    embed: embedding.Params
    segment: embedding.Params | None  # None: there are no segments
    positions: positions.Params | counted_positions.Params
    norm: layer_norm.Params
    blocks: tuple[post_norm_block.Params, ...]


class Cache(NamedTuple):
    embed: embedding.Cache
    segment: embedding.Cache | None
    positions: counted_positions.Cache | None  # plain ones keep nothing
    norm: layer_norm.Cache
    drop: dropout.Cache
    blocks: tuple[post_norm_block.Cache | checkpoint.Cache, ...]


@dataclass(frozen=True)
class BERT(Attending):
    """BERT without a head: one value per token.

    forward    positions.x = embed.y + segment.y
    """

    tasks: ClassVar[tuple[str, ...]] = TASKS
    output_axis: ClassVar[str] = "numbers"

    text: Text = Text(vocabulary=30522, context=512)
    segments: int = 2  # kinds of text in one sequence: first and second sentence, question and answer; 0: not told
    first_position: int = 0  # above 0: padding is not counted, and the first token reads this row of the table
    width: int = 768  # C
    hidden: int = 3072  # F
    heads: int = 12  # H
    depth: int = 12  # L
    dropout: float = 0.0
    eps: float = 1e-12  # of the norms
    activation: Activation = GELU()
    pooler: Pooler = Tanh()  # the activation of a class head
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
    def segment(self) -> Embedding:
        return Embedding(self.segments, self.width)

    @property
    def positions(self) -> Layer:
        if self.first_position:
            rows = self.first_position + self.text.context
            return CountedPositions(rows, self.width, first=self.first_position)
        return Positions(self.text.context, self.width)

    @property
    def norm(self) -> LayerNorm:
        return LayerNorm(self.width, self.eps)

    @property
    def drop(self) -> Dropout:
        return Dropout(self.dropout)

    @property
    def block(self) -> Layer:
        block = PostNormBlock(
            norm=self.norm,
            attn=SelfAttention(MultiHeadAttention(self.width, self.heads, attend=self.attend)),
            ff=FeedForward(self.width, self.hidden, self.activation),
            dropout=self.drop,
        )
        return self.kept(block)

    def for_data(self, data: "Dataset", task: str) -> "BERTFor":
        """With the head of the task."""
        bert = replace(self, text=self.text.for_data(data))
        return BERTFor(bert, bert.head_for(task, len(data.classes)))

    def head_for(self, task: str, classes: int) -> Head:
        if task == "masked":
            return MaskedHead(self.width, self.text.vocabulary, eps=self.eps, activation=self.activation)
        if task == "span":
            return SpanHead(self.width)
        if task == "contrast":
            return VectorHead()
        if task == "classify":
            return ClassHead(self.width, classes, self.dropout, self.pooler)
        return TagHead(self.width, classes, self.dropout)

    def init(self, key: Key) -> Params:
        key, key_normal = jax.random.split(key)
        key_embed, key_segment, key_positions, key_norm, key_blocks = jax.random.split(key, 5)
        params = Params(
            embed=self.embed.init(key_embed),
            segment=self.segment.init(key_segment) if self.segments else None,
            positions=self.positions.init(key_positions),
            norm=self.norm.init(key_norm),
            blocks=tuple(self.block.init(key_block) for key_block in jax.random.split(key_blocks, self.depth)),
        )
        return normal_matrices(key_normal, params)

    def forward(
        self,
        params: Params,
        x: Integer[Array, "B T"],
        *,
        segments: Integer[Array, "B T"] | None = None,
        keep: Bool[Array, "B T"] | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "B T C"], Cache]:
        """Without `segments` all is of kind 0; a model that has none does not read them. `keep` is False at padding."""
        self.text.check("BERT", x)
        mask = self.mask(keep)
        key_drop, *keys = split_or_none(key, 1 + self.depth)
        h, embed = at("embed", self.embed).forward(params.embed, x)
        segment = None
        if params.segment is not None:
            segments = jnp.zeros_like(x) if segments is None else segments
            kinds, segment = at("segment", self.segment).forward(params.segment, segments)
            h = h + kinds
        counting = keywords_for(self.positions, keep=keep)
        placed, places = at("positions", self.positions).forward(params.positions, h, **counting)
        h, norm = at("norm", self.norm).forward(params.norm, placed)
        h, drop = at("drop", self.drop).forward(None, h, key=key_drop)
        h, blocks = self.blocks.forward(params.blocks, h, mask=mask, keys=keys)
        return h, Cache(embed=embed, segment=segment, positions=places, norm=norm, drop=drop, blocks=blocks)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T C"]) -> tuple[None, Params]:
        dh, dblocks = self.blocks.backward(params.blocks, cache.blocks, dy)
        dh, _ = at("drop", self.drop).backward(None, cache.drop, dh)
        dplaced, dnorm = at("norm", self.norm).backward(params.norm, cache.norm, dh)
        dh, dpositions = at("positions", self.positions).backward(params.positions, cache.positions, dplaced)
        dsegment = None
        if params.segment is not None and cache.segment is not None:
            dkinds = dh  # h + kinds
            _, dsegment = at("segment", self.segment).backward(params.segment, cache.segment, dkinds)
        _, dembed = at("embed", self.embed).backward(params.embed, cache.embed, dh)
        return None, Params(embed=dembed, segment=dsegment, positions=dpositions, norm=dnorm, blocks=dblocks)


class TaskParams(NamedTuple):
    bert: Params
    head: Any  # the head's own


class TaskCache(NamedTuple):
    bert: Cache
    head: Any


@dataclass(frozen=True)
class BERTFor(Network):
    """BERT with a head: it reads the whole text in both directions, and the head answers.

    For another task keep `params.bert` and take another head.
    """

    has_stack = True

    bert: BERT
    head: Head

    @property
    def input(self) -> Text:
        return self.bert.text

    @property
    def tasks(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.head.task, *(task for task in TASKS if task != self.head.task)

    @property
    def output_axis(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.head.output_axis

    @property
    def backbone(self) -> BERT:
        return self.bert

    def to_look_at(self) -> "BERTFor":
        return replace(self, bert=self.bert.to_look_at())

    def for_data(self, data: "Dataset", task: str) -> "BERTFor":
        return self.bert.for_data(data, task)

    def pooled(self, by: str) -> "BERTFor":
        if not isinstance(self.head, VectorHead):
            return self
        return replace(self, head=VectorHead(FirstToken() if by == "first" else MaskedMeanPool()))

    def init(self, key: Key) -> TaskParams:
        key_bert, key_head, key_normal = jax.random.split(key, 3)
        return TaskParams(bert=self.bert.init(key_bert), head=normal_matrices(key_normal, self.head.init(key_head)))

    def forward(
        self,
        params: TaskParams,
        x: Integer[Array, "B T"],
        *,
        segments: Integer[Array, "B T"] | None = None,
        keep: Bool[Array, "B T"] | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "..."], TaskCache]:
        key_bert, key_head = split_or_none(key, 2)
        h, bert = at("bert", self.bert).forward(params.bert, x, segments=segments, keep=keep, key=key_bert)
        given: Any = h
        if isinstance(self.head, MaskedHead):
            given = MaskedInputs(x=h, emb=params.bert.embed.emb if self.head.tied else None)
        y, head = at("head", self.head).forward(params.head, given, **keywords_for(self.head, key=key_head, keep=keep))
        return y, TaskCache(bert=bert, head=head)

    def backward(self, params: TaskParams, cache: TaskCache, dy: Float[Array, "..."]) -> tuple[None, TaskParams]:
        dgiven, dhead = at("head", self.head).backward(params.head, cache.head, dy)
        dh, demb_output = dgiven if isinstance(dgiven, MaskedInputs) else (dgiven, None)
        _, dbert = at("bert", self.bert).backward(params.bert, cache.bert, dh)
        if demb_output is not None:  # tied: the table was read at the input and at the output
            demb_input = dbert.embed.emb
            dbert = dbert._replace(embed=embedding.Params(emb=demb_input + demb_output))
        return None, TaskParams(bert=dbert, head=dhead)
