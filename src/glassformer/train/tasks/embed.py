"""Embeddings: no labels to learn from, and no answer but a vector for each text. What an encoder without a head does.

How the tokens' values become one vector stands here, so that a run keeps what a published folder says about it.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from glassformer.errors import DataError, SettingError, at_least
from glassformer.losses import Loss
from glassformer.shapes import Array, Integer
from glassformer.train.tasks.task import Batch, Task

Pooling = Literal["mean", "first"]  # over the tokens that are no padding; the first token's value


class Vectors(Task):
    """A task that makes one vector of each text; the settings say how."""

    pooling: Pooling | None
    normalise: bool
    longest: int

    output_axis: ClassVar[str] = "numbers"


@dataclass(frozen=True)
class Embed(Vectors):
    pooling: Pooling = "mean"  # pyright: ignore[reportIncompatibleVariableOverride]
    normalise: bool = False  # to a Euclidean length of 1
    longest: int = 0  # tokens of a text with its frame; 0: as many as the model takes

    def __post_init__(self) -> None:
        check_pooling(self.pooling)
        at_least("embed", 0, longest=self.longest)

    @property
    def loss(self) -> Loss:
        raise no_labels()

    def batch(self, samples: object, chosen: Integer[Array, "B"]) -> Batch:
        raise no_labels()


def no_labels() -> DataError:
    return DataError(
        "embed: this task has no labels, and so no loss and no gradient; another one starts from the same weights: "
        "glassformer train --from RUN --task classify"
    )


def check_pooling(pooling: str) -> None:
    if pooling not in get_args(Pooling):
        raise SettingError(f"embed: pooling is {pooling!r}, expected {' or '.join(get_args(Pooling))}")
