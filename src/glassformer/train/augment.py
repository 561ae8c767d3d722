"""Augmentation: a training image is rotated, scaled, sheared, moved and partly erased, each time by other draws.

An image is scaled, sheared and rotated about its centre, then moved. That is one affine map, so pixels are interpolated
once. For each place of the new image the inverse map tells where in the old one it comes from:

forward    new = R K S (old - centre) + centre + move
inverse    old = S^-1 K^-1 R^-1 (new - move - centre) + centre = affine @ (row, column, 1)

S = diag(scale of rows, scale of columns), K = [[1, 0], [shear, 1]], R a rotation. Values between pixels are bilinear;
beyond the border lies black. Bytes are rounded to bytes, as every image that the model will meet has them. Moves are by
whole pixels: those of `shifted`, which is all there is without augmentation.
"""

from dataclasses import dataclass
from math import log, radians
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from glassformer.errors import SettingError
from glassformer.shapes import Array, Float, Integer, Key

SMALLEST, LARGEST = 0.02, 0.2  # share of an image that is erased; what is left of a digit must be readable
ASPECT = 3.0  # of height to width, at most, and a third at least (about as Zhong et al. 2017)


@dataclass(frozen=True)
class Augment:
    rotate: float = 0.0  # degrees, at most, each way
    scale: float = (
        0.0  # share, at most, of rows and of columns by themselves: 0.12 makes them 0.88 to 1.12 times as long
    )
    shear: float = 0.0  # columns by which a row slides against the next, at most, each way
    erase: float = 0.0  # share of the images in which a rectangle becomes black

    def __post_init__(self) -> None:
        for name, most, unit in (
            ("rotate", 180, "degrees, which count each way: 0 to 180"),
            ("scale", ALMOST_ONE, "a share that both axes may grow and shrink by: 0 to below 1, such as 0.12"),
            ("shear", 1, "columns to a row: 0 to 1, such as 0.12"),
            ("erase", 1, "a share of the images: 0 to 1, such as 0.2"),
        ):
            if not 0 <= getattr(self, name) <= most:
                raise SettingError(f"training.augment: {name} is {getattr(self, name)}, expected {unit}")


ALMOST_ONE = 1 - 2**-20  # a scale of 0 has no inverse
NONE = Augment()


class Draws(NamedTuple):
    """What is done to each image of a batch."""

    affine: Float[Array, "B 2 3"]  # where the pixel at (row, column, 1) comes from
    erased: Integer[Array, "B 4"]  # first row, first column, and the row and column after the last


def augmented(key: Key, images: Any, augment: Augment, shift: int) -> Any:
    """Each image of a batch by draws of its own."""
    if augment == NONE:
        return shifted(key, images, shift)
    return warped(images, draw(key, len(images), images.shape[1:3], augment, shift))


def draw(key: Key, count: int, size: tuple[int, int], augment: Augment, shift: int) -> Draws:
    """Every number is drawn, used or not: a setting more leaves the others' draws as they were."""
    uniform = jax.random.uniform(jax.random.fold_in(key, 1), (9, count))
    turn, taller, wider, lean = 2 * uniform[:4] - 1
    scale = (1 + augment.scale * taller, 1 + augment.scale * wider)
    move = shift - corners_of(key, count, shift)
    affine = inverse_map(radians(augment.rotate) * turn, scale, augment.shear * lean, move, size)
    return Draws(affine, rectangles(uniform[4:], size, augment.erase))


def inverse_map(angle: Any, scale: tuple[Any, Any], shear: Any, move: Any, size: tuple[int, int]) -> Any:
    """S^-1 K^-1 R^-1 about the centre. Written out: matrix products of a GPU may round to ten bits."""
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    inverse = (
        (cos / scale[0], sin / scale[0]),
        (-(sin + shear * cos) / scale[1], (cos - shear * sin) / scale[1]),
    )
    centre = [(length - 1) / 2 for length in size]
    down, right = move[:, 0] + centre[0], move[:, 1] + centre[1]
    lines = [(a, b, c - (a * down + b * right)) for (a, b), c in zip(inverse, centre, strict=True)]
    return jnp.stack([jnp.stack(line, axis=-1) for line in lines], axis=1)


def rectangles(uniform: Any, size: tuple[int, int], share: float) -> Any:
    """One somewhere inside, for `share` of the images; an empty one for the others."""
    chosen, area, aspect, top, left = uniform
    area = size[0] * size[1] * (SMALLEST + (LARGEST - SMALLEST) * area)
    aspect = jnp.exp(log(ASPECT) * (2 * aspect - 1))
    height = jnp.clip(jnp.round(jnp.sqrt(area * aspect)), 1, size[0])
    width = jnp.clip(jnp.round(jnp.sqrt(area / aspect)), 1, size[1])
    top, left = jnp.floor(top * (size[0] - height + 1)), jnp.floor(left * (size[1] - width + 1))
    found = jnp.stack([top, left, top + height, left + width], axis=-1)
    return jnp.where(chosen[:, None] < share, found, 0).astype(jnp.int32)


def warped(images: Any, draws: Draws) -> Any:
    """Images as the draws have them, of the type that they came in."""
    whole = jnp.issubdtype(images.dtype, jnp.integer)

    def warp(image: Any, affine: Any, erased: Any) -> Any:
        row, column = jnp.mgrid[: image.shape[0], : image.shape[1]]
        values = sampled(image, *(a * row + b * column + c for a, b, c in affine))
        top, left, below, beside = erased
        inside = (row >= top) & (row < below) & (column >= left) & (column < beside)
        values = jnp.where(inside[..., None], 0, values)
        return (jnp.floor(values + 0.5) if whole else values).astype(image.dtype)

    return jax.vmap(warp)(images, *draws)


def sampled(image: Any, row: Float[Array, "Y X"], column: Float[Array, "Y X"]) -> Float[Array, "Y X G"]:
    """The image at these places: the four pixels around each, by how near they are."""
    rows, columns, _ = image.shape
    padded = jnp.pad(image, ((1, 2), (1, 2), (0, 0)))  # black all round: no pixel has to be asked whether it exists
    row, column = jnp.clip(row, -1, rows), jnp.clip(column, -1, columns)
    top, left = jnp.floor(row), jnp.floor(column)
    down, right = (row - top)[..., None], (column - left)[..., None]
    i, j = top.astype(int) + 1, left.astype(int) + 1

    def pixels(i: Any, j: Any) -> Any:
        return padded.at[i, j].get(mode="promise_in_bounds").astype(down.dtype)

    above = (1 - right) * pixels(i, j) + right * pixels(i, j + 1)
    below = (1 - right) * pixels(i + 1, j) + right * pixels(i + 1, j + 1)
    return (1 - down) * above + down * below


def corners_of(key: Key, count: int, most: int) -> Any:
    """Where each image is cut out of its padded self, (count, 2)."""
    return jax.random.randint(key, (count, 2), 0, 2 * most + 1)


def shifted(key: Key, images: Any, most: int) -> Any:
    """Each image moved by up to `most` pixels each way; what comes in at the border is black."""
    if most == 0:
        return images
    rows, columns, channels = images.shape[1:]
    padded = jnp.pad(images, ((0, 0), (most, most), (most, most), (0, 0)))
    corners = corners_of(key, len(images), most)

    def cut(image: Any, corner: Any) -> Any:
        return lax.dynamic_slice(image, (corner[0], corner[1], 0), (rows, columns, channels))

    return jax.vmap(cut)(padded, corners)
