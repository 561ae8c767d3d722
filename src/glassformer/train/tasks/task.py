"""What all tasks share."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp

from glassformer.data.texts import Example, Texts
from glassformer.data.token_shards import TokenStream
from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import DataError
from glassformer.losses import CrossEntropy, Loss
from glassformer.models.model import Network
from glassformer.registry import kind_of
from glassformer.shapes import Array, Bool, Float, Integer, Key


class Batch(NamedTuple):
    x: Any  # what the model reads
    labels: Integer[Array, "*B"] | Float[Array, "*B"]
    weights: Float[Array, "*B"] | None  # how much each label counts; None: all the same
    keywords: dict[str, Any]  # what else its forward takes


class Encoded(NamedTuple):
    """Texts as arrays."""

    train: Any
    test: Any
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()  # what a person should know: left out


class Task(ABC):
    """Samples are a NamedTuple of arrays; `chosen` are the numbers of the samples of one batch."""

    whole: ClassVar[bool] = False  # a sample is right when all of its labels are; else each label counts by itself
    by_loss: ClassVar[bool] = False  # best is the lowest validation loss, rather than most right answers
    by_steps: ClassVar[bool] = False  # it can be learned from random crops of a stream, by `training.steps`
    at_once: ClassVar[int] = 200  # samples scored together
    together: ClassVar[bool] = False  # samples are scored against each other: see `compared`
    least: ClassVar[int] = 1  # samples that a batch needs
    output_axis: ClassVar[str] = ""  # what the model's output is made to mean; nothing: what the model says

    @property
    def name(self) -> str:
        """As recipes and --task call it."""
        return kind_of(type(self)) or type(self).__name__

    @property
    def loss(self) -> Loss:
        """What is made small, and what scores are given in."""
        return CrossEntropy()

    def right(self, y: Any, labels: Any) -> Bool[Array, "*B"] | None:
        """Which labels the model has right; None where there is no right and wrong."""
        return y.argmax(axis=-1) == labels

    def starting_from(self, before: "Task | None") -> Self:
        """The same, with what it takes over from the task of the run that it starts from."""
        return self

    def fitted(self, model: Network) -> Network:
        """The model, which has the data's sizes already, as this task's settings ask for it."""
        return model

    def equipped(self, tokeniser: Tokeniser) -> Tokeniser:
        """The tokeniser with whatever else this task makes samples by."""
        return tokeniser

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

    def strings(self, example: Example) -> tuple[str, ...]:
        """What a tokeniser is made of, for this task."""
        return example.text, example.target

    def compared(self, y: Any, samples: Any) -> tuple[float, float]:
        """Accuracy and loss of what the model gives for all samples, where they are scored together."""
        raise NotImplementedError

    def encode(self, texts: Texts, tokeniser: Tokeniser, context: int) -> Encoded:
        """Texts as samples of at most `context` tokens."""
        raise DataError(f"{texts.name}: the task {self.name} reads no texts; choose other data, or another task")

    def from_tokens(self, tokens: TokenStream, context: int) -> Encoded:
        """Tokens in files as samples."""
        raise DataError(f"{tokens.folder}: the task {self.name} reads no tokens; give the texts, or another task")

    def to_score(self, samples: Any) -> Any:
        """What of the samples is held in memory to be scored."""
        return samples


def label_weights(batch: Batch, rows: Float[Array, "B"]) -> Float[Array, "*B"]:
    """The weight of each label, where some rows only pad the batch and weigh nothing.

    Of samples with several rows of labels come the first rows of all, then the second ones.
    """
    rows = jnp.tile(rows, len(batch.labels) // len(rows))
    by_row = rows.reshape(len(rows), *(1,) * (batch.labels.ndim - 1))
    return jnp.broadcast_to(by_row, batch.labels.shape) if batch.weights is None else by_row * batch.weights
