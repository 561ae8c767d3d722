"""Regression: a number, or several, for an image or a row of a table. Nothing is right or wrong, only near or far."""

from dataclasses import dataclass
from typing import Any, ClassVar

from glassformer.losses import Loss, MeanSquaredError
from glassformer.shapes import Array, Float, Integer
from glassformer.train.tasks.task import Batch, Task


@dataclass(frozen=True)
class Regress(Task):
    by_loss: ClassVar[bool] = True
    at_once: ClassVar[int] = 1000
    output_axis: ClassVar[str] = "numbers"

    @property
    def loss(self) -> Loss:
        return MeanSquaredError()

    def right(self, y: Any, labels: Float[Array, "B K"]) -> None:
        return None

    def batch(self, samples: Any, chosen: Integer[Array, "B"]) -> Batch:
        x, labels = samples
        return Batch(x[chosen], labels[chosen], None, {})
