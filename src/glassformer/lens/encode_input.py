"""A text, or a row of numbers, as a run's model takes it: a batch of one, with a name for every token."""

from typing import Any, NamedTuple

import numpy as np

from glassformer.data.dataset import TEXTS
from glassformer.layers import Attention
from glassformer.lens.token_maps import Labels
from glassformer.models.t5 import Inputs
from glassformer.predict.answers import TranslateAnswer
from glassformer.predict.reading import Reading, check_lengths, context_of, read, row_of, tokeniser_of
from glassformer.predict.run import Run
from glassformer.structure import structure
from glassformer.train.tasks import NextToken, Prompted, Translate
from glassformer.train.tasks.sequences import framed, symbol


class EncodedInput(NamedTuple):
    x: Any
    labels: Labels
    written: list[int]  # a T5: the symbols that it writes


def encode_input(run: Run, text: str, target: str | None = None) -> EncodedInput:
    """`target` is what a T5 is made to write; without one, what it writes by itself."""
    if run.model.input.reads != TEXTS:
        attention = structure(run.model).first(Attention)
        names = [f"token {i}" for i in range(attention.x.k.shape[1] if attention else 0)]
        return EncodedInput(row_of(run, "the row", text)[None], Labels(names), [])
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
        return EncodedInput(x, Labels(names_of(source), names_of(given), names_of(written)), written)
    task = run.recipe.task
    if isinstance(task, Prompted):
        ids = task.prompt(tokeniser, reading.ids)
    else:
        ids = reading.ids if isinstance(task, NextToken) else framed(tokeniser, reading.ids)
    check_lengths([reading], [ids], context_of(run))
    return EncodedInput(as_batch(ids), Labels(names_of(ids)), [])


def to_write(run: Run, reading: Reading, target: str | None) -> list[int]:
    tokeniser = tokeniser_of(run)
    end = symbol(tokeniser, "end")
    if target is not None:
        return [*read(run, "the target", target).ids, end]
    answer = run.answer([reading.text])[0]
    assert isinstance(answer, TranslateAnswer)
    written = tokeniser.encode(answer.text)
    return [*written, end] if answer.ended else written


def as_batch(ids: list[int]) -> np.ndarray:
    return np.array([ids], np.int32)
