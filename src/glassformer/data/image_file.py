"""One image file, in any common format, as pixels. A foreign file is opened with care: what is wrong names the file."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from glassformer.errors import DataError
from glassformer.reading import open_plain

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")  # Pillow's other decoders start programs or are rare
GREY = ("1", "L", "LA")
DEEP = ("I", "F")  # and I;16, I;16B, …: more than 8 bits


def read_image(path: Path) -> np.ndarray:
    """uint8 (rows, columns, channels): one channel where the file is grey, else three."""
    pixels, transparent = read_on_white(path)
    if transparent:
        raise DataError(f"{path}: it has transparent pixels; flatten it onto a background first")
    return pixels


def read_on_white(path: Path) -> tuple[np.ndarray, bool]:
    """As `read_image`, but transparent pixels let white paper through; and whether there were any."""
    return decode_on_white(open_plain(path, DataError, "an image"), path)


def decode_on_white(file: BinaryIO, name: str | Path) -> tuple[np.ndarray, bool]:
    """The same of a file that is open; messages say its name."""
    from PIL import Image

    image = decoded(file, name)
    if image.mode.startswith(DEEP):
        raise DataError(f"{name}: more than 8 bits per pixel (mode {image.mode}); save it with 8 bits")
    mode = "L" if image.mode in GREY else "RGB"
    with damage_is_told(name):  # a palette that is too short
        image = image.convert("RGBA") if image.has_transparency_data else image
        transparent = image.mode == "RGBA" and np.asarray(image)[..., 3].min() < 255
        if transparent:
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
        pixels = np.asarray(image.convert(mode))
    return pixels if pixels.ndim == 3 else pixels[..., None], bool(transparent)


def decoded(file: BinaryIO, name: str | Path) -> "Image":
    """The decoded image; a file that is none, and one that would unpack to gigabytes, are refused by name."""
    from PIL import Image, ImageOps

    logging.getLogger("PIL").addHandler(logging.NullHandler())  # what it logs would be printed else
    with damage_is_told(name), file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tags that are damaged, and make no difference to the pixels
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(file, formats=FORMATS) as image:
            image.load()
            return ImageOps.exif_transpose(image)  # upright, as the camera held it


@contextmanager
def damage_is_told(name: str | Path) -> Iterator[None]:
    from PIL import Image, UnidentifiedImageError

    try:
        yield
    except DataError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(f"{name}: refused, as unpacking it could fill the memory: {error}") from None
    except UnidentifiedImageError:
        raise DataError(f"{name}: not an image; expected one of {', '.join(FORMATS)}") from None
    except Exception as error:  # decoders raise OSError, SyntaxError, ValueError, struct.error and more
        raise DataError(f"{name}: the image is damaged or cut short: {error}") from None
