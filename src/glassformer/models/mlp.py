"""Multilayer perceptron: the classifier without attention, for comparison. ReLU between layers, none after the last.

forward    prepare -> flatten -> linear -> relu -> … -> linear -> logits
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import jax

from glassformer.layers import Linear, ReLU, linear, relu, standardise
from glassformer.models.images import Images
from glassformer.models.model import Model
from glassformer.names import scope
from glassformer.shapes import Array, Float, Key, Static, UInt8


class Params(NamedTuple):
    layers: tuple[linear.Params, ...]


class Cache(NamedTuple):
    prepare: standardise.Cache
    layers: tuple[linear.Cache, ...]
    relu: tuple[relu.Cache, ...]
    shape: Static  # of the images, before flattening


@dataclass(frozen=True)
class MLP(Model):
    images: Images = Images()
    hidden: tuple[int, ...] = (512,)

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
        self.check_input(x)
        with scope("prepare"):
            pixels, prepare = self.images.prepare.forward(None, x)
        h = pixels.reshape(len(x), -1)
        layers, relus = [], []
        for i, layer in enumerate(self.layers):
            if i > 0:
                with scope("relu"), scope(i - 1):
                    h, cache = ReLU().forward(None, h)
                relus.append(cache)
            with scope("layers"), scope(i):
                h, cache = layer.forward(params.layers[i], h)
            layers.append(cache)
        return h, Cache(prepare=prepare, layers=tuple(layers), relu=tuple(relus), shape=Static(x.shape))

    def backward(
        self, params: Params, cache: Cache, dy: Float[Array, "B K"]
    ) -> tuple[Float[Array, "B Y X G"] | None, Params]:
        dh, dlayers = dy, []
        for i in reversed(range(len(self.layers))):
            with scope("layers"), scope(i):
                dh, dlayer = self.layers[i].backward(params.layers[i], cache.layers[i], dh)
            dlayers.append(dlayer)
            if i > 0:
                with scope("relu"), scope(i - 1):
                    dh, _ = ReLU().backward(None, cache.relu[i - 1], dh)
        with scope("prepare"):
            dx, _ = self.images.prepare.backward(None, cache.prepare, dh.reshape(cache.shape.value))
        return dx, Params(layers=tuple(reversed(dlayers)))
