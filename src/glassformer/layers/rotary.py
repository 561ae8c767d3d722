"""Rotary positions: turn each pair of values by an angle that grows with the token's place. Used on q and on k.

forward    y = x * cos(angle(place, base, D)) + turn(x) * sin(angle(place, base, D))
backward   dx = dy * cos(angle(place, base, D)) - turn(dy) * sin(angle(place, base, D))

The angle of a token at its place is place / base^(2i / D), i = 0 … D/2 - 1; turn(x) is the second half of x, negative,
then the first. Backward is the same turn the other way.
The product of a turned q and a turned k depends on how far apart they stand, not on where. Value i is paired with value
i + D/2, as in GPT-NeoX and Llama; GPT-J pairs neighbours. Su et al., 2021.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from glassformer.errors import ShapeError
from glassformer.names import tag
from glassformer.shapes import Array, Float, Integer, Key


class Cache(NamedTuple):
    place: Integer[Array, "#B T"]  # where each token stands


@dataclass(frozen=True)
class Rotary:
    base: float = 10000.0

    def init(self, key: Key) -> None:
        return None

    def forward(
        self, params: None, x: Float[Array, "B T H D"], *, offset: Integer[Array, "#B"] | None = None
    ) -> tuple[Float[Array, "B T H D"], Cache]:
        """`offset` is the place of each sequence's first token: where generation goes on, or minus the padding."""
        if x.shape[-1] % 2:
            raise ShapeError(f"rotary positions: heads of width {x.shape[-1]} have no halves; expected an even width")
        first = jnp.zeros(1, int) if offset is None else offset
        place = tag("place", first[:, None] + jnp.arange(x.shape[1]))
        y = tag("y", self.turned(tag("x", x), place))
        return y, Cache(place=place)

    def backward(self, params: None, cache: Cache, dy: Float[Array, "B T H D"]) -> tuple[Float[Array, "B T H D"], None]:
        # y = x, turned by the angle of its place
        return tag("dx", self.turned(tag("dy", dy), -cache.place)), None

    def turned(self, x: Float[Array, "B T H D"], place: Integer[Array, "#B T"]) -> Float[Array, "B T H D"]:
        exact = jnp.promote_types(x.dtype, jnp.float32)  # places beyond 256 are too fine for bf16
        frequency = self.base ** -(jnp.arange(0, x.shape[-1], 2, exact) / x.shape[-1])
        angle = place[..., None, None].astype(exact) * frequency
        cos, sin = jnp.cos(angle).astype(x.dtype), jnp.sin(angle).astype(x.dtype)
        a, b = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
