"""Somebody's layer with its own C, and a model that mixes it with ours. Nothing in `src/` knows it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from glassformer import register
from glassformer.layers import Linear, MeanPool, Patches, ReLU, Residual
from glassformer.models import Images, Network
from glassformer.names import at, tag
from glassformer.native import Backward, Buffer, Plan
from glassformer.structure import Node


class Gain(NamedTuple):
    gain: Any


@dataclass(frozen=True)
class Scale:
    width: int

    def init(self, key: Any) -> Gain:
        return Gain(gain=jnp.ones(self.width))

    def forward(self, params: Gain, x: Any) -> tuple[Any, Any]:
        return tag("y", x * params.gain), x

    def backward(self, params: Gain, cache: Any, dy: Any) -> tuple[Any, Gain]:
        dgain = jnp.sum(dy * cache, axis=tuple(range(dy.ndim - 1)))
        return dy * params.gain, Gain(gain=dgain)


def scale(plan: Plan, node: Node, x: Buffer) -> tuple[Buffer, Backward]:
    gain, sizes = plan.param(node.params.gain), (x.rows, x.width)
    y = plan.buffer(f"{node.name}.y", *x.shape)
    plan.call("scale_forward", "scale", (y,), (gain, x), sizes)

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        dx = plan.gradient(x)
        plan.call("scale_backward", "scale", (dx, plan.gradient(gain)), (gain, x, dy), sizes)
        return dx

    return y, backward


def give_kernel() -> None:
    register.kernel(Scale, include=Path(__file__).parent)(scale)


class Params(NamedTuple):
    patch: Any
    scale: Gain
    head: Any


class Cache(NamedTuple):
    prepare: Any
    patch: Any
    scale: Any
    again: Any
    bent: Any
    pool: Any
    head: Any


@dataclass(frozen=True)
class Scaled(Network):
    """h is read three times, the gain used twice, and a residual stands around what works in place."""

    images: Images = Images(shape=(8, 12, 1), classes=3)
    width: int = 13

    @property
    def input(self) -> Images:
        return self.images

    @property
    def patches(self) -> Patches:
        return Patches(self.images.shape, 4)

    @property
    def patch(self) -> Linear:
        return Linear(self.patches.values, self.width)

    @property
    def scale(self) -> Scale:
        return Scale(self.width)

    @property
    def bent(self) -> Residual:
        return Residual(ReLU())

    @property
    def head(self) -> Linear:
        return Linear(self.width, self.images.classes)

    def init(self, key: Any) -> Params:
        keys = jax.random.split(key, 3)
        return Params(self.patch.init(keys[0]), self.scale.init(keys[1]), self.head.init(keys[2]))

    def forward(self, params: Params, x: Any) -> tuple[Any, Cache]:
        pixels, prepare = at("prepare", self.images.prepare).forward(None, x)
        patches, _ = at("patches", self.patches).forward(None, pixels)
        h, patch = at("patch", self.patch).forward(params.patch, patches)
        one, scale = at("scale", self.scale).forward(params.scale, h)
        two, again = at("again", self.scale).forward(params.scale, h)
        bent, residual = at("bent", self.bent).forward(bent_params(), h)
        pooled, pool = at("pool", MeanPool()).forward(None, one + two + bent + h)
        logits, head = at("head", self.head).forward(params.head, pooled)
        return logits, Cache(prepare, patch, scale, again, residual, pool, head)

    def backward(self, params: Params, cache: Cache, dy: Any) -> tuple[Any, Params]:
        dpooled, dhead = at("head", self.head).backward(params.head, cache.head, dy)
        dh, _ = at("pool", MeanPool()).backward(None, cache.pool, dpooled)
        by_bent, _ = at("bent", self.bent).backward(bent_params(), cache.bent, dh)
        by_two, again = at("again", self.scale).backward(params.scale, cache.again, dh)
        by_one, dscale = at("scale", self.scale).backward(params.scale, cache.scale, dh)
        dgain = Gain(gain=dscale.gain + again.gain)
        dpatches, dpatch = at("patch", self.patch).backward(params.patch, cache.patch, dh + by_bent + by_two + by_one)
        dpixels, _ = at("patches", self.patches).backward(None, None, dpatches)
        dx, _ = at("prepare", self.images.prepare).backward(None, cache.prepare, dpixels)
        return dx, Params(patch=dpatch, scale=dgain, head=dhead)


def bent_params() -> Any:
    return Scaled().bent.init(jax.random.key(0))  # a ReLU has none
