"""Pre-norm: a layer that sees its input normalised. With a residual around it, it is one branch of a pre-norm block.

forward    y = inner(norm(x))
backward   dx = norm.backward(inner.backward(dy))
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from glassformer.layers.contract import Layer, keywords_for
from glassformer.layers.masks import Mask
from glassformer.names import at
from glassformer.shapes import Array, Bool, Float, Key


class Params(NamedTuple):
    norm: Any
    inner: Any


class Cache(NamedTuple):
    norm: Any
    inner: Any


@dataclass(frozen=True)
class PreNorm:
    norm: Layer
    inner: Layer

    def init(self, key: Key) -> Params:
        """Norms draw nothing, so the inner layer begins with the very weights it would have by itself."""
        return Params(norm=self.norm.init(key), inner=self.inner.init(key))

    def forward(
        self,
        params: Params,
        x: Float[Array, "*B I"],
        *,
        mask: Bool[Array, "#B #H #T #T"] | Mask | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "*B O"], Cache]:
        h, norm = at("norm", self.norm).forward(params.norm, x)
        y, inner = at("inner", self.inner).forward(params.inner, h, **keywords_for(self.inner, mask=mask, key=key))
        return y, Cache(norm=norm, inner=inner)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "*B O"]) -> tuple[Float[Array, "*B I"], Params]:
        # y = inner(h)
        dh, dinner = at("inner", self.inner).backward(params.inner, cache.inner, dy)
        # h = norm(x)
        dx, dnorm = at("norm", self.norm).backward(params.norm, cache.norm, dh)
        return dx, Params(norm=dnorm, inner=dinner)
