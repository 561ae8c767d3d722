"""A contact sheet: images of a data set in rows, one per class."""

from typing import TYPE_CHECKING

import numpy as np

from glassformer.data.dataset import Samples

if TYPE_CHECKING:
    from PIL.Image import Image

TILE = 56  # pixels: smaller images are enlarged by a whole factor to about this
GAP = 4


def contact_sheet(samples: Samples, classes: tuple[str, ...], columns: int = 10, rows: int = 10) -> "Image":
    """The first `columns` samples of each of the first `rows` classes, with the name of the class in front."""
    return sheet_of({name: some_of(samples, row, columns) for row, name in enumerate(classes[:rows])}, columns)


def some_of(samples: Samples, label: int, count: int) -> np.ndarray:
    """The first images of a class."""
    return samples.images[np.flatnonzero(samples.labels == label)[:count]]


def sheet_of(rows: dict[str, np.ndarray], columns: int) -> "Image":
    """Images (N, rows, columns, channels) in rows, each with its name in front."""
    from PIL import Image, ImageDraw, ImageFont

    height, width = next(iter(rows.values())).shape[1:3]
    scale = max(1, TILE // max(height, width))
    step_y, step_x = height * scale + GAP, width * scale + GAP
    font = ImageFont.load_default(size=16)
    left = GAP * 3 + round(max(font.getlength(name) for name in rows))
    sheet = Image.new("RGB", (left + columns * step_x, GAP + len(rows) * step_y), "white")
    draw = ImageDraw.Draw(sheet)
    for row, (name, images) in enumerate(rows.items()):
        top = GAP + row * step_y
        draw.text((left - 2 * GAP, top + height * scale // 2), name, "black", font, anchor="rm")
        for column, image in enumerate(images):
            sheet.paste(tile(image, scale), (left + column * step_x, top))
    return sheet


def tile(image: np.ndarray, scale: int) -> "Image":
    from PIL import Image

    enlarged = image.repeat(scale, axis=0).repeat(scale, axis=1)
    return Image.fromarray(enlarged[..., 0] if enlarged.shape[-1] == 1 else enlarged)
