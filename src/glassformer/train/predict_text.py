"""What a run makes of texts, by its task; a run of a table classifies rows of numbers: "5.1,3.5,1.4,0.2".

classify     a class, and how likely each is
tag          the parts that were found: neighbouring tokens of one class, joined
span         the piece with the largest p(start) p(end) of all whose start is not behind their end
masked       for every <mask> the likeliest symbols
next-token   the likeliest symbols to come next, and how well the text itself was foreseen
translate    the text that is written when every time the likeliest symbol is taken

Texts are read side by side, filled up to one length. What fills up is never looked at, so that an answer is the same
whatever else is asked.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from math import exp
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from glassformer.data.dataset import IMAGES, TEXTS
from glassformer.data.table import LARGEST, is_number
from glassformer.data.tokeniser import SPELLINGS, Spans, Tokeniser
from glassformer.errors import CheckpointError, DataError
from glassformer.models.t5 import Inputs
from glassformer.train.score import score_of_logits
from glassformer.train.tasks import Classify, Masked, NextToken, Span, Tag, Task, Translate
from glassformer.train.tasks.sequences import filled, framed, symbol

if TYPE_CHECKING:
    from glassformer.train.run import Run

BEST = 5  # symbols that are named
AT_ONCE = 2048  # tokens read together
FIRST = 64  # places for a translation, doubled as often as it needs more: each size is compiled
SHOWN = 5  # unknown characters in a message


@dataclass(frozen=True)
class ClassAnswer:
    name: str
    probability: float
    probabilities: dict[str, float]  # of every class


@dataclass(frozen=True)
class Found:
    """A piece of the text: text[start:end] of what was read. What span gives, and tag several of."""

    name: str
    text: str
    start: int
    end: int
    probability: float  # of a tag: the mean over its tokens


@dataclass(frozen=True)
class TagAnswer:
    parts: tuple[Found, ...]


@dataclass(frozen=True)
class Guess:
    symbol: str
    probability: float


@dataclass(frozen=True)
class Gap:
    start: int  # where <mask> stands
    best: tuple[Guess, ...]


@dataclass(frozen=True)
class MaskedAnswer:
    gaps: tuple[Gap, ...]


@dataclass(frozen=True)
class NextAnswer:
    best: tuple[Guess, ...]
    loss: float | None  # nats for each symbol but the first; None: there is no other

    @property
    def perplexity(self) -> float | None:
        return None if self.loss is None else exp(self.loss)


@dataclass(frozen=True)
class TranslateAnswer:
    text: str
    ended: bool  # by <end>, not for want of room


Answer = ClassAnswer | TagAnswer | Found | MaskedAnswer | NextAnswer | TranslateAnswer


class Reading(NamedTuple):
    text: str
    ids: list[int]
    places: Spans  # the characters that each symbol stands for
    where: str  # for messages


def predict_texts(run: "Run", texts: Sequence[str]) -> list[Answer]:
    """One for each text, in order."""
    if isinstance(texts, str):
        raise DataError("answer: one text came, expected a list of texts: [text]")
    if run.model.input.reads == IMAGES:
        raise DataError(f"{run.path}: {type(run.model).__name__} reads images; give them to run.predict(images)")
    if run.model.input.reads != TEXTS:
        return of_rows(run, [row_of(run, *one) for one in named(texts, "row")])
    kind = type(run.recipe.task)
    if kind not in OF_TEXTS:
        known = ", ".join(task().name for task in OF_TEXTS)
        raise DataError(f"{run.path}: the task {run.recipe.task.name} has no answers; {known} have")
    return OF_TEXTS[kind](run, [read(run, *one) for one in named(texts, "text")])


def named(texts: Sequence[str], what: str) -> list[tuple[str, str]]:
    """Each with what a message calls it."""
    return [(f"the {what}" if len(texts) == 1 else f"{what} {i + 1}", text) for i, text in enumerate(texts)]


def read(run: "Run", where: str, text: str) -> Reading:
    tokeniser = tokeniser_of(run)
    if isinstance(run.recipe.task, Masked):
        text = with_own_mask(tokeniser, where, text)
    unknown = tokeniser.unknown_in(text)
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


def of_rows(run: "Run", rows: list[np.ndarray]) -> list[Answer]:
    if not rows:
        return []
    p = softmax(np.asarray(run.compiled_logits(run.params, np.stack(rows))))
    return [class_answer(run.classes, one) for one in p]


def classified(run: "Run", readings: list[Reading]) -> list[Answer]:
    return [class_answer(run.classes, softmax(logits)) for logits in framed_logits(run, readings)]


def class_answer(classes: tuple[str, ...], p: np.ndarray) -> ClassAnswer:
    best = int(p.argmax())
    return ClassAnswer(classes[best], float(p[best]), dict(zip(classes, p.tolist(), strict=True)))


def tagged(run: "Run", readings: list[Reading]) -> list[Answer]:
    return [
        TagAnswer(tuple(parts_in(reading, softmax(logits[inside(reading)]), run.classes)))
        for reading, logits in zip(readings, framed_logits(run, readings), strict=True)
    ]


def parts_in(reading: Reading, p: np.ndarray, classes: tuple[str, ...]) -> Iterator[Found]:
    """Class 0 is none; a piece of white space is no part."""
    kinds = p.argmax(axis=-1)
    for kind, neighbours in groupby(range(len(kinds)), lambda i: int(kinds[i])):
        tokens = list(neighbours)
        found = piece(reading, classes[kind], tokens[0], tokens[-1], float(p[tokens, kind].mean()))
        if kind and found.text:
            yield found


def spanned(run: "Run", readings: list[Reading]) -> list[Answer]:
    """Only the text's own tokens may begin or end it: neither the frame nor what fills up."""
    found = []
    for reading, logits in zip(readings, framed_logits(run, readings), strict=True):
        start, end = softmax(logits[:, inside(reading)])
        together = np.triu(np.outer(start, end))
        first, last = np.unravel_index(together.argmax(), together.shape)
        found.append(piece(reading, run.classes[0], int(first), int(last), float(together[first, last])))
    return found


