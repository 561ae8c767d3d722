"""Grower: from a row of measurements to numbers, such as how much a tree will bear.

row -> standardise -> linear -> squash -> linear -> numbers
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax

from glassformer.layers import Linear, linear
from glassformer.models import Columns, Network
from glassformer.names import at
from glassformer.shapes import Array, Float, Key
from orchard import dynamic_tanh
from orchard.dynamic_tanh import DynamicTanh


class Params(NamedTuple):
    spread: linear.Params
    squash: dynamic_tanh.Params
    head: linear.Params


class Cache(NamedTuple):
    spread: linear.Cache
    squash: dynamic_tanh.Cache
    head: linear.Cache


@dataclass(frozen=True)
class Grower(Network):
    tasks: ClassVar[tuple[str, ...]] = ("harvest", "regress")
    output_axis: ClassVar[str] = "numbers"

    columns: Columns = Columns()  # its classes are the numbers to find
    width: int = 8  # C

    @property
    def input(self) -> Columns:
        return self.columns

    @property
    def spread(self) -> Linear:
        return Linear(self.columns.count, self.width)

    @property
    def squash(self) -> DynamicTanh:
        return DynamicTanh(self.width)

    @property
    def head(self) -> Linear:
        return Linear(self.width, self.columns.classes)

    def init(self, key: Key) -> Params:
        keys = jax.random.split(key, 3)
        return Params(self.spread.init(keys[0]), self.squash.init(keys[1]), self.head.init(keys[2]))

    def forward(self, params: Params, x: Float[Array, "B I"]) -> tuple[Float[Array, "B K"], Cache]:
        self.columns.check("Grower", x)
        row, _ = at("prepare", self.columns.prepare).forward(None, x)
        h, spread = at("spread", self.spread).forward(params.spread, row)
        h, squash = at("squash", self.squash).forward(params.squash, h)
        y, head = at("head", self.head).forward(params.head, h)
        return y, Cache(spread, squash, head)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B K"]) -> tuple[Float[Array, "B I"], Params]:
        dh, dhead = at("head", self.head).backward(params.head, cache.head, dy)
        dh, dsquash = at("squash", self.squash).backward(params.squash, cache.squash, dh)
        drow, dspread = at("spread", self.spread).backward(params.spread, cache.spread, dh)
        dx, _ = at("prepare", self.columns.prepare).backward(None, None, drow)
        return dx, Params(dspread, dsquash, dhead)
