"""What all losses share."""

from abc import ABC, abstractmethod
from typing import Any

import jax.numpy as jnp

from glassformer.shapes import Array, Float, Key


class Loss(ABC):
    """A layer without parameters: the model's output in, one number out, the mean over the labels by weight."""

    def init(self, key: Key) -> None:
        return None

    @abstractmethod
    def forward(self, params: None, x: Any, *, labels: Any, weights: Any = None) -> tuple[Float[Array, ""], Any]: ...
    @abstractmethod
    def backward(self, params: None, cache: Any, dy: Float[Array, ""]) -> tuple[Any, None]: ...

    def total(self, x: Any, labels: Any, weights: Float[Array, "*B"]) -> Float[Array, ""]:
        """The sum over the labels by weight: what scores are made of, part by part."""
        weight = jnp.sum(weights)
        mean, _ = self.forward(None, x, labels=labels, weights=weights)
        return jnp.where(weight == 0, 0.0, mean * weight)