def piece(reading: Reading, name: str, first: int, last: int, probability: float) -> Found:
    """From one token to another, without the white space around it: a byte pair may carry the space before it."""
    start, end = reading.places[first][0], reading.places[last][1]
    text = reading.text[start:end]
    start += len(text) - len(text.lstrip())
    text = text.strip()
    return Found(name, text, start, start + len(text), probability)


def filled_in(run: "Run", readings: list[Reading]) -> list[Answer]:
    tokeniser = tokeniser_of(run)
    mask = symbol(tokeniser, "mask")

    def gaps(reading: Reading, logits: np.ndarray) -> Iterator[Gap]:
        for i, number in enumerate(reading.ids):
            if number == mask:
                yield Gap(start=reading.places[i][0], best=likeliest(tokeniser, logits[1 + i]))

    rows = zip(readings, framed_logits(run, readings), strict=True)
    return [MaskedAnswer(tuple(gaps(reading, logits))) for reading, logits in rows]


def continued(run: "Run", readings: list[Reading]) -> list[Answer]:
    tokeniser = tokeniser_of(run)
    found = []
    for reading, logits in zip(readings, logits_of(run, readings, [one.ids for one in readings]), strict=True):
        following = np.array(reading.ids[1:])
        count = len(following)
        loss = score_of_logits(logits[:count], following).loss if count else None
        found.append(NextAnswer(likeliest(tokeniser, logits[count]), loss))
    return found


def likeliest(tokeniser: Tokeniser, logits: np.ndarray) -> tuple[Guess, ...]:
    """A model's table may have more rows than there are symbols: those are nothing that could be said."""
    p = softmax(logits)
    best = np.argsort(-p[: tokeniser.size], kind="stable")[:BEST]
    return tuple(Guess(tokeniser.symbol(int(number)), float(p[number])) for number in best)


