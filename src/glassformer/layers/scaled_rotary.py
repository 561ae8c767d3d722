"""Scaled rotary positions: rotary.py with lower frequencies, for texts longer than those a model was trained on.

forward    y = scale * (x * cos(column(place) * frequency) + turn(x) * sin(column(place) * frequency))
backward   dx = scale * (dy * cos(column(place) * frequency) - turn(dy) * sin(column(place) * frequency))

`frequency` has, for each value of a head, by how many radians its pair is turned from one place to the next, lowered as
`scaling` says (rope_scaling.py); without any it would be base^(-2i / D). turn(x) is the second half of x, negative,
then the first. `scale` is 1 but for yarn.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from glassformer.layers.rope_scaling import RopeScaling
from glassformer.layers.rotary import rotated
from glassformer.names import tag
from glassformer.shapes import Array, Float, Integer, Key


class Cache(NamedTuple):
    place: Integer[Array, "#B T"]  # where each token stands
    frequency: Float[Array, "#B D"]  # radians per place


@dataclass(frozen=True)
class ScaledRotary:
    scaling: RopeScaling
    base: float = 10000.0

    @property
    def scale(self) -> float:
        return self.scaling.scale

    @property
    def by_length(self) -> bool:
        """Whether the rotation of a token depends on the length of its text."""
        return self.scaling.by_length

    def check(self, width: int) -> None:
        """Refuse heads that cannot be rotated."""
        self.scaling.check(width)

    def init(self, key: Key) -> None:
        return None

    def forward(
        self,
        params: None,
        x: Float[Array, "B T H D"],
        *,
        offset: Integer[Array, "#B"] | None = None,
        length: Integer[Array, "#B"] | None = None,
    ) -> tuple[Float[Array, "B T H D"], Cache]:
        """`offset` is the place of each sequence's first token: where generation goes on, or minus the padding.

        `length` is how many tokens each sequence has, its padding not counted; None: up to its last place here.
        """
        self.check(x.shape[-1])
        first = jnp.zeros(1, int) if offset is None else offset
        place = tag("place", first[:, None] + jnp.arange(x.shape[1]))
        exact = jnp.promote_types(x.dtype, jnp.float32)
        tokens = place[:, -1:] + 1 if length is None else length[:, None]
        pairs = self.scaling.frequencies(self.base, x.shape[-1], tokens, exact)
        frequency = tag("frequency", jnp.tile(jnp.atleast_2d(pairs), 2))
        y = tag("y", self.scale * rotated(tag("x", x), angle(place, frequency)))
        return y, Cache(place=place, frequency=frequency)

    def backward(self, params: None, cache: Cache, dy: Float[Array, "B T H D"]) -> tuple[Float[Array, "B T H D"], None]:
        # y = scale * x, turned by the angle of its place
        return tag("dx", self.scale * rotated(tag("dy", dy), -angle(cache.place, cache.frequency))), None


def angle(place: Integer[Array, "#B T"], frequency: Float[Array, "#B D"]) -> Float[Array, "#B T P"]:
    """Of each pair."""
    pairs = frequency[:, None, : frequency.shape[-1] // 2]
    return place[..., None].astype(frequency.dtype) * pairs
