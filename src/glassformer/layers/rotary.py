"""Rotary positions: turn each pair of values by an angle that grows with the token's place. Used on q and on k.

forward    y = x * cos(angle(place, base, D)) + turn(x) * sin(angle(place, base, D))
backward   dx = dy * cos(angle(place, base, D)) - turn(dy) * sin(angle(place, base, D))

The angle of a token at its place is place / base^(2i / D), i = 0 … D/2 - 1; turn(x) is the second half of x, negative,
then the first. Backward is the same turn the other way.
The product of a turned q and a turned k depends on how far apart they stand, not on where. Value i is paired with value
i + D/2, as in GPT-NeoX and Llama; GPT-J pairs neighbours. Su et al., 2021. For longer texts: scaled_rotary.py.
Derived in docs/derivations/rotary.md.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from glassformer.layers.rope_scaling import frequencies, must_have_halves
from glassformer.names import tag
from glassformer.shapes import Array, Float, Integer, Key


class Cache(NamedTuple):
    place: Integer[Array, "#B T"]  # where each token stands


@dataclass(frozen=True)
class Rotary:
    by_length: ClassVar[bool] = False  # as of scaled rotary positions

    base: float = 10000.0

    def check(self, width: int) -> None:
        """Refuse heads that cannot be rotated."""
        must_have_halves(width)

    def init(self, key: Key) -> None:
        return None

    def forward(
        self, params: None, x: Float[Array, "B T H D"], *, offset: Integer[Array, "#B"] | None = None
    ) -> tuple[Float[Array, "B T H D"], Cache]:
        """`offset` is the place of each sequence's first token: where generation goes on, or minus the padding."""
        self.check(x.shape[-1])
        first = jnp.zeros(1, int) if offset is None else offset
        place = tag("place", first[:, None] + jnp.arange(x.shape[1]))
        y = tag("y", self.turned(tag("x", x), place))
        return y, Cache(place=place)

    def backward(self, params: None, cache: Cache, dy: Float[Array, "B T H D"]) -> tuple[Float[Array, "B T H D"], None]:
        # y = x, turned by the angle of its place
        return tag("dx", self.turned(tag("dy", dy), -cache.place)), None

    def turned(self, x: Float[Array, "B T H D"], place: Integer[Array, "#B T"]) -> Float[Array, "B T H D"]:
        exact = jnp.promote_types(x.dtype, jnp.float32)  # places beyond 256 are too fine for bf16
        return rotated(x, place[..., None].astype(exact) * frequencies(self.base, x.shape[-1], exact))


def rotated(x: Float[Array, "B T H D"], angle: Float[Array, "#B T P"]) -> Float[Array, "B T H D"]:
    """Each pair turned by its angle: values i and i + D/2."""
    cos, sin = (wave(angle)[..., None, :].astype(x.dtype) for wave in (jnp.cos, jnp.sin))
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
