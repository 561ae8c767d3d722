"""Token classification: which part of the text does each token belong to? Class 0 is none of them."""

from dataclasses import dataclass

import numpy as np

from glassformer.data.texts import Example, Texts
from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import DataError
from glassformer.shapes import Array, Integer
from glassformer.train.tasks.sequences import Sequences, filled, framed, must_fit, must_have, shown, symbol
from glassformer.train.tasks.task import Batch, Encoded, Task

NONE = "other"


@dataclass(frozen=True)
class Tag(Task):
    def batch(self, samples: Sequences, chosen: Integer[Array, "B"]) -> Batch:
        keywords = {"keep": samples.keep[chosen]}
        return Batch(samples.ids[chosen], samples.labels[chosen], samples.counts[chosen].astype("float32"), keywords)

    def encode(self, texts: Texts, tokeniser: Tokeniser, context: int) -> Encoded:
        must_have(texts.name, "named parts", bool(texts.parts))
        classes = (NONE, *texts.parts)

        def sequences(examples: tuple[Example, ...]) -> Sequences:
            rows, labels = [], []
            asked = [example for example in examples if example.text]  # an empty one has no token to ask about
            for example in asked:
                must_be_known(texts, example)
                ids, places = tokeniser.offsets(example.text)
                rows.append(framed(tokeniser, ids))
                labels.append([0, *(classes.index(part_at(example, *place)) for place in places), 0])
            must_fit(texts.name, [example.text for example in asked], rows, context)
            ids, keep = filled(rows, symbol(tokeniser, "pad"))
            tags, _ = filled(labels, 0)
            counts = keep & np.roll(keep, -1, axis=1)  # not <end>, nor padding
            counts[:, [0, -1]] = False  # nor <start>
            return Sequences(ids, keep, tags, counts)

        return Encoded(sequences(texts.train), sequences(texts.test), classes)


def part_at(example: Example, start: int, end: int) -> str:
    """The part that a token shares a character with; of several, the first."""
    return next((part.name for part in example.parts if start < part.end and part.start < end), NONE)


def must_be_known(texts: Texts, example: Example) -> None:
    for part in example.parts:
        if part.name not in texts.parts:
            raise DataError(
                f"{texts.name}: {shown(example.text)} has a part {part.name!r}, expected {', '.join(texts.parts)}; "
                "add it to the parts of the data"
            )
