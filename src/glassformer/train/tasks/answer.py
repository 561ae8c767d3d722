"""Supervised fine-tuning on prompts and answers (instruction tuning): a language model learns to answer.

prompt separator answer <end>     only the answer and <end> count in the loss

Each token is told the right ones before it. Right when every token of the answer is, <end> included: the greedy answer
of the model is then the right one, and only then. A sample that is longer than the context is refused, not cut.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from glassformer.data.texts import Example, Texts
from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import DataError
from glassformer.shapes import Array, Integer
from glassformer.train.tasks.sequences import filled, must_be_pairs, must_fit, symbol
from glassformer.train.tasks.task import Batch, Encoded, Task


class Rows(NamedTuple):
    ids: np.ndarray  # int32 (N, T): prompt separator answer
    labels: np.ndarray  # int32 (N, T): the token that follows
    counts: np.ndarray  # bool (N, T): where that is of the answer


class Prompted(Task):
    """A language model learns what follows a prompt, and nothing of the prompt itself."""

    whole: ClassVar[bool] = True

    def batch(self, samples: Rows, chosen: Integer[Array, "B"]) -> Batch:
        return Batch(samples.ids[chosen], samples.labels[chosen], samples.counts[chosen].astype("float32"), {})

    def prompt(self, tokeniser: Tokeniser, ids: list[int]) -> list[int]:
        """What the answer to a text is written behind; `ids` are the text's."""
        return self.prompts(tokeniser, [ids])[0]

    @abstractmethod
    def prompts(self, tokeniser: Tokeniser, rows: Sequence[list[int]]) -> list[list[int]]:
        """The same of several texts."""


@dataclass(frozen=True)
class Answering(Prompted):
    separator: str = "\n"  # stands between the prompt and its answer

    def strings(self, example: Example) -> tuple[str, ...]:
        return example.text, self.separator, example.target

    def encode(self, texts: Texts, tokeniser: Tokeniser, context: int) -> Encoded:
        end, pad = symbol(tokeniser, "end"), tokeniser.id_of("pad")

        def rows(examples: tuple[Example, ...]) -> Rows:
            must_be_pairs(texts.name, examples)
            prompts = self.prompts(tokeniser, [tokeniser.encode(example.text) for example in examples])
            answers = [[*tokeniser.encode(example.target), end] for example in examples]
            whole = [[*prompt, *answer] for prompt, answer in zip(prompts, answers, strict=True)]
            given = [row[:-1] for row in whole]
            must_fit(texts.name, [example.text for example in examples], given, context)
            ids, keep = filled(given, end if pad is None else pad)  # causal: no token sees the padding behind it
            labels, _ = filled([row[1:] for row in whole], end)
            first = np.array([len(prompt) - 1 for prompt in prompts], int)
            return Rows(ids, labels, keep & (np.arange(ids.shape[1]) >= first[:, None]))

        return Encoded(rows(texts.train), rows(texts.test), ())

    def prompts(self, tokeniser: Tokeniser, rows: Sequence[list[int]]) -> list[list[int]]:
        between = tokeniser.encode(self.separator)
        if tokeniser.unknown_in(self.separator) or (self.separator and not between):
            raise DataError(
                f"answer: the tokeniser has no symbol for the separator {self.separator!r}, which stands between a "
                "prompt and its answer; choose another: --set 'task.separator=\" \"'"
            )
        return [[*ids, *between] for ids in rows]
