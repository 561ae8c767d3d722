"""Distilled head: a head on the class token, one on the distillation token behind it; the answer is the mean of both.

forward    y = (classify(first(x)) + distil(first(rest(x)))) / 2
backward   dclassify.y = dy / 2      ddistil.y = dy / 2

The other tokens are not read. Touvron et al., 2020 (DeiT), as it predicts.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import ShapeError
from glassformer.layers import linear
from glassformer.layers.linear import Linear
from glassformer.names import at, tag
from glassformer.shapes import Array, Float, Key, Static


class Params(NamedTuple):
    classify: linear.Params
    distil: linear.Params


class Cache(NamedTuple):
    tokens: Static  # T
    classify: linear.Cache
    distil: linear.Cache


@dataclass(frozen=True)
class DistilledHead:
    width: int  # C
    classes: int  # K

    @property
    def classify(self) -> Linear:
        return Linear(self.width, self.classes)

    @property
    def distil(self) -> Linear:
        return Linear(self.width, self.classes)

    def init(self, key: Key) -> Params:
        key_classify, key_distil = jax.random.split(key)
        return Params(classify=self.classify.init(key_classify), distil=self.distil.init(key_distil))

    def forward(self, params: Params, x: Float[Array, "B T C"]) -> tuple[Float[Array, "B K"], Cache]:
        if x.shape[1] < 2:
            raise ShapeError(f"distilled head: {x.shape[1]} token came, expected a class and a distillation token")
        of_class, classify = at("classify", self.classify).forward(params.classify, x[:, 0])
        of_teacher, distil = at("distil", self.distil).forward(params.distil, x[:, 1])
        y = tag("y", (of_class + of_teacher) / 2)
        return y, Cache(tokens=Static(x.shape[1]), classify=classify, distil=distil)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B K"]) -> tuple[Float[Array, "B T C"], Params]:
        dy = tag("dy", dy)
        # y = (of_class + of_teacher) / 2
        dof_class = dof_teacher = dy / 2
        dsecond, ddistil = at("distil", self.distil).backward(params.distil, cache.distil, dof_teacher)
        dfirst, dclassify = at("classify", self.classify).backward(params.classify, cache.classify, dof_class)
        dx = jnp.zeros((dy.shape[0], cache.tokens.value, self.width), dfirst.dtype)
        return dx.at[:, 0].set(dfirst).at[:, 1].set(dsecond), Params(classify=dclassify, distil=ddistil)
