"""Masked mean pool: one vector for the whole sequence, the mean of those of its tokens that are no padding.

forward    y = share @ x
backward   dx = share^T @ dy

Every token that is kept has the same share, 1 / their number; padding has none. A row of padding alone gives zeros.
Derived in docs/derivations/info_nce.md.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from glassformer.layers.precision import wide
from glassformer.names import tag
from glassformer.shapes import Array, Bool, Float, Key


class Cache(NamedTuple):
    share: Float[Array, "B T"]  # of each token in the mean


@dataclass(frozen=True)
class MaskedMeanPool:
    def init(self, key: Key) -> None:
        return None

    def forward(
        self, params: None, x: Float[Array, "B T C"], *, keep: Bool[Array, "B T"] | None = None
    ) -> tuple[Float[Array, "B C"], Cache]:
        """`keep` is the padding mask, False at padding; without one every token counts."""
        counts = wide(jnp.ones(x.shape[:2], x.dtype) if keep is None else keep.astype(jnp.result_type(x)))
        share = tag("share", counts / jnp.maximum(jnp.sum(counts, axis=1, keepdims=True), 1))
        y = tag("y", jnp.einsum("bt,btc->bc", share, wide(x)).astype(jnp.result_type(x)))
        return y, Cache(share=share)

    def backward(self, params: None, cache: Cache, dy: Float[Array, "B C"]) -> tuple[Float[Array, "B T C"], None]:
        dy = tag("dy", dy)
        # y = sum over the tokens of share * x
        return (cache.share[:, :, None] * dy[:, None, :]).astype(jnp.result_type(dy)), None
