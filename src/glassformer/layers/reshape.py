"""Reshape: the same numbers in another shape, sample by sample.

forward    y = reshape(x)
backward   dx = reshape(dy)
"""

from dataclasses import dataclass
from typing import NamedTuple

from glassformer.names import tag
from glassformer.shapes import Array, Float, Key, Static


class Cache(NamedTuple):
    shape: Static  # of x


@dataclass(frozen=True)
class Reshape:
    shape: tuple[int, ...]  # of one sample, afterwards

    def init(self, key: Key) -> None:
        return None

    def forward(self, params: None, x: Float[Array, "B *T"]) -> tuple[Float[Array, "B *S"], Cache]:
        return tag("y", x.reshape(len(x), *self.shape)), Cache(shape=Static(x.shape))

    def backward(self, params: None, cache: Cache, dy: Float[Array, "B *S"]) -> tuple[Float[Array, "B *T"], None]:
        return tag("dy", dy).reshape(cache.shape.value), None
