"""Dropout: in training, forget a random share of the values and scale up the survivors so that the sum stays level.

forward    y = x * keep / (1 - rate)
backward   dx = dy * keep / (1 - rate)

Without a key (evaluation) nothing is dropped: y = x, dx = dy.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import SettingError
from glassformer.names import tag
from glassformer.shapes import Array, Bool, Float, Key


class Cache(NamedTuple):
    keep: Bool[Array, "*B"] | None  # None where nothing was dropped


@dataclass(frozen=True)
class Dropout:
    rate: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.rate < 1:
            raise SettingError(f"dropout: rate is {self.rate}, expected a share from 0 to below 1")

    def init(self, key: Key) -> None:
        return None

    def forward(
        self, params: None, x: Float[Array, "*B"], *, key: Key | None = None
    ) -> tuple[Float[Array, "*B"], Cache]:
        if key is None or self.rate == 0:
            return tag("y", x), Cache(keep=None)
        cache = Cache(keep=tag("keep", jax.random.bernoulli(key, 1 - self.rate, x.shape)))
        return tag("y", self.apply(cache, x)), cache

    def backward(self, params: None, cache: Cache, dy: Float[Array, "*B"]) -> tuple[Float[Array, "*B"], None]:
        dy = tag("dy", dy)
        # y = x / (1 - rate) where kept
        return self.apply(cache, dy), None

    def apply(self, cache: Cache, x: Float[Array, "*B"]) -> Float[Array, "*B"]:
        """What was dropped once, of x: of the gradient, or of the same values again."""
        return x if cache.keep is None else jnp.where(cache.keep, x / (1 - self.rate), 0)
