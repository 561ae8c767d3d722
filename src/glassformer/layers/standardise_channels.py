"""Standardise channels: bring raw pixels to the range the model works in, each channel by its own mean and std.

forward    y = (x / divisor - mean) / std
backward   dx = dy / (divisor * std)

As published models have it (0.485, 0.456, 0.406 of ImageNet's red, green, blue). Integers have no gradient: dx is None.
One mean and std for all channels: standardise.py.
"""

from dataclasses import dataclass

import jax.numpy as jnp

from glassformer.errors import SettingError, expect
from glassformer.layers.standardise import Cache
from glassformer.names import tag
from glassformer.shapes import Array, Float, Key, Static, UInt8


@dataclass(frozen=True)
class StandardiseChannels:
    mean: tuple[float, ...]  # one for each channel, the last axis
    std: tuple[float, ...]
    divisor: float = 255.0  # bytes become 0..1

    def __post_init__(self) -> None:
        if any(std <= 0 for std in self.std) or self.divisor <= 0:
            raise SettingError(f"standardise channels: std {self.std} and divisor {self.divisor} must be above 0")

    def init(self, key: Key) -> None:
        return None

    def forward(
        self, params: None, x: Float[Array, "*B G"] | UInt8[Array, "*B G"]
    ) -> tuple[Float[Array, "*B G"], Cache]:
        for what, numbers in (("means", self.mean), ("stds", self.std)):
            expect("standardise channels", f"number of {what}", len(numbers), x.shape[-1], "one for each channel")
        has_gradient = jnp.issubdtype(x.dtype, jnp.floating)
        values = x if has_gradient else jnp.asarray(x).astype(float)
        mean, std = jnp.asarray(self.mean, values.dtype), jnp.asarray(self.std, values.dtype)
        y = tag("y", values / (self.divisor * std) - mean / std)
        return y, Cache(has_gradient=Static(has_gradient))

    def backward(
        self, params: None, cache: Cache, dy: Float[Array, "*B G"]
    ) -> tuple[Float[Array, "*B G"] | None, None]:
        dy = tag("dy", dy)
        # y = x / (divisor * std) - mean / std
        return dy / (self.divisor * jnp.asarray(self.std, dy.dtype)) if cache.has_gradient.value else None, None
