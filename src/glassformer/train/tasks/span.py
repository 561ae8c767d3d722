"""Span extraction: at which token does a part of the text begin, and at which does it end? Right when both are.

Texts that do not have the part are left out.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glassformer.data.texts import Example, Part, Texts
from glassformer.data.tokeniser import Spans, Tokeniser
from glassformer.errors import DataError, SettingError
from glassformer.names import nearest
from glassformer.shapes import Array, Integer
from glassformer.train.tasks.sequences import Sequences, filled, framed, must_fit, must_have, shown, symbol
from glassformer.train.tasks.task import Batch, Encoded, Task


@dataclass(frozen=True)
class Span(Task):
    part: str = ""  # which one; nothing: the last that the data names

    whole: ClassVar[bool] = True

    def batch(self, samples: Sequences, chosen: Integer[Array, "B"]) -> Batch:
        return Batch(samples.ids[chosen], samples.labels[chosen], None, {"keep": samples.keep[chosen]})

    def encode(self, texts: Texts, tokeniser: Tokeniser, context: int) -> Encoded:
        must_have(texts.name, "named parts", bool(texts.parts))
        wanted = self.part or texts.parts[-1]
        if wanted not in texts.parts:
            known = ", ".join(texts.parts)
            raise SettingError(
                f"span: {texts.name} has no part {wanted!r}{nearest(wanted, [*texts.parts])}; it has {known}"
            )

        def sequences(examples: tuple[Example, ...]) -> Sequences:
            rows, ends, asked = [], [], []
            for example in examples:
                part = next((part for part in example.parts if part.name == wanted), None)
                if part is None:
                    continue
                ids, places = tokeniser.offsets(example.text)
                asked.append(example.text)
                rows.append(framed(tokeniser, ids))
                ends.append(ends_of(texts.name, example.text, part, places))
            must_have(texts.name, f"part {wanted!r}", bool(asked))
            must_fit(texts.name, asked, rows, context)
            ids, keep = filled(rows, symbol(tokeniser, "pad"))
            labels = np.array(ends, np.int32)
            return Sequences(ids, keep, labels, np.ones_like(labels, bool))

        return Encoded(sequences(texts.train), sequences(texts.test), (wanted,))


def ends_of(where: str, text: str, part: Part, places: Spans) -> tuple[int, int]:
    """The first and the last token that have a character of the part; <start> is token 0."""
    inside = [1 + i for i, (start, end) in enumerate(places) if start < part.end and part.start < end]
    if not inside:
        raise DataError(
            f"{where}: no symbol of {shown(text)} stands for its part {part.name!r}, characters {part.start} to "
            f"{part.end} (not included); expected one that is not empty and lies inside the text"
        )
    return inside[0], inside[-1]
