"""What a model of table rows is given and asked: how many columns, how each is spread, how many classes."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.errors import ShapeError, at_least
from glassformer.layers import StandardiseColumns
from glassformer.models.input import Input
from glassformer.shapes import Array, Float

if TYPE_CHECKING:
    from glassformer.data.dataset import Dataset


@dataclass(frozen=True)
class Columns(Input):
    reads: ClassVar[str] = "rows of numbers"

    count: int = 4
    classes: int = 3
    mean: tuple[float, ...] = ()  # of each column; none: as they come
    std: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        at_least("columns", 1, count=self.count, classes=self.classes)

    @property
    def prepare(self) -> StandardiseColumns:
        return StandardiseColumns(mean=self.mean, std=self.std)

    def example(self, batch: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((batch, self.count), jnp.float32)

    def check(self, where: str, x: Float[Array, "B I"]) -> None:
        if x.shape[1:] != (self.count,) or not jnp.issubdtype(x.dtype, jnp.floating):
            raise ShapeError(
                f"{where}: {x.dtype} of shape {x.shape} came, expected floats (batch, {self.count}): one row of "
                "numbers per sample; a single row needs a first axis of 1: row[None], whole numbers: rows.astype(float)"
            )

    def for_data(self, data: "Dataset") -> Self:
        """How many columns and classes there are, and how the columns are spread."""
        x = data.train.x.astype(np.float64)
        mean, std = x.mean(axis=0), x.std(axis=0)
        differs = std > 1e-6 * np.abs(x).max(axis=0)  # by more than float32 may round
        return replace(
            self,
            count=x.shape[1],
            classes=len(data.classes),
            mean=nine_digits(mean),
            std=nine_digits(np.where(differs, std, 1.0)),
        )


def nine_digits(values: np.ndarray) -> tuple[float, ...]:
    """As many as a float32 has, whatever the unit."""
    return tuple(float(f"{value:.9g}") for value in values)
