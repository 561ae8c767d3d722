"""What a run makes of one text, and the score of that answer: the logits whose sum its gradient is taken of.

classify     the logit of the likeliest class
next-token   the logit of the likeliest symbol behind the last one
masked       the logits of the likeliest symbol at every <mask>
tag          the logits of the likeliest class at every symbol of the text
span         the logits of the start and of the end
translate    the logits of every symbol that is written, <end> included
"""

from typing import Any, NamedTuple

import numpy as np

from glassformer.lens.token_maps import Labels, shown
from glassformer.models.t5 import Inputs
from glassformer.train.answers import (
    Reading,
    TranslateAnswer,
    check_lengths,
    context_of,
    read,
    row_of,
    softmax,
    tokeniser_of,
)
from glassformer.train.resolve import text_of
from glassformer.train.run import Run
from glassformer.train.tasks import Classify, Masked, NextToken, Span, Tag, Translate
from glassformer.train.tasks.sequences import framed, symbol


class Asked(NamedTuple):
    """A text, or a row of numbers, as the model takes it: a batch of one."""

    x: Any
    labels: Labels
    written: list[int]  # a T5: the symbols that it writes


class Said(NamedTuple):
    text: str  # the answer, in a few words
    probability: float | None  # None: it is made of several
    dy: np.ndarray  # 1 at every logit of it, 0 elsewhere: where its gradient begins


def asked(run: Run, text: str, target: str | None = None) -> Asked:
    """`target` is what a T5 is made to write; without one, what it writes by itself."""
    if text_of(run.model) is None:
        names = [f"token {i}" for i in range(getattr(run.model, "tokens", 0))]
        return Asked(row_of(run, "the row", text)[None], Labels(names), [])
    reading, tokeniser = read(run, "the text", text), tokeniser_of(run)

    def names_of(ids: list[int]) -> list[str]:
        return [tokeniser.symbol(number) for number in ids]

    if isinstance(run.recipe.task, Translate):
        pad, end = symbol(tokeniser, "pad"), symbol(tokeniser, "end")
        source, written = [*reading.ids, end], to_write(run, reading, target)
        given = [pad, *written[:-1]]
        check_lengths([reading], [source], context_of(run))
        if target is not None:
            check_lengths([Reading(target, written[:-1], [], "the target")], [given], context_of(run))
        x = Inputs(source=as_batch(source), target=as_batch(given))  # pyright: ignore[reportArgumentType]
        return Asked(x, Labels(names_of(source), names_of(given), names_of(written)), written)
    ids = reading.ids if isinstance(run.recipe.task, NextToken) else framed(tokeniser, reading.ids)
    check_lengths([reading], [ids], context_of(run))
    return Asked(as_batch(ids), Labels(names_of(ids)), [])


def to_write(run: Run, reading: Reading, target: str | None) -> list[int]:
    tokeniser = tokeniser_of(run)
    end = symbol(tokeniser, "end")
    if target is not None:
        return [*read(run, "the target", target).ids, end]
    answer = run.answer([reading.text])[0]
    assert isinstance(answer, TranslateAnswer)
    written = tokeniser.encode(answer.text)
    return [*written, end] if answer.ended else written


def said(run: Run, given: Asked, logits: np.ndarray) -> Said:
    """Of the logits of that text."""
    task, dy = run.recipe.task, np.zeros(logits.shape, np.float32)
    if isinstance(task, Classify):
        best = int(logits[0].argmax())
        dy[0, best] = 1
        return Said(run.classes[best], float(softmax(logits[0])[best]), dy)
    if isinstance(task, Span):
        return span_said(given, logits, dy)
    if isinstance(task, Tag):
        inside = range(1, logits.shape[1] - 1)
        best = logits[0].argmax(axis=-1)
        dy[0, inside, best[inside]] = 1
        parts = [name for i, name in enumerate(run.classes) if i and i in best[inside]]
        return Said(", ".join(parts) or "no part", None, dy)
    if isinstance(task, Translate):
        dy[0, range(len(given.written)), given.written] = 1
        return Said(repr(tokeniser_of(run).decode(given.written)), None, dy)
    places = [logits.shape[1] - 1]
    if isinstance(task, Masked):
        places = np.flatnonzero(np.asarray(given.x)[0] == symbol(tokeniser_of(run), "mask")).tolist()
    return symbols_said(run, places, logits, dy)


def symbols_said(run: Run, places: list[int], logits: np.ndarray, dy: np.ndarray) -> Said:
    """A model's table may have more rows than there are symbols."""
    tokeniser = tokeniser_of(run)
    best = logits[0, places, : tokeniser.size].argmax(axis=-1)
    dy[0, places, best] = 1
    names = ", ".join(repr(shown(tokeniser.symbol(number))) for number in best)
    sure = float(softmax(logits[0, places[0]])[best[0]]) if len(places) == 1 else None
    return Said(names, sure, dy)


def span_said(given: Asked, logits: np.ndarray, dy: np.ndarray) -> Said:
    """The likeliest piece of the text's own symbols whose start is not behind its end."""
    p = softmax(logits[0, :, 1:-1])
    together = np.triu(np.outer(p[0], p[1]))
    first, last = (1 + int(i) for i in np.unravel_index(together.argmax(), together.shape))
    dy[0, 0, first] = dy[0, 1, last] = 1
    return Said(repr("".join(given.labels.source[first : last + 1]).strip()), float(together.max()), dy)


def as_batch(ids: list[int]) -> np.ndarray:
    return np.array([ids], np.int32)
