"""Multilayer perceptron: the classifier without attention, for comparison. ReLU between layers, none after the last.

image -> flatten -> linear -> relu -> … -> linear -> logits
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, NamedTuple

import jax

from glassformer.layers import Linear, ReLU, Reshape, linear, relu, reshape, standardise
from glassformer.models.images import Images
from glassformer.models.model import Network
from glassformer.names import at
from glassformer.shapes import Array, Float, Key, UInt8


class Params(NamedTuple):
    layers: tuple[linear.Params, ...]


class Cache(NamedTuple):
    prepare: standardise.Cache
    flatten: reshape.Cache
    layers: tuple[linear.Cache, ...]
    relu: tuple[relu.Cache, ...]


@dataclass(frozen=True)
class MLP(Network):
    tasks: ClassVar[tuple[str, ...]] = ("classify", "regress")

    images: Images = Images()
    hidden: tuple[int, ...] = (512,)

    @property
    def input(self) -> Images:
        return self.images

    @property
    def task_parts(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return (f"layers.{len(self.hidden)}",)

    @property
    def flatten(self) -> Reshape:
        return Reshape((self.images.pixels,))

    @property
    def layers(self) -> tuple[Linear, ...]:
        widths = (self.images.pixels, *self.hidden, self.images.classes)
        return tuple(Linear(inputs, outputs) for inputs, outputs in pairwise(widths))

    def init(self, key: Key) -> Params:
        keys = jax.random.split(key, len(self.layers))
        return Params(layers=tuple(layer.init(k) for layer, k in zip(self.layers, keys, strict=True)))

    def forward(
        self, params: Params, x: Float[Array, "B Y X G"] | UInt8[Array, "B Y X G"]
    ) -> tuple[Float[Array, "B K"], Cache]:
        self.images.check(type(self).__name__, x)
        pixels, prepare = at("prepare", self.images.prepare).forward(None, x)
        h, flatten = at("flatten", self.flatten).forward(None, pixels)
        layers, relus = [], []
        for i, layer in enumerate(self.layers):
            if i > 0:
                h, cache = at(f"relu.{i - 1}", ReLU()).forward(None, h)
                relus.append(cache)
            h, cache = at(f"layers.{i}", layer).forward(params.layers[i], h)
            layers.append(cache)
        return h, Cache(prepare=prepare, flatten=flatten, layers=tuple(layers), relu=tuple(relus))

    def backward(
        self, params: Params, cache: Cache, dy: Float[Array, "B K"]
    ) -> tuple[Float[Array, "B Y X G"] | None, Params]:
        dh, dlayers = dy, []
        for i in reversed(range(len(self.layers))):
            dh, dlayer = at(f"layers.{i}", self.layers[i]).backward(params.layers[i], cache.layers[i], dh)
            dlayers.append(dlayer)
            if i > 0:
                dh, _ = at(f"relu.{i - 1}", ReLU()).backward(None, cache.relu[i - 1], dh)
        dpixels, _ = at("flatten", self.flatten).backward(None, cache.flatten, dh)
        dx, _ = at("prepare", self.images.prepare).backward(None, cache.prepare, dpixels)
        return dx, Params(layers=tuple(reversed(dlayers)))
