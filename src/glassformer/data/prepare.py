"""Any picture as a model takes it, and in words what was done to it. Sizes in those words are width x height.

A grey model gets what MNIST is made of: bright ink on black, cropped to the ink, its longer side 20/28 of the image,
the centre of mass in the middle. A colour model gets the middle of the picture. A picture that has the model's size
is taken as it is, inverted where that is needed.
"""

import math
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from glassformer.data.idx import IMAGES, read_idx
from glassformer.data.image_file import read_on_white
from glassformer.data.sources import load
from glassformer.errors import DataError, FileError
from glassformer.reading import expanded, open_plain

Invert = Literal["auto", "yes", "no"]

INK_SHARE = 20 / 28  # of the image that the longer side of the ink fills, as in MNIST
FAINT = 16  # of 255 levels: ink that stands out by less is none
EDGE = 0.25  # of the strongest ink: what belongs to the ink when it is cropped
FINE = 1024  # pixels: larger pictures are shrunk to this before anything else
COARSE = 128  # pixels: the ink is looked for in a copy this small, where noise and specks have averaged out


class Picture(NamedTuple):
    name: str  # the file, with a number where it holds several: digits-idx3-ubyte:0
    image: np.ndarray  # uint8, of the model's shape
    done: list[str]  # what was done to it
    label: Any  # the number of the class, or the numbers of a regression; None: not known


def read_pictures(word: str, shape: tuple[int, int, int], data: str, invert: Invert = "auto") -> list[Picture]:
    """The pictures that a word names, prepared for a model of images of this shape.

    An image file, an IDX file (all its images, or `file:17`), or `test:17`: test image 17 of the data set `data`.
    """
    name, number = address(word)
    if name == "test" and number is not None:
        return [from_test_set(word, number, data, invert)]
    path = expanded(name)
    if not is_idx(path):
        pixels, transparent = read_on_white(expanded(word))
        paper = ["transparent pixels put on white"] if transparent else []
        image, done = prepare(pixels, shape, invert, ", ".join([word, *paper]))
        return [Picture(word, image, [*paper, *done], label=None)]
    images = read_idx(path, IMAGES)[..., None]
    inversion = find_inversion(images, shape, invert)  # one answer for the whole file: it was made in one way
    numbers = range(len(images)) if number is None else [within(word, number, len(images))]
    return [Picture(f"{name}:{i}", *bring(images[i], shape, inversion, f"{name}:{i}"), label=None) for i in numbers]


def prepare(
    pixels: np.ndarray, shape: tuple[int, int, int], invert: Invert = "auto", where: str = "image"
) -> tuple[np.ndarray, list[str]]:
    """uint8 pixels (rows, columns, channels) as an image of this shape, and what was done.

    >>> image, done = prepare(np.pad(np.zeros((30, 10, 1), np.uint8), 40, constant_values=255)[..., 40:41], (28, 28, 1))
    >>> image.shape, done
    ((28, 28, 1), ['inverted: dark ink on light ground', 'cropped 10x30 from 90x110', 'scaled to 7x20', 'centred'])
    """
    return bring(pixels, shape, find_inversion(pixels[None], shape, invert), where)


def bring(pixels: np.ndarray, shape: tuple[int, int, int], inversion: str, where: str) -> tuple[np.ndarray, list[str]]:
    """`prepare`, when it is known whether to invert: `inversion` says why, nothing for no."""
    done = []
    if pixels.shape[-1] != shape[-1]:
        pixels = with_channels(pixels, shape[-1], where)
        done.append("made grey" if shape[-1] == 1 else "grey repeated in each colour")
    if inversion:
        pixels = 255 - pixels
        done.append(inversion)
    if np.ptp(pixels) < FAINT:
        raise DataError(f"{where}: the image is blank: nothing stands out from its ground")
    if pixels.shape == shape:
        return pixels, [*done, f"used as it is: {of_size(pixels)}"]
    image, more = centred_ink(pixels[..., 0], shape[:2], where) if shape[-1] == 1 else middle(pixels, shape[:2])
    return image, [*done, *more]


