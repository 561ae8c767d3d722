"""Texts as rows of symbols: <start> text <end>, padded with <pad> to the longest."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from glassformer.data.texts import Example
from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import DataError


class Sequences(NamedTuple):
    ids: np.ndarray  # int32 (N, T)
    keep: np.ndarray  # bool (N, T): False at padding
    labels: np.ndarray  # int32, (N), (N, T) or (N, 2)
    counts: np.ndarray  # bool, as labels: which of them count


def symbol(tokeniser: Tokeniser, role: str) -> int:
    found = tokeniser.id_of(role)
    if found is None:
        raise DataError(f"the tokeniser has no symbol for {role!r}, which this task needs; train one, or add it")
    return found


def framed(tokeniser: Tokeniser, ids: Sequence[int]) -> list[int]:
    return [symbol(tokeniser, "start"), *ids, symbol(tokeniser, "end")]


def filled(rows: Sequence[Sequence[int]], fill: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows as one array, and where it is real."""
    lengths = np.array([len(row) for row in rows], int)
    array = np.full((len(rows), lengths.max(initial=1)), fill, np.int32)
    keep = np.arange(array.shape[1]) < lengths[:, None]
    array[keep] = np.fromiter((symbol for row in rows for symbol in row), np.int32, lengths.sum())
    return array, keep


def must_fit(where: str, texts: Sequence[str], rows: Sequence[Sequence[int]], context: int) -> None:
    """The longest is named: a context that takes it takes all of them."""
    text, row = max(zip(texts, rows, strict=True), key=lambda pair: len(pair[1]), default=("", ()))
    if len(row) > context:
        raise DataError(
            f"{where}: {shown(text)} is {len(row)} symbols long with its frame, the model's context is {context}; "
            f"shorten the text, or train with --set model.text.context={len(row)}"
        )


def shown(text: str) -> str:
    return repr(text if len(text) < 60 else f"{text[:60]}…")


def must_have(where: str, what: str, there: bool) -> None:
    if not there:
        raise DataError(f"{where}: its texts have no {what}, which this task needs; choose other data, or another task")


def must_be_pairs(where: str, examples: Sequence[Example]) -> None:
    """Two texts each, with something in them."""
    must_have(where, "second texts: they are no pairs", any(example.target for example in examples) or not examples)
    for example in examples:
        if not example.text.strip() or not example.target.strip():
            side = "first" if not example.text.strip() else "second"
            other = example.target if side == "first" else example.text
            raise DataError(
                f"{where}: the {side} text of a pair is empty, beside {shown(other)}; fill it in, or leave the pair out"
            )
