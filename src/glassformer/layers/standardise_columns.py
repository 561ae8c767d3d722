"""Standardise columns: bring each column of a table to mean 0 and spread 1. The first layer of a model of table rows.

forward    y = (x - mean) / std
backward   dx = dy / std

A mean and a std for each column, measured on the training rows: no parameters, they stay. It is a layer so that
checkpoints carry the preparation with the model. Pixels share one mean and one std: standardise.py.
"""

from dataclasses import dataclass

import jax.numpy as jnp

from glassformer.errors import SettingError, expect
from glassformer.names import tag
from glassformer.shapes import Array, Float, Key


@dataclass(frozen=True)
class StandardiseColumns:
    mean: tuple[float, ...] = ()  # one for each column; none: nothing is subtracted
    std: tuple[float, ...] = ()  # none: nothing is divided

    def __post_init__(self) -> None:
        if any(std <= 0 for std in self.std):
            raise SettingError(
                f"standardise columns: std is {self.std}, expected numbers above 0; "
                "a column that never changes has a std of 0: give it 1"
            )

    def init(self, key: Key) -> None:
        return None

    def forward(self, params: None, x: Float[Array, "*B I"]) -> tuple[Float[Array, "*B I"], None]:
        for what, numbers in (("means", self.mean), ("stds", self.std)):
            if numbers:
                expect("standardise columns", f"number of {what}", len(numbers), x.shape[-1], "one for each column")
        centred = x - jnp.asarray(self.mean, x.dtype) if self.mean else x
        y = tag("y", centred / jnp.asarray(self.std, x.dtype) if self.std else centred)
        return y, None

    def backward(self, params: None, cache: None, dy: Float[Array, "*B I"]) -> tuple[Float[Array, "*B I"], None]:
        dy = tag("dy", dy)
        # y = (x - mean) / std
        return dy / jnp.asarray(self.std, dy.dtype) if self.std else dy, None
