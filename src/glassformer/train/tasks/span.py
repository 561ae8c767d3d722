"""Span extraction: at which token does a part of the text begin, and at which does it end? Right when both are."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glassformer.data.texts import Example, Texts
from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import SettingError
from glassformer.names import nearest
from glassformer.shapes import Array, Integer
from glassformer.train.tasks.sequences import Sequences, filled, framed, must_fit, must_have, symbol
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
            rows, ends = [], []
            for example in examples:
                part = next((part for part in example.parts if part.name == wanted), None)
                if part is None:
                    continue
                ids, places = tokeniser.offsets(example.text)
                must_fit(texts.name, example.text, len(ids) + 2, context)
                inside = [1 + i for i, (start, end) in enumerate(places) if start < part.end and part.start < end]
                rows.append(framed(tokeniser, ids))
                ends.append((inside[0], inside[-1]))
            ids, keep = filled(rows, symbol(tokeniser, "pad"))
            labels = np.array(ends, np.int32)
            return Sequences(ids, keep, labels, np.ones_like(labels, bool))

        return Encoded(sequences(texts.train), sequences(texts.test), (wanted,))