def find_inversion(images: np.ndarray, shape: tuple[int, int, int], invert: Invert) -> str:
    """Why these images (N, rows, columns, channels) are to be inverted; nothing when they are not.

    By itself only for a grey model: a photograph has no ink.
    """
    if invert == "yes":
        return "inverted: as asked"
    if invert == "auto" and shape[-1] == 1 and is_dark_on_light(images):
        return "inverted: dark ink on light ground"
    return ""


def is_dark_on_light(images: np.ndarray) -> bool:
    """Whether the ink is darker than the ground, which is the median of the border.

    The cubes of the differences decide: ink is little but far from the ground, while noise and shading are near it.
    """
    cubes = 0.0
    for image in images:
        coarse, _ = shrunk(as_grey(image), COARSE)
        cubes += float(((coarse - np.median(border(coarse))) ** 3).sum())
    return cubes < 0


def centred_ink(grey: np.ndarray, size: tuple[int, int], where: str) -> tuple[np.ndarray, list[str]]:
    """Bright ink on dark ground, placed as in MNIST."""
    from PIL import Image

    work, factor = shrunk(grey, FINE)
    work = above_ground(work)
    no_ink = f"{where}: no ink: nothing is brighter than the ground; ink that is darker has to be inverted"
    if shrunk(work, COARSE)[0].max() < FAINT:
        raise DataError(no_ink)
    done = []
    top, bottom, left, right = ink_box(work)
    crop = work[top:bottom, left:right]
    if crop.shape != work.shape:
        height, width = min(factor * crop.shape[0], grey.shape[0]), min(factor * crop.shape[1], grey.shape[1])
        done.append(f"cropped {width}x{height} from {of_size(grey)}")
    scale = min(INK_SHARE * side / ink for side, ink in zip(size, crop.shape, strict=True))
    height, width = (max(1, round(scale * side)) for side in crop.shape)
    ink = np.asarray(Image.fromarray(crop).resize((width, height), Image.Resampling.LANCZOS)).clip(0)
    done.append(f"scaled to {width}x{height}")
    if ink.max() == 0:  # specks in noise, which average out
        raise DataError(no_ink)
    if ink.max() < 255 - FAINT:
        done.append("contrast stretched")
    image = np.zeros(size, np.uint8)
    y, x = (corner(ink, axis, size[axis]) for axis in (0, 1))
    image[y : y + height, x : x + width] = np.rint(ink * (255 / ink.max()))
    return image[..., None], [*done, "centred"]


def above_ground(grey: np.ndarray) -> np.ndarray:
    """How much brighter than the ground and its noise each pixel is.

    The ground is the plane through the pixels of the border, as light falls off to one side of a photograph; without
    those that are far from most, which are ink. The noise is three times their median distance from the plane, about
    two standard deviations.
    """
    coarse, _ = shrunk(grey, COARSE)
    y, x = (border(axis) for axis in np.meshgrid(*map(places, coarse.shape), indexing="ij"))
    edge, terms = border(coarse), np.stack([np.ones_like(y), y, x], axis=1)
    distance = np.abs(edge - np.median(edge))
    near = distance <= 3 * np.median(distance) + FAINT
    plane = np.linalg.lstsq(terms[near], edge[near])[0]
    noise = 3 * np.median(np.abs(edge - terms @ plane))
    y, x = map(places, grey.shape)
    return (grey - (plane[0] + noise + plane[1] * y[:, None] + plane[2] * x)).astype(np.float32)


def ink_box(ink: np.ndarray) -> tuple[int, int, int, int]:
    """Top, bottom, left and right of the ink: found in the whole, then once more, finer, in what was found."""
    top, bottom, left, right = 0, ink.shape[0], 0, ink.shape[1]
    for _ in range(2):
        coarse, factor = shrunk(ink[top:bottom, left:right], COARSE)
        inked = coarse > EDGE * coarse.max()
        y, x = np.flatnonzero(inked.any(axis=1)), np.flatnonzero(inked.any(axis=0))
        bottom, right = min(bottom, top + factor * int(y[-1] + 1)), min(right, left + factor * int(x[-1] + 1))
        top, left = top + factor * int(y[0]), left + factor * int(x[0])
    return top, bottom, left, right


