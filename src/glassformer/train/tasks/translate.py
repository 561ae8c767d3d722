"""Translation: from one text another, token by token, each told the right tokens before it.

Right when every token is, <end> included: the greedy answer of the model is then the target, and only then.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from glassformer.data.texts import Example, Texts
from glassformer.data.tokeniser import Tokeniser
from glassformer.models.t5 import Inputs
from glassformer.shapes import Array, Integer
from glassformer.train.tasks.sequences import filled, must_fit, must_have, symbol
from glassformer.train.tasks.task import Batch, Encoded, Task


class Pairs(NamedTuple):
    source: np.ndarray  # int32 (N, S): text <end>
    keep: np.ndarray  # bool (N, S)
    target: np.ndarray  # int32 (N, T): <pad> text, as T5 begins
    labels: np.ndarray  # int32 (N, T): text <end>
    counts: np.ndarray  # bool (N, T)


@dataclass(frozen=True)
class Translate(Task):
    whole: ClassVar[bool] = True

    def batch(self, samples: Pairs, chosen: Integer[Array, "B"]) -> Batch:
        x = Inputs(source=samples.source[chosen], target=samples.target[chosen])
        weights = samples.counts[chosen].astype("float32")
        return Batch(x, samples.labels[chosen], weights, {"keep": samples.keep[chosen]})

    def encode(self, texts: Texts, tokeniser: Tokeniser, context: int) -> Encoded:
        must_have(texts.name, "targets", all(example.target for example in (*texts.train, *texts.test)))
        pad, end = symbol(tokeniser, "pad"), symbol(tokeniser, "end")

        def pairs(examples: tuple[Example, ...]) -> Pairs:
            sources = [[*tokeniser.encode(example.text), end] for example in examples]
            targets = [tokeniser.encode(example.target) for example in examples]
            answers = [[*row, end] for row in targets]
            must_fit(texts.name, [example.text for example in examples], sources, context)
            must_fit(texts.name, [example.target for example in examples], answers, context)
            source, keep = filled(sources, pad)
            target, _ = filled([[pad, *row] for row in targets], pad)
            labels, counts = filled(answers, pad)
            return Pairs(source, keep, target, labels, counts)

        return Encoded(pairs(texts.train), pairs(texts.test), ())
