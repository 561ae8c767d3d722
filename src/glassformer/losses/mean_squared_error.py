"""Mean squared error: how far the model's numbers are from the right ones, squared, mean over all of them.

forward    d = x - labels      loss = sum(share * d^2)
backward   dx = 2 * share * d * dloss

Every number has the same share, 1 / N, unless weights say otherwise: share = weight / sum(weights).
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from glassformer.errors import ShapeError
from glassformer.layers.precision import wide
from glassformer.losses.cross_entropy import weighted
from glassformer.losses.loss import Loss
from glassformer.names import tag
from glassformer.shapes import Array, Float


class Cache(NamedTuple):
    d: Float[Array, "*B"]
    share: Float[Array, "*B"]  # of each number in the loss


@dataclass(frozen=True)
class MeanSquaredError(Loss):
    def forward(
        self,
        params: None,
        x: Float[Array, "*B"],
        *,
        labels: Float[Array, "*B"],
        weights: Float[Array, "*B"] | None = None,
    ) -> tuple[Float[Array, ""], Cache]:
        if labels.shape != x.shape or (weights is not None and weights.shape != x.shape):
            came = labels.shape if weights is None else f"{labels.shape}, weights of {weights.shape}"
            raise ShapeError(f"mean squared error: labels of shape {came} came, expected one per number: {x.shape}")
        x = wide(x)
        weights = jnp.ones_like(x) if weights is None else weights.astype(x.dtype)
        share = tag("share", weights / jnp.sum(weights))
        d = tag("d", x - labels.astype(x.dtype))
        loss = tag("loss", weighted(share, d * d))
        return loss, Cache(d=d, share=share)

    def backward(self, params: None, cache: Cache, dy: Float[Array, ""]) -> tuple[Float[Array, "*B"], None]:
        dloss = tag("dloss", dy)
        # loss = sum(share * d^2)
        dd = tag("dd", 2 * cache.share * cache.d * dloss)
        # d = x - labels
        return dd, None
