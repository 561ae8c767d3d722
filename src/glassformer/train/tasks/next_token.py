"""Language modelling: after every token of a window of text, which one comes next?

The text is one stream, documents divided by <end>. An epoch takes random crops of it, so that windows
begin anywhere; scoring takes consecutive windows, every token once.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.data.texts import Example, Texts
from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import DataError
from glassformer.shapes import Array, Integer, Key, Static
from glassformer.train.tasks.sequences import symbol
from glassformer.train.tasks.task import Batch, Encoded, Task


class Stream(NamedTuple):
    ids: np.ndarray  # int32 (N,)
    context: Static  # tokens in a window


@dataclass(frozen=True)
class NextToken(Task):
    by_loss: ClassVar[bool] = True

    def count(self, samples: Stream) -> int:
        return (len(samples.ids) - 1) // samples.context.value

    def must_have_samples(self, where: str, samples: Stream) -> None:
        if self.count(samples) < 1:
            raise DataError(
                f"{where}: it is {len(samples.ids)} tokens long, too short for a window of {samples.context.value} "
                "and the token that comes next; bring more text, or a smaller model.text.context"
            )

    def batch(self, samples: Stream, chosen: Integer[Array, "B"]) -> Batch:
        return windows(samples, chosen * samples.context.value)

    def drawn(self, samples: Stream, chosen: Integer[Array, "B"], key: Key) -> Batch:
        length = samples.context.value
        start = chosen * length + jax.random.randint(key, chosen.shape, 0, length)
        return windows(samples, jnp.minimum(start, len(samples.ids) - 1 - length))

    def encode(self, texts: Texts, tokeniser: Tokeniser, context: int) -> Encoded:
        end = symbol(tokeniser, "end")

        def stream(examples: tuple[Example, ...]) -> Stream:
            documents = [np.array([*tokeniser.encode(example.text), end], np.int32) for example in examples]
            return Stream(np.concatenate(documents)[:-1], Static(context))  # nothing follows the last document

        return Encoded(stream(texts.train), stream(texts.test), ())


def windows(samples: Stream, start: Any) -> Batch:
    ids: Any = samples.ids
    places = start[:, None] + jnp.arange(samples.context.value)
    return Batch(ids[places], ids[places + 1], None, {})