def corner(ink: np.ndarray, axis: int, size: int) -> int:
    """Where the ink begins, so that its centre of mass falls on pixel size // 2; it is never cut off."""
    mass = ink.sum(axis=1 - axis)
    centre = float(mass @ np.arange(len(mass)) / mass.sum())
    return min(max(round(size // 2 - centre), 0), size - len(mass))


def middle(pixels: np.ndarray, size: tuple[int, int]) -> tuple[np.ndarray, list[str]]:
    """The largest part of a photograph in the middle that has the right proportions, scaled."""
    from PIL import Image

    scale = min(have / want for have, want in zip(pixels.shape, size, strict=False))
    height, width = (max(1, round(scale * side)) for side in size)
    top, left = (pixels.shape[0] - height) // 2, (pixels.shape[1] - width) // 2
    crop = pixels[top : top + height, left : left + width]
    done = [] if crop.shape == pixels.shape else [f"cropped {of_size(crop)} from the middle of {of_size(pixels)}"]
    if crop.shape[:2] != size:
        done.append(f"scaled to {size[1]}x{size[0]}")
    return np.asarray(Image.fromarray(crop).resize((size[1], size[0]), Image.Resampling.LANCZOS)), done


def from_test_set(word: str, number: int, data: str, invert: Invert) -> Picture:
    test = load(data).test
    image = test.images[within(word, number, len(test.labels))]
    done = [f"used as it is: test image of {data}"]
    if invert == "yes":
        image, done = 255 - image, ["inverted: as asked"]
    return Picture(word, image, done, label=test.labels[number].tolist())


def address(word: str) -> tuple[str, int | None]:
    """`digits-idx3-ubyte:17` -> (digits-idx3-ubyte, 17); a file that is really called so comes first."""
    name, colon, number = word.rpartition(":")
    return (name, int(number)) if colon and number.isdecimal() and not Path(word).exists() else (word, None)


def within(word: str, number: int, count: int) -> int:
    if number >= count:
        raise DataError(f"{word}: there are {count:,} images, numbered 0 to {count - 1:,}")
    return number


def is_idx(path: Path) -> bool:
    """By its first bytes, or its name; what cannot be opened at all is left for the reader of images to explain."""
    try:
        with open_plain(path) as file:
            begin = file.read(4)
    except (FileError, OSError):
        return False
    return begin[:3] == b"\0\0\x08" or begin[:2] == b"\x1f\x8b" or "ubyte" in path.name


def with_channels(pixels: np.ndarray, channels: int, where: str) -> np.ndarray:
    if channels == 1:
        return as_grey(pixels)[..., None]
    if channels != 3:
        raise DataError(f"{where}: a picture has 1 or 3 channels, this model takes images of {channels}")
    return pixels.repeat(3, axis=-1)


def as_grey(pixels: np.ndarray) -> np.ndarray:
    """(rows, columns), by the eye's weights for red, green and blue."""
    from PIL import Image

    return pixels[..., 0] if pixels.shape[-1] == 1 else np.asarray(Image.fromarray(pixels).convert("L"))


def shrunk(grey: np.ndarray, longest: int) -> tuple[np.ndarray, int]:
    """Averaged over squares, so that no side is longer than `longest`; and the side of those squares."""
    from PIL import Image

    factor = math.ceil(max(grey.shape) / longest)
    return np.asarray(Image.fromarray(grey).reduce(factor), np.float32), factor


def places(count: int) -> np.ndarray:
    """The middles of so many pixels, on a line from 0 to 1."""
    return (np.arange(count) + 0.5) / count


def border(grey: np.ndarray) -> np.ndarray:
    return np.concatenate([grey[0], grey[-1], grey[1:-1, 0], grey[1:-1, -1]])


def of_size(pixels: np.ndarray) -> str:
    return f"{pixels.shape[1]}x{pixels.shape[0]}"
