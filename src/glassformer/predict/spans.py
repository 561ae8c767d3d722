"""Parts of a text: the neighbouring tokens of one class, or the one span that a question asks for."""

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from glassformer.predict.answers import Answer, Found, TagAnswer
from glassformer.predict.batches import framed_logits, inside
from glassformer.predict.reading import Reading
from glassformer.probabilities import softmax

if TYPE_CHECKING:
    from glassformer.predict.run import Run


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
    """Only the text's own tokens may begin or end it: neither the frame nor padding."""
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