def translated(run: "Run", readings: list[Reading]) -> list[Answer]:
    tokeniser, context = tokeniser_of(run), context_of(run)
    pad, end = symbol(tokeniser, "pad"), symbol(tokeniser, "end")
    found: list[Any] = [None] * len(readings)
    sources = [[*reading.ids, end] for reading in readings]
    check_lengths(readings, sources, context)
    for numbers, source, keep in padded_batches(sources, context, pad):
        target = np.full((len(source), context + 1), pad, np.int32)  # begins with <pad>, as in training
        ended = np.zeros(len(source), bool)
        for place in range(context):
            x = Inputs(source=source, target=target[:, : room(max(place + 1, FIRST), context)])  # pyright: ignore[reportArgumentType]
            logits = np.asarray(forward_at(run.model, run.params, x, keep, place))
            target[:, place + 1] = np.where(ended, pad, logits[:, : tokeniser.size].argmax(axis=-1))
            ended |= target[:, place + 1] == end
            if ended.all():
                break
        for i, row, is_ended in zip(numbers, target, ended, strict=False):  # there may be copies behind
            written = row[1:].tolist()
            written = written[: written.index(end)] if is_ended else written
            found[i] = TranslateAnswer(tokeniser.decode(written), bool(is_ended))
    return found


OF_TEXTS: dict[type[Task], Callable[["Run", list[Reading]], list[Answer]]] = {
    Classify: classified,
    Tag: tagged,
    Span: spanned,
    Masked: filled_in,
    NextToken: continued,
    Translate: translated,
}


def framed_logits(run: "Run", readings: list[Reading]) -> list[np.ndarray]:
    tokeniser = tokeniser_of(run)
    return logits_of(run, readings, [framed(tokeniser, reading.ids) for reading in readings])


def inside(reading: Reading) -> slice:
    """The text's own tokens between <start> and <end>."""
    return slice(1, 1 + len(reading.ids))


def logits_of(run: "Run", readings: list[Reading], rows: list[list[int]]) -> list[np.ndarray]:
    """What the model makes of each row; places behind its end are there, and mean nothing."""
    context = context_of(run)
    check_lengths(readings, rows, context)
    found: list[Any] = [None] * len(rows)
    for numbers, ids, keep in padded_batches(rows, context, tokeniser_of(run).id_of("pad") or 0):
        logits = np.asarray(forward(run.model, run.params, ids, keep))
        for i, one in zip(numbers, logits, strict=False):  # there may be copies behind
            found[i] = one
    return found


def padded_batches(
    rows: list[list[int]], context: int, fill: int
) -> Iterator[tuple[list[int], np.ndarray, np.ndarray]]:
    """Numbers of rows of nearly one length, those rows filled up, and where they are real.

    Lengths and counts are powers of two, so that a few compiled programs serve all: a part that has fewer rows gets
    some of them twice.
    """
    by_length: dict[int, list[int]] = {}
    for i, row in enumerate(rows):
        by_length.setdefault(room(len(row), context), []).append(i)
    for length, same in by_length.items():
        most = max(1, AT_ONCE // length)
        for at in range(0, len(same), most):
            numbers = same[at : at + most]
            ids, keep = filled([rows[i] for i in numbers], fill)
            copies = np.resize(np.arange(len(numbers)), room(len(numbers), most))
            behind = ((0, 0), (0, length - ids.shape[1]))
            yield numbers, np.pad(ids[copies], behind, constant_values=fill), np.pad(keep[copies], behind)


def room(count: int, most: int) -> int:
    """The next power of two, but not above `most`."""
    return min(most, 1 << (count - 1).bit_length())


@partial(jax.jit, static_argnames="model")
def forward(model: Any, params: Any, x: Any, keep: Any) -> Any:
    return model.forward(params, x, keep=keep)[0]


@partial(jax.jit, static_argnames="model")
def forward_at(model: Any, params: Any, x: Any, keep: Any, place: Any) -> Any:
    """At one place of all rows: the others need not be fetched."""
    return model.forward(params, x, keep=keep)[0][:, place]


def softmax(logits: np.ndarray) -> np.ndarray:
    x = logits.astype(np.float64)
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def row_of(run: "Run", where: str, text: str) -> np.ndarray:
    cells = [cell.strip() for cell in text.split(",")]
    count = run.model.columns.count  # pyright: ignore[reportAttributeAccessIssue]
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
