"""Recurrent language model: from the tokens so far, scores for the one that comes next, at every place at once.

ids -> reader (embedding, L recurrent cells) -> states -> the table again -> logits

All it knows of the past is in its state, which is as large after a thousand tokens as after one: attention looks back
at the tokens themselves instead. For writing, `step` takes one token and the state, and gives both back.
The head is the embedding table read the other way (tied), or a table of its own.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import ShapeError
from glassformer.layers import Embedding, TiedHead, embedding, tied_head
from glassformer.layers.gates import State
from glassformer.models import recurrent
from glassformer.models.incremental import ENDLESS, Incremental
from glassformer.models.model import Network
from glassformer.models.recurrent import Cell, Reader
from glassformer.models.text import Text
from glassformer.names import at
from glassformer.shapes import Array, Bool, Float, Integer, Key

# How tables start. 0.3 lies between what the input wants and what the head wants: a GRU of width 384 is at a loss of
# 1.82 after 150 steps on characters, with 1.0 at 2.31.
TIED_STD, HEAD_STD = 0.3, 0.1


class Params(NamedTuple):
    reader: recurrent.Params
    head: embedding.Params | None  # None: the table of the embedding


class Cache(NamedTuple):
    reader: recurrent.Cache
    head: tied_head.Cache


@dataclass(frozen=True)
class RecurrentLM(Network, Incremental):
    tasks: ClassVar[tuple[str, ...]] = ("next-token", "answer", "chat")
    output_axis: ClassVar[str] = "symbols"

    text: Text = Text()
    width: int = 512  # C: of the embedding
    hidden: int = 512  # O: of the states
    depth: int = 2  # L
    cell: Cell = "lstm"
    tied: bool = True
    dropout: float = 0.0

    @property
    def input(self) -> Text:
        return self.text

    @property
    def reader(self) -> Reader:
        if self.tied and self.width != self.hidden:
            raise ShapeError(
                f"RecurrentLM: the embedding is {self.width} wide and the states are {self.hidden}; a tied head reads "
                f"the states with the embedding table: try width={self.hidden}, or tied=False"
            )
        std = TIED_STD if self.tied else 1.0
        return Reader(self.text, self.width, self.hidden, self.depth, self.cell, self.dropout, std)

    @property
    def head(self) -> TiedHead:
        return TiedHead(self.text.vocabulary)

    def init(self, key: Key) -> Params:
        key_reader, key_head = jax.random.split(key)
        own = None if self.tied else Embedding(self.text.vocabulary, self.hidden, HEAD_STD).init(key_head)
        return Params(reader=self.reader.init(key_reader), head=own)

    def forward(
        self,
        params: Params,
        x: Integer[Array, "B T"],
        *,
        keep: Bool[Array, "B T"] | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "B T V"], Cache]:
        """`keep` is taken so that all text models are called alike, and changes nothing: tokens that only fill a
        sequence up stand at its end, where nothing that comes before them has seen them."""
        self.text.check("RecurrentLM", x)
        h, reader = at("reader", self.reader).forward(params.reader, x, key=key)
        logits, head = self.scores(params, h)
        return logits, Cache(reader=reader, head=head)

    def scores(self, params: Params, h: Float[Array, "*B O"]) -> tuple[Float[Array, "*B V"], tied_head.Cache]:
        table = params.reader.embed if params.head is None else params.head
        return at("head", self.head).forward(None, tied_head.Inputs(x=h, emb=table.emb))

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T V"]) -> tuple[None, Params]:
        d, _ = at("head", self.head).backward(None, cache.head, dy)
        _, dreader = at("reader", self.reader).backward(params.reader, cache.reader, d.x)
        # table = embed or head
        if params.head is None:  # tied: read at the input and at the output
            dembed = embedding.Params(emb=dreader.embed.emb + d.emb)
            return None, Params(reader=dreader._replace(embed=dembed), head=None)
        return None, Params(reader=dreader, head=embedding.Params(emb=d.emb))

    def start_state(self, batch: int) -> tuple[State, ...]:
        """The state of every cell before the first token."""
        return tuple(cell.start_state(batch) for cell in self.reader.cells)

    @property
    def longest(self) -> int:
        return ENDLESS  # the state is as large after many tokens as after one

    def prefill(
        self, params: Params, ids: Integer[Array, "B T"], lengths: Integer[Array, "B"]
    ) -> tuple[Float[Array, "B V"], tuple[State, ...]]:
        """A row that is over keeps its state while longer ones go on."""

        def one(state, now):
            place, tokens = now
            _, after = self.step(params, state, tokens)
            goes_on = (place < lengths - 1)[:, None]
            return jax.tree.map(lambda new, old: jnp.where(goes_on, new, old), after, state), None

        before_last, _ = jax.lax.scan(one, self.start_state(len(ids)), (jnp.arange(ids.shape[1]), ids.T))
        return self.step(params, before_last, ids[jnp.arange(len(ids)), lengths - 1])

    def step(
        self, params: Params, state: tuple[State, ...], tokens: Integer[Array, "B"]
    ) -> tuple[Float[Array, "B V"], tuple[State, ...]]:
        """One token of each sequence: the scores that `forward` gives at its place, and the state to go on from."""
        embedded, _ = self.reader.embed.forward(params.reader.embed, tokens[:, None])
        h, after = embedded[:, 0], []
        for cell, weights, before in zip(self.reader.cells, params.reader.cells, state, strict=True):
            after.append(cell.step(weights, before, h))  # pyright: ignore[reportArgumentType]
            h = after[-1].h
        return self.scores(params, h)[0], tuple(after)
