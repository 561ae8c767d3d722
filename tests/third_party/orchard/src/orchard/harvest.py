"""Harvest: numbers for a row of measurements, judged by Huber's loss."""

from dataclasses import dataclass
from typing import Any, ClassVar

from glassformer.losses import Loss
from glassformer.train.tasks import Batch, Task
from orchard.huber import Huber


@dataclass(frozen=True)
class Harvest(Task):
    by_loss: ClassVar[bool] = True
    output_axis: ClassVar[str] = "numbers"

    reach: float = 1.0  # of Huber's loss

    @property
    def loss(self) -> Loss:
        return Huber(self.reach)

    def right(self, y: Any, labels: Any) -> None:
        return None

    def batch(self, samples: Any, chosen: Any) -> Batch:
        return Batch(samples.x[chosen], samples.labels[chosen], None, {})
