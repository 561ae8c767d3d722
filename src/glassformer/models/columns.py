"""What a model of table rows is given and asked: how many columns, how each is spread, how many classes."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from glassformer.errors import ShapeError, at_least
from glassformer.layers import StandardiseColumns
from glassformer.shapes import Array, Float


@dataclass(frozen=True)
class Columns:
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

    def check(self, where: str, rows: Float[Array, "B I"]) -> None:
        if rows.shape[1:] != (self.count,) or not jnp.issubdtype(rows.dtype, jnp.floating):
            raise ShapeError(
                f"{where}: {rows.dtype} of shape {rows.shape} came, expected floats (batch, {self.count}): one row of "
                "numbers per sample; a single row needs a first axis of 1: row[None], whole numbers: rows.astype(float)"
            )
