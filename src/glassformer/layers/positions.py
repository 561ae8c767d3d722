"""Positions: add a table to the tokens that says where each one stands. Attention alone does not see order.

forward    y = x + rows(pos, T)
backward   dx = dy      dpos = fill(dy, M)

The starts below say how the table begins. It is then trained like any weight or, with `trained=False`, stays so.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import SettingError, ShapeError, expect
from glassformer.layers.layout import in_order
from glassformer.layers.linear import xavier
from glassformer.layers.precision import wide
from glassformer.names import tag
from glassformer.registry import register
from glassformer.shapes import Array, Float, Key


@register.part("uniform")
@dataclass(frozen=True)
class Uniform:
    """Every entry uniform in ±limit."""

    limit: float = 0.1

    def table(self, key: Key | None, tokens: int, width: int) -> Float[Array, "M C"]:
        return jax.random.uniform(drawn_with(key), (tokens, width), minval=-self.limit, maxval=self.limit)


@register.part("xavier")
@dataclass(frozen=True)
class Xavier:
    """Uniform in ±sqrt(6 / (tokens + width)), as if the table were a weight matrix."""

    def table(self, key: Key | None, tokens: int, width: int) -> Float[Array, "M C"]:
        return xavier(drawn_with(key), tokens, width)


@register.part("zero")
@dataclass(frozen=True)
class Zero:
    """All zeros: the model has to learn every position from nothing."""

    def table(self, key: Key | None, tokens: int, width: int) -> Float[Array, "M C"]:
        return jnp.zeros((tokens, width))


@register.part("sinusoidal")
@dataclass(frozen=True)
class Sinusoidal:
    """Waves of falling frequency: sine at even i, cosine at odd i, of the angle t / 10000^(2*floor(i/2)/C)."""

    def table(self, key: Key | None, tokens: int, width: int) -> Float[Array, "M C"]:
        return waves(jnp.arange(tokens), width)


@register.part("grid-sinusoidal")
@dataclass(frozen=True)
class GridSinusoidal:
    """For image patches: half of the width carries the waves of the row, the other half those of the column.

    Tokens in front of the grid (a class token) have no place in it and start at zero.
    """

    rows: int
    columns: int

    def table(self, key: Key | None, tokens: int, width: int) -> Float[Array, "M C"]:
        in_front = tokens - self.rows * self.columns
        if in_front < 0:
            raise ShapeError(f"positions: {tokens} tokens came for a grid of {self.rows}x{self.columns}")
        if width % 2:
            raise ShapeError(f"positions: width {width} does not divide between rows and columns; try {width + 1}")
        row, column = jnp.divmod(jnp.arange(self.rows * self.columns), self.columns)
        grid = jnp.concatenate([waves(row, width // 2), waves(column, width // 2)], axis=1)
        return jnp.concatenate([jnp.zeros((in_front, width)), grid])


Start = Uniform | Xavier | Zero | Sinusoidal | GridSinusoidal


def waves(place: Array, width: int) -> Float[Array, "M C"]:
    i = jnp.arange(width)
    angle = place[:, None] / 10000.0 ** (2 * (i // 2) / width)
    return jnp.where(i % 2 == 0, jnp.sin(angle), jnp.cos(angle))


def drawn_with(key: Key | None) -> Key:
    if key is None:
        raise SettingError(
            "positions: a table that is drawn at random is a weight and must be trained; "
            "fixed positions (trained=False) can be Sinusoidal, GridSinusoidal or Zero"
        )
    return key


class Params(NamedTuple):
    pos: Float[Array, "M C"] | None  # None where the table is fixed
    decayed = ()


@dataclass(frozen=True)
class Positions:
    tokens: int  # M: the longest sequence
    width: int  # C
    start: Start = Uniform(0.1)
    trained: bool = True

    @property
    def pos(self) -> Float[Array, "M C"]:
        """The table where it is fixed."""
        return self.start.table(None, self.tokens, self.width)

    def init(self, key: Key) -> Params:
        return Params(pos=self.start.table(key, self.tokens, self.width) if self.trained else None)

    def forward(self, params: Params, x: Float[Array, "B T C"]) -> tuple[Float[Array, "B T C"], None]:
        expect("positions", "width of the input", x.shape[-1], self.width)
        came = x.shape[1]
        if came > self.tokens:
            raise ShapeError(f"positions: {came} tokens came, the table has {self.tokens}; make it with tokens={came}")
        pos = params.pos
        if pos is None:
            pos = self.pos.astype(x.dtype)
        y = tag("y", in_order(x + pos[:came]))
        return y, None

    def backward(self, params: Params, cache: None, dy: Float[Array, "B T C"]) -> tuple[Float[Array, "B T C"], Params]:
        dy = tag("dy", dy)
        # y = x + pos[:T]
        if params.pos is None:
            return dy, Params(pos=None)
        dpos = jnp.sum(wide(in_order(dy)), axis=0)
        if dy.shape[1] < self.tokens:  # rows beyond this sequence were not used
            dpos = jnp.zeros_like(wide(params.pos)).at[: dy.shape[1]].set(dpos)
        return dy, Params(pos=dpos)
