"""What the recurrent models share: a reader, which goes through a text token by token and keeps a state.

ids -> embedding -> drop -> cell -> drop -> cell -> … -> drop -> the state of the last cell after each token

A cell is a tanh RNN, an LSTM or a GRU; those above read the states of the one below. Values are dropped between the
cells, never on the way from one time to the next (Zaremba et al., 2014). What a task makes of the states stands in
recurrent_lm.py and recurrent_classifier.py: what one of them has learned, `params.reader`, the other can start from.
Ids are integers and have no gradient: dx is None. Without a key nothing is dropped out.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax

from glassformer.errors import SettingError, at_least
from glassformer.layers import GRU, LSTM, RNN, Dropout, Embedding, dropout, embedding, gru, lstm, rnn
from glassformer.layers.contract import split_or_none
from glassformer.models.text import Text
from glassformer.names import at, nearest
from glassformer.shapes import Array, Float, Integer, Key

Cell = Literal["rnn", "lstm", "gru"]
CellParams = rnn.Params | lstm.Params | gru.Params
CellCache = rnn.Cache | lstm.Cache | gru.Cache

CELLS: dict[str, type[RNN] | type[LSTM] | type[GRU]] = {"rnn": RNN, "lstm": LSTM, "gru": GRU}
KNOWN = ", ".join(CELLS)


class Params(NamedTuple):
    embed: embedding.Params
    cells: tuple[CellParams, ...]


class Cache(NamedTuple):
    embed: embedding.Cache
    drops: tuple[dropout.Cache, ...]  # before each cell, and after the last
    cells: tuple[CellCache, ...]


@dataclass(frozen=True)
class Reader:
    text: Text
    width: int  # C: of the embedding
    hidden: int  # O: of the states
    depth: int  # L
    cell: Cell
    dropout: float = 0.0
    std: float = 1.0  # of the embedding at the start

    def __post_init__(self) -> None:
        at_least("recurrent", 1, width=self.width, hidden=self.hidden, depth=self.depth)
        if self.cell not in CELLS:
            raise SettingError(f"recurrent: cell {self.cell!r} came{nearest(self.cell, [*CELLS])}, expected {KNOWN}")

    @property
    def embed(self) -> Embedding:
        return Embedding(self.text.vocabulary, self.width, self.std)

    @property
    def drop(self) -> Dropout:
        return Dropout(self.dropout)

    @property
    def cells(self) -> tuple[RNN | LSTM | GRU, ...]:
        above = (self.hidden,) * (self.depth - 1)
        return tuple(CELLS[self.cell](inputs, self.hidden) for inputs in (self.width, *above))

    def init(self, key: Key) -> Params:
        """Cells and embedding start as PyTorch's. Nothing normalises what comes in: of an embedding as small as GPT-2's
        (0.02) a cell sees next to nothing: a GRU of width 64 ends 300 steps on characters at a loss of 3.4, not 2.1."""
        key_embed, *keys = jax.random.split(key, 1 + self.depth)
        cells = tuple(cell.init(key_cell) for cell, key_cell in zip(self.cells, keys, strict=True))
        return Params(embed=self.embed.init(key_embed), cells=cells)

    def forward(
        self, params: Params, x: Integer[Array, "B T"], *, key: Key | None = None
    ) -> tuple[Float[Array, "B T O"], Cache]:
        *keys, key_last = split_or_none(key, self.depth + 1)
        h, embed = at("embed", self.embed).forward(params.embed, x)
        drops, cells = [], []
        for i, (cell, key_drop) in enumerate(zip(self.cells, keys, strict=True)):
            h, cache = at(f"drops.{i}", self.drop).forward(None, h, key=key_drop)
            drops.append(cache)
            h, cache = at(f"cells.{i}", cell).forward(params.cells[i], h)  # pyright: ignore[reportArgumentType]
            cells.append(cache)
        h, cache = at(f"drops.{self.depth}", self.drop).forward(None, h, key=key_last)
        return h, Cache(embed=embed, drops=(*drops, cache), cells=tuple(cells))

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T O"]) -> tuple[None, Params]:
        dh, _ = at(f"drops.{self.depth}", self.drop).backward(None, cache.drops[-1], dy)
        dcells = []
        for i in reversed(range(self.depth)):
            dh, dcell = at(f"cells.{i}", self.cells[i]).backward(params.cells[i], cache.cells[i], dh)  # pyright: ignore
            dcells.append(dcell)
            dh, _ = at(f"drops.{i}", self.drop).backward(None, cache.drops[i], dh)
        _, dembed = at("embed", self.embed).backward(params.embed, cache.embed, dh)
        return None, Params(embed=dembed, cells=tuple(reversed(dcells)))
