"""What a model is shown, ready to be traced: its input, what counts as right, and what each token is called.

Where nobody knows the right answer, the model's own stands in for it: the gradient then says what would make the model
more sure of what it says.
"""

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from glassformer.models.model import Model
from glassformer.models.t5 import Inputs
from glassformer.train.answers import Reading, TranslateAnswer, check_lengths, context_of, read, row_of, tokeniser_of
from glassformer.train.resolve import text_of
from glassformer.train.run import Run
from glassformer.train.tasks import Masked, NextToken, Translate
from glassformer.train.tasks.sequences import framed, symbol

CLASS = "class"  # the token in front of the patches


@dataclass(frozen=True)
class Subject:
    kind: str  # image, text or row
    name: str
    x: Any  # a batch of one
    labels: np.ndarray
    is_known: bool  # the labels are right, not the model's own answer
    tokens: tuple[str, ...]  # as they are called; a patch by its row and column
    memory: tuple[str, ...] = ()  # of a second sequence, the one that is read: T5's source
    weights: np.ndarray | None = None
    words: tuple[str, ...] = ()  # what the rows of the logits' last axis are called
    keywords: dict[str, Any] = field(default_factory=dict)


def image_subject(run: Run, name: str, image: np.ndarray, label: int | None = None) -> Subject:
    """One image, uint8, of the run's shape."""
    x = run.as_batch(image[None])
    labels = np.array([int(run.predict(x)[0]) if label is None else label], np.int32)
    tokens: tuple[str, ...] = ()
    if hasattr(run.model, "patches"):
        rows, columns = run.model.patches.grid  # pyright: ignore[reportAttributeAccessIssue]
        tokens = tuple(f"{row},{column}" for row in range(rows) for column in range(columns))
        tokens = (CLASS, *tokens) if getattr(run.model, "with_class_token", False) else tokens
    return Subject("image", name, x, labels, label is not None, tokens, words=run.classes)


def text_subject(run: Run, name: str, text: str, label: str | None = None) -> Subject:
    """A text, or a row of numbers, as the run's task reads it. `label` is the right class or translation, if known."""
    if text_of(run.model) is None:
        x = row_of(run, "the row", text)[None]
        tokens = tuple(f"token {i}" for i in range(getattr(run.model, "tokens", 0)))
        return answered(run, Subject("row", name, x, np.zeros(0), False, tokens, words=run.classes), label)
    reading, tokeniser, task = read(run, "the text", text), tokeniser_of(run), run.recipe.task

    def named(ids: list[int]) -> tuple[str, ...]:
        return tuple(tokeniser.symbol(number) for number in ids)

    vocabulary = named(list(range(min(tokeniser.size, text_of(run.model).vocabulary))))  # pyright: ignore[reportOptionalMemberAccess]
    if isinstance(task, NextToken) and len(reading.ids) > 1:
        check_length(run, reading, reading.ids[:-1])
        x, labels = batch(reading.ids[:-1]), batch(reading.ids[1:])
        return Subject("text", name, x, labels, True, named(reading.ids[:-1]), words=vocabulary)
    if isinstance(task, Translate):
        return pair_subject(run, name, reading, label, vocabulary)
    ids = reading.ids if isinstance(task, NextToken) else framed(tokeniser, reading.ids)
    check_length(run, reading, ids)
    weights = None
    if isinstance(task, Masked):
        mask = symbol(tokeniser, "mask")
        weights = batch([int(number == mask) for number in ids]).astype(np.float32)
    words = vocabulary if isinstance(task, Masked | NextToken) else run.classes
    subject = Subject("text", name, batch(ids), np.zeros(0), False, named(ids), weights=weights, words=words)
    return answered(run, subject, label)


def pair_subject(run: Run, name: str, reading: Reading, label: str | None, words: tuple[str, ...]) -> Subject:
    """A text to read and one to write; without a translation, the run's own."""
    tokeniser = tokeniser_of(run)
    pad, end = symbol(tokeniser, "pad"), symbol(tokeniser, "end")
    if label is None:
        answer = run.answer([reading.text])[0]
        written = tokeniser.encode(answer.text if isinstance(answer, TranslateAnswer) else "")
    else:
        written = tokeniser.encode(label)
    source, target, labels = [*reading.ids, end], [pad, *written], [*written, end]
    check_length(run, reading, source)
    check_length(run, reading, target)
    return Subject(
        kind="text",
        name=name,
        x=Inputs(source=batch(source), target=batch(target)),  # pyright: ignore[reportArgumentType]
        labels=batch(labels),
        is_known=label is not None,
        tokens=tuple(map(tokeniser.symbol, target)),
        memory=tuple(map(tokeniser.symbol, source)),
        words=words,
    )


def answered(run: Run, subject: Subject, label: str | None) -> Subject:
    """With the right class, where it is one the run knows; else with what the model itself says."""
    if label in run.classes:
        labels, is_known = np.array([run.classes.index(label)], np.int32), True  # pyright: ignore[reportArgumentType]
    else:
        logits = jax.jit(lambda params, x: run.model.forward(params, x)[0])(run.params, subject.x)
        labels, is_known = np.asarray(logits).argmax(axis=-1).astype(np.int32), False
    return Subject(**{**vars(subject), "labels": labels, "is_known": is_known})


def check_length(run: Run, reading: Reading, ids: list[int]) -> None:
    check_lengths([reading], [ids], context_of(run))


def batch(ids: list[int]) -> np.ndarray:
    return np.array([ids], np.int32)


def reads_images(run: Run) -> bool:
    return isinstance(run.model, Model)
