"""Residual: add a layer's result to its input.

forward    y = x + inner(x)
backward   dx = dy + inner.backward(dy)

The gradient goes straight on, and through the layer.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from glassformer.layers.contract import Layer, keywords_for
from glassformer.layers.masks import Mask
from glassformer.names import at, tag
from glassformer.shapes import Array, Bool, Float, Key


class Params(NamedTuple):
    inner: Any


class Cache(NamedTuple):
    inner: Any


@dataclass(frozen=True)
class Residual:
    inner: Layer

    def init(self, key: Key) -> Params:
        return Params(inner=self.inner.init(key))

    def forward(
        self,
        params: Params,
        x: Float[Array, "*B"],
        *,
        mask: Bool[Array, "#B #H #T #T"] | Mask | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "*B"], Cache]:
        change, inner = at("inner", self.inner).forward(params.inner, x, **keywords_for(self.inner, mask=mask, key=key))
        y = tag("y", x + change)
        return y, Cache(inner=inner)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "*B"]) -> tuple[Float[Array, "*B"], Params]:
        dy = tag("dy", dy)
        # y = x + change
        dx, dinner = at("inner", self.inner).backward(params.inner, cache.inner, dy)
        return dy + dx, Params(inner=dinner)
