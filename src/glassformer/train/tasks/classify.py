"""Classification: one answer for an image, a row of a table, or a text."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from glassformer.data.texts import Example, Texts
from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import DataError
from glassformer.shapes import Array, Integer
from glassformer.train.tasks.sequences import Sequences, filled, framed, must_fit, must_have, shown, symbol
from glassformer.train.tasks.task import Batch, Encoded, Task


@dataclass(frozen=True)
class Classify(Task):
    at_once: ClassVar[int] = 1000

    def batch(self, samples: Any, chosen: Integer[Array, "B"]) -> Batch:
        if isinstance(samples, Sequences):
            return Batch(samples.ids[chosen], samples.labels[chosen], None, {"keep": samples.keep[chosen]})
        x, labels = samples
        return Batch(x[chosen], labels[chosen], None, {})

    def encode(self, texts: Texts, tokeniser: Tokeniser, context: int) -> Encoded:
        must_have(texts.name, "classes", bool(texts.classes))

        def sequences(examples: tuple[Example, ...]) -> Sequences:
            for example in examples:
                must_be_labelled(texts, example)
            rows = [framed(tokeniser, tokeniser.encode(example.text)) for example in examples]
            must_fit(texts.name, [example.text for example in examples], rows, context)
            ids, keep = filled(rows, symbol(tokeniser, "pad"))
            labels = np.array([example.label for example in examples], np.int32)
            return Sequences(ids, keep, labels, np.ones_like(labels, bool))

        return Encoded(sequences(texts.train), sequences(texts.test), texts.classes)


def must_be_labelled(texts: Texts, example: Example) -> None:
    if not 0 <= example.label < len(texts.classes):
        came = "no label" if example.label == -1 else f"the label {example.label}"
        raise DataError(
            f"{texts.name}: {shown(example.text)} has {came}, expected 0 to {len(texts.classes) - 1}: the place of its "
            "class in the list of classes"
        )
