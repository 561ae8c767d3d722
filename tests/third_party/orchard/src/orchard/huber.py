"""Huber loss: the square of a small error, the size of a large one, so that a few odd years do not decide.

forward    d = x - labels      near = max(min(d, reach), -reach)      loss = sum(share * near * (d - near / 2))
backward   dx = share * near * dloss
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from glassformer.errors import ShapeError
from glassformer.losses import Loss
from glassformer.names import tag
from glassformer.shapes import Array, Float


class Cache(NamedTuple):
    near: Float[Array, "*B"]  # the error, cut off at the reach
    share: Float[Array, "*B"]  # of each number in the loss


@dataclass(frozen=True)
class Huber(Loss):
    reach: float = 1.0  # where squares end

    def forward(
        self,
        params: None,
        x: Float[Array, "*B"],
        *,
        labels: Float[Array, "*B"],
        weights: Float[Array, "*B"] | None = None,
    ) -> tuple[Float[Array, ""], Cache]:
        if labels.shape != x.shape:
            raise ShapeError(f"huber: labels of shape {labels.shape} came, expected one for each number: {x.shape}")
        weights = jnp.ones_like(x) if weights is None else weights
        share = tag("share", weights / jnp.sum(weights))
        d = tag("d", x - labels)
        near = tag("near", jnp.clip(d, -self.reach, self.reach))
        loss = tag("loss", jnp.sum(share * near * (d - near / 2)))
        return loss, Cache(near=near, share=share)

    def backward(self, params: None, cache: Cache, dy: Float[Array, ""]) -> tuple[Float[Array, "*B"], None]:
        dloss = tag("dloss", dy)
        # near is d where it is small; where it is cut off, the loss grows as d does: dd = share * near both ways
        return tag("dd", cache.share * cache.near * dloss), None
