"""Texts and rows as a run reads them, and everything that can be wrong with them, before anything is computed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from glassformer.data.table import LARGEST, is_number
from glassformer.data.tokeniser import SPELLINGS, Spans, Tokeniser
from glassformer.errors import CheckpointError, DataError
from glassformer.train.tasks import Masked, Vectors
from glassformer.train.tasks.sequences import symbol

if TYPE_CHECKING:
    from glassformer.predict.run import Run

SHOWN = 5  # unknown characters in a message


class Reading(NamedTuple):
    text: str
    ids: list[int]
    places: Spans  # the characters that each symbol stands for
    where: str  # for messages


def named(texts: Sequence[str], what: str) -> list[tuple[str, str]]:
    """Each with what a message calls it."""
    return [(f"the {what}" if len(texts) == 1 else f"{what} {i + 1}", text) for i, text in enumerate(texts)]


def read(run: "Run", where: str, text: str) -> Reading:
    """As its task asks for it."""
    if isinstance(run.recipe.task, Masked):
        text = with_own_mask(tokeniser_of(run), where, text)
    return encoded(run, where, text)


def encoded(run: "Run", where: str, text: str) -> Reading:
    tokeniser = tokeniser_of(run)
    # a published encoder has learned what stands for unknown words; of those trained here nobody has seen it
    unknown = [] if isinstance(run.recipe.task, Vectors) else tokeniser.unknown_in(text)
    if unknown:
        more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
        raise DataError(
            f"{where}: {shortened(text)!r} has {', '.join(map(repr, unknown[:SHOWN]))}{more}, which the run's "
            "tokeniser does not know: no training text had it; leave it out, or train with texts that have it"
        )
    ids, places = tokeniser.offsets(text)
    if not ids:
        raise DataError(f"{where}: there is nothing in it to read; write at least one character")
    return Reading(text, ids, places, where)


def with_own_mask(tokeniser: Tokeniser, where: str, text: str) -> str:
    """The text with every <mask>, however it is spelled, as the tokeniser spells it. All spellings are as long."""
    own = tokeniser.symbol(symbol(tokeniser, "mask"))
    for spelling in SPELLINGS["mask"]:
        text = text.replace(spelling, own)
    if own not in text:
        raise DataError(
            f"{where}: nothing is covered up in {shortened(text)!r}; write <mask> where a symbol is to be found"
        )
    return text


def row_of(run: "Run", where: str, text: str) -> np.ndarray:
    cells = [cell.strip() for cell in text.split(",")]
    count = run.model.example(1).shape[-1]
    if len(cells) != count or not all(map(is_number, cells)):
        raise DataError(f"{where}: {shortened(text)!r} came, expected {count} numbers with commas between: 5.1,3.5,…")
    numbers = [float(cell) for cell in cells]
    if not all(abs(number) <= LARGEST for number in numbers):  # NaN is not either
        raise DataError(f"{where}: {shortened(text)!r} has a number that is not finite in 32 bits; fill it in")
    return np.array(numbers, np.float32)


def check_lengths(readings: list[Reading], rows: list[list[int]], context: int) -> None:
    for reading, row in zip(readings, rows, strict=True):
        if len(row) > context:
            frame = len(row) - len(reading.ids)
            raise DataError(
                f"{reading.where}: {shortened(reading.text)!r} is {len(reading.ids)} symbols long, the run's context "
                f"takes {context - frame}; shorten it by {len(row) - context}"
            )


def must_answer(run: "Run") -> None:
    if isinstance(run.recipe.task, Vectors):
        raise DataError(f"{run.path}: this run gives embeddings, and no answers: glassformer embed {run.path}")


def tokeniser_of(run: "Run") -> Tokeniser:
    if run.tokeniser is None:
        raise CheckpointError(
            f"{run.path}: {type(run.model).__name__} reads texts, and there is no tokenizer.json; copy the whole folder"
        )
    return run.tokeniser


def context_of(run: "Run") -> int:
    return run.model.input.context  # pyright: ignore[reportAttributeAccessIssue]


def shortened(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
