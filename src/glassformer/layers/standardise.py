"""Standardise: bring raw pixels to the range the model works in. The first layer of an image model, without parameters.

forward    y = (x / divisor - mean) / std
backward   dx = dy / (divisor * std)

Integers have no gradient: dx is None. It is a layer so that checkpoints, exported C and ONNX carry the preparation.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from glassformer.errors import SettingError
from glassformer.names import tag
from glassformer.shapes import Array, Float, Key, Static, UInt8


class Cache(NamedTuple):
    has_gradient: Static  # False where x is integers


@dataclass(frozen=True)
class Standardise:
    mean: float = 0.0
    std: float = 1.0
    divisor: float = 255.0  # bytes become 0..1

    def __post_init__(self) -> None:
        if self.std <= 0 or self.divisor <= 0:
            raise SettingError(f"standardise: std {self.std} and divisor {self.divisor} must be above 0")

    @property
    def factor(self) -> float:
        return 1 / (self.divisor * self.std)

    def init(self, key: Key) -> None:
        return None

    def forward(self, params: None, x: Float[Array, "*B"] | UInt8[Array, "*B"]) -> tuple[Float[Array, "*B"], Cache]:
        # integers become the default float; who computes in bf16 hands the bytes over in bf16, which holds them exactly
        has_gradient = jnp.issubdtype(x.dtype, jnp.floating)
        values = x if has_gradient else x.astype(float)
        y = tag("y", values * self.factor - self.mean / self.std)
        return y, Cache(has_gradient=Static(has_gradient))

    def backward(self, params: None, cache: Cache, dy: Float[Array, "*B"]) -> tuple[Float[Array, "*B"] | None, None]:
        dy = tag("dy", dy)
        # y = x * factor - mean / std
        return dy * self.factor if cache.has_gradient.value else None, None
