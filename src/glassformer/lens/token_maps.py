"""Attention over tokens: a square or an oblong for each block and head, with a name for every row and column.

Rows are the tokens that look, columns those that are looked at. Of a T5 there are three kinds: the encoder over the
source, the decoder over what it has written (its rows and columns are what it reads), and the decoder over the source
(its rows are what it writes).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from glassformer.errors import SettingError, ShapeError
from glassformer.lens.attention_kind import Kind, kind_of

Place = int | Literal["mean", "last"]  # whose attention: of one token, of the last, or the mean over all
HEADINGS: dict[Kind, str] = {
    "self": "self-attention: every token may look at every token",
    "causal": "causal attention: a token may look at itself and at what came before",
    "cross": "cross-attention: what is written looks at what was read",
}


class Labels(NamedTuple):
    """A name for each token."""

    source: Sequence[str]  # what is read; of a T5 by its encoder
    target: Sequence[str] = ()  # a T5: what its decoder reads, from a start token on
    written: Sequence[str] = ()  # a T5: what its decoder writes at each place


@dataclass(frozen=True, eq=False)
class TokenMap:
    """The attention of one head of one block, or of all together."""

    name: str  # the value it was taken from: blocks.0.attn.pattern; or rollout
    kind: Kind
    block: int | None  # None: the model has no blocks, or these are all of them
    head: int | None  # None: all heads
    weights: np.ndarray  # (T, S)
    rows: tuple[str, ...]  # names of the tokens that look
    columns: tuple[str, ...]  # and of those that are looked at

    @property
    def title(self) -> str:
        if self.name == "rollout":
            return "rollout over all blocks"
        return f"head {self.head}" if self.block is None else f"block {self.block} · head {self.head}"

    def seen(self) -> np.ndarray:
        """Which cells a query may look at (T, S)."""
        everywhere = np.ones(self.weights.shape, bool)
        return np.tril(everywhere) if self.kind == "causal" else everywhere

    def of(self, place: Place) -> np.ndarray:
        """(S,): the row of one token, or the mean over all of them."""
        if place == "mean":
            return self.weights.mean(axis=0)
        row = len(self.rows) - 1 if place == "last" else place
        if not 0 <= row < len(self.rows):
            raise SettingError(
                f"query: token {row} came, expected 0 to {len(self.rows) - 1}: {' '.join(map(shown, self.rows))}"
            )
        return self.weights[row]


def token_maps(model: Any, maps: Mapping[str, np.ndarray], labels: Labels, sample: int = 0) -> list[TokenMap]:
    """Of maps (B, H, T, S) by name, one for each head, in the order of the model."""
    found = []
    for name, heads in maps.items():
        kind = kind_of(model, name)
        rows, columns = named(kind, labels, name, heads.shape[2:])
        found += [
            TokenMap(name, kind, block_of(name), head, weights, rows, columns)
            for head, weights in enumerate(heads[sample])
        ]
    return found


def rollout_maps(rolled: Mapping[Kind, np.ndarray], labels: Labels, sample: int = 0) -> list[TokenMap]:
    """Of what attention_rollout.py gives."""
    return [
        TokenMap("rollout", kind, None, None, one[sample], *named(kind, labels, "rollout", one.shape[1:]))
        for kind, one in rolled.items()
    ]


def chosen(
    maps: Sequence[TokenMap], kind: Kind | None = None, block: int | None = None, head: int | None = None
) -> list[TokenMap]:
    """Those of one kind, one block, one head; what the model does not have is an error that says what it has."""
    for what, wanted, there in (
        ("kind", kind, [one.kind for one in maps]),
        ("block", block, [one.block for one in maps]),
        ("head", head, [one.head for one in maps]),
    ):
        known = [value for value in dict.fromkeys(there) if value is not None]
        if wanted is not None and wanted not in known:
            raise SettingError(
                f"{what}: {wanted} came, and the model has {', '.join(map(str, known)) or 'none'}; choose one of them"
            )
    return [
        one
        for one in maps
        if kind in (None, one.kind)
        and (one.name == "rollout" or (block in (None, one.block) and head in (None, one.head)))
    ]


def by_kind(maps: Sequence[TokenMap]) -> list[tuple[Kind, list[TokenMap]]]:
    """In the order in which the kinds first come."""
    kinds: list[Kind] = list(dict.fromkeys(one.kind for one in maps))
    return [(kind, [one for one in maps if one.kind == kind]) for kind in kinds]


def named(kind: Kind, labels: Labels, name: str, shape: tuple[int, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    own = labels.target or labels.source
    rows, columns = {
        "self": (labels.source, labels.source),
        "causal": (own, own),
        "cross": (labels.written, labels.source),
    }[kind]
    if (len(rows), len(columns)) != shape:
        raise ShapeError(
            f"{name}: attention of {shape[0]} over {shape[1]} tokens came with {len(rows)} and {len(columns)} names; "
            "expected a name for each token"
        )
    return tuple(rows), tuple(columns)


def block_of(name: str) -> int | None:
    """
    >>> block_of("decoder.blocks.1.cross.pattern"), block_of("attn.pattern")
    (1, None)
    """
    words = name.split(".")
    return int(words[words.index("blocks") + 1]) if "blocks" in words else None


def shown(symbol: str) -> str:
    """White space as a sign that can be seen.

    >>> [shown(symbol) for symbol in ("a", " the", "\\n", "")]
    ['a', '␣the', '↵', '∅']
    """
    signs = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍", "\xa0": "␣"}
    return "".join(signs.get(character, character) for character in symbol) or "∅"
