"""Recurrent classifier: reads a text token by token, and answers from the state it is left with.

ids -> reader (embedding, L recurrent cells) -> the state after the last real token -> linear -> logits

Padding stands at the end of a sequence, and `keep` is False there: the reader goes through it too, but
what it makes of it is not asked for. A sequence without any real token leaves the state that all start from, zero.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.layers import Linear, linear
from glassformer.models import recurrent
from glassformer.models.model import Network
from glassformer.models.recurrent import Cell, Reader
from glassformer.models.text import Text
from glassformer.names import at, tag
from glassformer.shapes import Array, Bool, Float, Integer, Key

if TYPE_CHECKING:
    from glassformer.data.dataset import Dataset


class LastCache(NamedTuple):
    is_last: Bool[Array, "B T"]  # at most once in each sequence


@dataclass(frozen=True)
class LastToken:
    """Last-token pool: the answer is read off the last token that is kept.

    forward    y = is_last @ x
    backward   dx = is_last^T @ dy

    is_last is 1 at the last place with keep, and nowhere where there is none.
    """

    def init(self, key: Key) -> None:
        return None

    def forward(
        self, params: None, x: Float[Array, "B T O"], *, keep: Bool[Array, "B T"] | None = None
    ) -> tuple[Float[Array, "B O"], LastCache]:
        keep = jnp.ones(x.shape[:2], bool) if keep is None else keep
        places = jnp.where(keep, jnp.arange(x.shape[1]), -1)
        is_last = tag("is_last", keep & (places == places.max(axis=1, keepdims=True)))
        y = tag("y", jnp.sum(jnp.where(is_last[..., None], x, 0), axis=1))
        return y, LastCache(is_last=is_last)

    def backward(self, params: None, cache: LastCache, dy: Float[Array, "B O"]) -> tuple[Float[Array, "B T O"], None]:
        dy = tag("dy", dy)
        # y = x where it is the last
        return jnp.where(cache.is_last[..., None], dy[:, None], 0), None


class Params(NamedTuple):
    reader: recurrent.Params
    head: linear.Params


class Cache(NamedTuple):
    reader: recurrent.Cache
    last: LastCache
    head: linear.Cache


@dataclass(frozen=True)
class RecurrentClassifier(Network):
    text: Text = Text()
    classes: int = 2  # K
    width: int = 512  # C: of the embedding
    hidden: int = 512  # O: of the states
    depth: int = 2  # L
    cell: Cell = "lstm"
    dropout: float = 0.0

    @property
    def input(self) -> Text:
        return self.text

    @property
    def reader(self) -> Reader:
        return Reader(self.text, self.width, self.hidden, self.depth, self.cell, self.dropout)

    @property
    def head(self) -> Linear:
        return Linear(self.hidden, self.classes)

    def for_data(self, data: "Dataset", task: str) -> "RecurrentClassifier":
        return replace(self, text=self.text.for_data(data), classes=len(data.classes))

    def init(self, key: Key) -> Params:
        key_reader, key_head = jax.random.split(key)
        return Params(reader=self.reader.init(key_reader), head=self.head.init(key_head))

    def forward(
        self,
        params: Params,
        x: Integer[Array, "B T"],
        *,
        keep: Bool[Array, "B T"] | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "B K"], Cache]:
        self.text.check("RecurrentClassifier", x)
        states, reader = at("reader", self.reader).forward(params.reader, x, key=key)
        h, last = at("last", LastToken()).forward(None, states, keep=keep)
        logits, head = at("head", self.head).forward(params.head, h)
        return logits, Cache(reader=reader, last=last, head=head)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B K"]) -> tuple[None, Params]:
        dh, dhead = at("head", self.head).backward(params.head, cache.head, dy)
        dstates, _ = at("last", LastToken()).backward(None, cache.last, dh)
        _, dreader = at("reader", self.reader).backward(params.reader, cache.reader, dstates)
        return None, Params(reader=dreader, head=dhead)
