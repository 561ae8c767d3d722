"""Language modelling: after every token of a window of text, which one comes next?

The text is one stream, documents divided by <end>. An epoch takes random crops of it, so that windows
begin anywhere; scoring takes consecutive windows, every token once. A stream may lie in files (token_shards.py): then
steps are counted instead of epochs (stream_engine.py), and scores are those of its first MOST_SCORED tokens.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.data.texts import Example, Texts
from glassformer.data.token_shards import TokenStream
from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import DataError
from glassformer.shapes import Array, Integer, Key, Static
from glassformer.train.tasks.sequences import symbol
from glassformer.train.tasks.task import Batch, Encoded, Task

MOST_SCORED = 1 << 20  # tokens of a stream in files


class Stream(NamedTuple):
    ids: Any  # int32 (N,), or a TokenStream; or crops that were drawn already, (B, T + 1)
    context: Static  # tokens in a window


@dataclass(frozen=True)
class NextToken(Task):
    by_loss: ClassVar[bool] = True
    by_steps: ClassVar[bool] = True

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

    def from_tokens(self, tokens: TokenStream, context: int) -> Encoded:
        cut = len(tokens) * 99 // 100
        return Encoded(Stream(tokens[:cut], Static(context)), self.to_score(Stream(tokens[cut:], Static(context))), ())

    def to_score(self, samples: Stream) -> Stream:
        if not isinstance(samples.ids, TokenStream):
            return samples
        return samples._replace(ids=samples.ids.read(0, min(len(samples.ids), MOST_SCORED)))

    def drawn(self, samples: Stream, chosen: Integer[Array, "B"], key: Key) -> Batch:
        length = samples.context.value
        if samples.ids.ndim == 2:
            return Batch(samples.ids[chosen, :-1], samples.ids[chosen, 1:], None, {})
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
