"""What all tasks share."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.data.texts import Texts
from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import DataError
from glassformer.shapes import Array, Float, Integer, Key


class Batch(NamedTuple):
    x: Any  # what the model reads
    labels: Integer[Array, "*B"]
    weights: Float[Array, "*B"] | None  # how much each label counts; None: all the same
    keywords: dict[str, Any]  # what else its forward takes


class Encoded(NamedTuple):
    """Texts as arrays."""

    train: Any
    test: Any
    classes: tuple[str, ...]


class Task(ABC):
    """Samples are a NamedTuple of arrays; `chosen` are the numbers of the samples of one batch."""

    whole: ClassVar[bool] = False  # a sample is right when all of its labels are; else each label counts by itself
    by_loss: ClassVar[bool] = False  # best is the lowest validation loss, rather than most right answers
    at_once: ClassVar[int] = 200  # samples scored together

    def count(self, samples: Any) -> int:
        return len(jax.tree.leaves(samples)[0])

    def must_have_samples(self, where: str, samples: Any) -> None:
        if self.count(samples) < 1:
            raise DataError(f"{where}: there is no sample in it; bring more data")

    @abstractmethod
    def batch(self, samples: Any, chosen: Integer[Array, "B"]) -> Batch:
        """The same each time: for scoring."""

    def drawn(self, samples: Any, chosen: Integer[Array, "B"], key: Key) -> Batch:
        """With what is random about a training step."""
        return self.batch(samples, chosen)

    @abstractmethod
    def encode(self, texts: Texts, tokeniser: Tokeniser, context: int) -> Encoded:
        """Texts as samples of at most `context` tokens."""


def label_weights(batch: Batch, rows: Float[Array, "B"]) -> Float[Array, "*B"]:
    """The weight of each label, where some rows only fill a batch up and weigh nothing."""
    by_row = rows.reshape(len(rows), *(1,) * (batch.labels.ndim - 1))
    return jnp.broadcast_to(by_row, batch.labels.shape) if batch.weights is None else by_row * batch.weights
