"""Contrastive learning: the vectors of two texts that belong together are to be near, those of other pairs far.

Both texts of a pair go through the same encoder and become one vector of length 1 each. In training every text is
compared with the partners of the others in its batch: a larger batch has more negatives, an accumulated one has not. A
score compares all pairs of a data set's part: recall@1 is the share of texts, first and second ones, whose nearest
neighbour on the other side is their partner; the loss has as many negatives.

Pairs that share a text mean the same: none is a negative of another, in training or in a score.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from glassformer.data.texts import Example, Texts
from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import DataError, at_least
from glassformer.losses import InfoNCE
from glassformer.models.model import Network
from glassformer.shapes import Array, Integer
from glassformer.train.tasks.embed import Pooling, Vectors, check_pooling
from glassformer.train.tasks.sequences import filled, framed, must_be_pairs, must_fit, symbol
from glassformer.train.tasks.task import Batch, Encoded, Task

AT_ONCE = 1024  # texts that are compared with all others together


class Pairs(NamedTuple):
    ids: np.ndarray  # int32 (N, 2, T)
    keep: np.ndarray  # bool (N, 2, T): False at padding
    labels: np.ndarray  # int32 (N): the same for pairs that mean the same


@dataclass(frozen=True)
class Contrast(Vectors):
    pooling: Pooling | None = None  # None: as the run says that it starts from, else mean
    longest: int = 0  # tokens of a text with its frame; 0: as many as the model takes
    temperature: float = 0.05

    normalise: ClassVar[bool] = True  # pyright: ignore[reportIncompatibleVariableOverride]
    least: ClassVar[int] = 2
    together: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.pooling is not None:
            check_pooling(self.pooling)
        at_least("contrast", 0, longest=self.longest)
        self.loss  # noqa: B018  it refuses a temperature that is none

    @property
    def loss(self) -> InfoNCE:
        return InfoNCE(self.temperature)

    def starting_from(self, before: Task | None) -> "Contrast":
        usual = before if isinstance(before, Vectors) else Contrast(pooling="mean")
        return replace(self, pooling=self.pooling or usual.pooling or "mean", longest=self.longest or usual.longest)

    def fitted(self, model: Network) -> Network:
        return model.pooled(self.pooling or "mean")

    def must_have_samples(self, where: str, samples: Pairs) -> None:
        if (count := self.count(samples)) < 2:
            raise DataError(
                f"{where}: {count} pair{'s' * (count != 1)} of texts, expected 2 or more: each is compared with the "
                "others; bring more (none is held out with validation.share=0)"
            )

    def batch(self, samples: Pairs, chosen: Integer[Array, "B"]) -> Batch:
        """First texts, then second ones."""
        ids, keep = (
            jnp.swapaxes(jnp.asarray(rows)[chosen], 0, 1).reshape(-1, rows.shape[-1])
            for rows in (samples.ids, samples.keep)
        )
        return Batch(ids, jnp.tile(jnp.asarray(samples.labels)[chosen], 2), None, {"keep": keep})

    def encode(self, texts: Texts, tokeniser: Tokeniser, context: int) -> Encoded:
        pad, most = symbol(tokeniser, "pad"), min(self.longest or context, context)

        def pairs(examples: tuple[Example, ...]) -> Pairs:
            must_be_pairs(texts.name, examples)
            both = [text for example in examples for text in (example.text, example.target)]
            rows = [framed(tokeniser, tokeniser.encode(text)) for text in both]
            must_fit(texts.name, both, rows, most)
            ids, keep = (array.reshape(len(examples), 2, -1) for array in filled(rows, pad))
            return Pairs(ids, keep, meanings(examples))

        return Encoded(pairs(texts.train), pairs(texts.test), ())

    def compared(self, y: np.ndarray, samples: Pairs) -> tuple[float, float]:
        """Recall@1 and loss of vectors (2 N, C): first texts, then second ones."""
        labels, right, loss = np.asarray(samples.labels), 0, 0.0
        first, second = np.split(y.astype(np.float64), 2)
        for asks, asked in (first, second), (second, first):
            for start in range(0, len(asks), AT_ONCE):
                rows = np.arange(start, min(start + AT_ONCE, len(asks)))
                scores = asks[rows] @ asked.T / self.temperature
                partner = scores[rows - start, rows]
                scores[labels[rows, None] == labels] = -np.inf  # these are no negatives
                nearest = scores.max(axis=1)
                right += int((partner > nearest).sum())
                top = np.maximum(nearest, partner)
                others = np.exp(scores - top[:, None]).sum(axis=1)
                loss += float(np.sum(top - partner + np.log(others + np.exp(partner - top))))
        return right / len(y), loss / len(y)


def meanings(examples: tuple[Example, ...]) -> np.ndarray:
    """A number for each pair, the same where they share a text, directly or by way of others."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    numbers: dict[str, int] = {}
    ends = np.array(
        [[numbers.setdefault(text, len(numbers)) for text in (one.text, one.target)] for one in examples], int
    ).reshape(-1, 2)
    links: Any = coo_matrix((np.ones(len(ends)), ends.T), shape=(len(numbers),) * 2)
    return connected_components(links, directed=False)[1][ends[:, 0]].astype(np.int32)
