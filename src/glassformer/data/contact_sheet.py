"""A contact sheet: what a data set looks like, one row per class."""

from typing import TYPE_CHECKING

import numpy as np

from glassformer.data.dataset import Samples

if TYPE_CHECKING:
    from PIL.Image import Image

TILE = 56  # pixels: smaller images are enlarged by a whole factor to about this
GAP = 4


def contact_sheet(samples: Samples, classes: tuple[str, ...], columns: int = 10, rows: int = 10) -> "Image":
    """The first `columns` samples of each of the first `rows` classes, with the name of the class in front."""
    from PIL import Image, ImageDraw, ImageFont

    shown = classes[:rows]
    height, width = samples.images.shape[1:3]
    scale = max(1, TILE // max(height, width))
    step_y, step_x = height * scale + GAP, width * scale + GAP
    font = ImageFont.load_default(size=16)
    left = GAP * 3 + round(max(font.getlength(name) for name in shown))
    sheet = Image.new("RGB", (left + columns * step_x, GAP + len(shown) * step_y), "white")
    draw = ImageDraw.Draw(sheet)
    for row, name in enumerate(shown):
        top = GAP + row * step_y
        draw.text((left - 2 * GAP, top + height * scale // 2), name, "black", font, anchor="rm")
        for column, index in enumerate(np.flatnonzero(samples.labels == row)[:columns]):
            sheet.paste(tile(samples.images[index], scale), (left + column * step_x, top))
    return sheet


def tile(image: np.ndarray, scale: int) -> "Image":
    from PIL import Image

    enlarged = image.repeat(scale, axis=0).repeat(scale, axis=1)
    return Image.fromarray(enlarged[..., 0] if enlarged.shape[-1] == 1 else enlarged)
