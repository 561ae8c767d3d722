"""Patches: cut an image into square patches; each becomes a token of raw pixels.

forward    y = patches(x, size)
backward   dx = unpatches(dy, size, X)

Token t = py * columns + px holds the pixels (py*P + dy, px*P + dx), dy first, then dx, then the channel. Backward puts
the same pixels back: every pixel is in exactly one patch. Nothing is computed, so nothing is cached.
"""

from dataclasses import dataclass

from glassformer.errors import ShapeError, at_least, expect
from glassformer.names import tag
from glassformer.shapes import Array, Float, Key


@dataclass(frozen=True)
class Patches:
    image: tuple[int, int, int] = (28, 28, 1)  # Y, X, G
    size: int = 4  # side of a patch

    def __post_init__(self) -> None:
        rows, columns, channels = self.image
        at_least("patches", 1, rows=rows, columns=columns, channels=channels, size=self.size)
        if rows % self.size or columns % self.size:
            fitting = [size for size in range(1, min(rows, columns) + 1) if rows % size == columns % size == 0]
            raise ShapeError(
                f"patches: an image of {rows}x{columns} does not divide into patches of {self.size}x{self.size}; "
                f"sizes that fit: {', '.join(map(str, fitting))}"
            )

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.image[0] // self.size, self.image[1] // self.size

    @property
    def tokens(self) -> int:
        return self.grid[0] * self.grid[1]

    @property
    def values(self) -> int:
        """Numbers in one patch."""
        return self.size * self.size * self.image[2]

    def init(self, key: Key) -> None:
        return None

    def forward(self, params: None, x: Float[Array, "B Y X G"]) -> tuple[Float[Array, "B T P"], None]:
        if x.shape[1:] != self.image:
            raise ShapeError(
                f"patches: images of shape {x.shape[1:]} came, expected {self.image} (rows, columns, channels); "
                "a batch of grey images needs a last axis of 1: images[..., None]"
            )
        rows, columns = self.grid
        x = x.reshape(-1, rows, self.size, columns, self.size, self.image[2])
        y = x.transpose(0, 1, 3, 2, 4, 5).reshape(-1, self.tokens, self.values)
        return tag("y", y), None

    def backward(self, params: None, cache: None, dy: Float[Array, "B T P"]) -> tuple[Float[Array, "B Y X G"], None]:
        dy = tag("dy", dy)
        expect("patches", "number of tokens in the gradient", dy.shape[1], self.tokens)
        rows, columns = self.grid
        dx = dy.reshape(-1, rows, columns, self.size, self.size, self.image[2])
        return dx.transpose(0, 1, 3, 2, 4, 5).reshape(-1, *self.image), None
