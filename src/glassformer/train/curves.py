"""The picture of a run: loss and accuracy over the epochs. Drawn with Pillow: a plotting library takes longer to import
than a small model to train."""

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from glassformer.train.run_folder import Row

WIDTH, HEIGHT, SHARP = 960, 384, 2  # pixels; lines are drawn twice as large, then made smaller: smooth
BLUE, ORANGE, GREEN, GREY, LIGHT = "#0072b2", "#d55e00", "#009e73", "#444444", "#dddddd"
MARKER = 3  # half its width


class Curve(NamedTuple):
    label: str
    colour: str
    values: Sequence[float | None]  # one for each epoch; None and what is not finite are left out


def curves(rows: "tuple[Row, ...]") -> bytes:
    """A PNG."""
    from PIL import Image

    epochs = [row.epoch for row in rows]
    column, times = ("loss", 1) if rows[-1].test_accuracy is None else ("accuracy", 100)
    scores = [
        Curve(name, colour, [None if score is None else times * score for score in found])
        for name, colour, part in (("test", ORANGE, "test"), ("validation", GREEN, "val"))
        if (found := [getattr(row, f"{part}_{column}") for row in rows])[-1] is not None
    ]
    picture = Image.new("RGB", (WIDTH, HEIGHT), "white")
    loss = Curve("", BLUE, [row.loss for row in rows])
    picture.paste(panel("training loss", epochs, [loss], lowest=0.0), (0, 0))
    title = "accuracy, %" if times == 100 else column
    picture.paste(panel(title, epochs, scores), (WIDTH // 2, 0))
    data = io.BytesIO()
    picture.save(data, format="png")
    return data.getvalue()


def panel(title: str, epochs: list[int], shown: list[Curve], lowest: float | None = None) -> Any:
    """One pair of axes."""
    from PIL import Image, ImageDraw, ImageFont

    width, height, (left, top, right, bottom) = WIDTH // 2, HEIGHT, (62, 36, 16, 52)
    points = [value for curve in shown for part in unbroken(epochs, curve.values) for _, value in part]
    low, high = min(points, default=0.0) if lowest is None else lowest, max(points, default=1.0)
    ticks_y, ticks_x = ticks(low, high), ticks(epochs[0], epochs[-1], whole=True)
    low, high = min(low, ticks_y[0]), max(high, ticks_y[-1])
    first, last = min(epochs[0], ticks_x[0]), max(epochs[-1], ticks_x[-1], epochs[0] + 1)

    def place(epoch: float, value: float) -> tuple[float, float]:
        across, up = (epoch - first) / (last - first), (value - low) / (high - low)
        return left + across * (width - left - right), height - bottom - up * (height - top - bottom)

    image = Image.new("RGB", (width * SHARP, height * SHARP), "white")
    draw = ImageDraw.Draw(image)

    def line(ends: list[tuple[float, float]], colour: str, thick: float) -> None:
        draw.line([(x * SHARP, y * SHARP) for x, y in ends], fill=colour, width=round(thick * SHARP), joint="curve")

    for tick in ticks_y:
        line([place(first, tick), place(last, tick)], LIGHT, 1)
    for tick in ticks_x:
        line([place(tick, low), place(tick, high)], LIGHT, 1)
    line([place(first, high), place(first, low), place(last, low)], GREY, 1)
    for curve in shown:
        for part in unbroken(epochs, curve.values):
            line([place(*point) for point in part], curve.colour, 1.8)
            for x, y in (place(*point) for point in part):
                draw.ellipse([(c + d * MARKER) * SHARP for d in (-1, 1) for c in (x, y)], fill=curve.colour)
    image = image.resize((width, height), Image.Resampling.LANCZOS)
    draw, large, small = ImageDraw.Draw(image), ImageFont.load_default(16), ImageFont.load_default(13)
    draw.text(((left + width - right) / 2, top / 2), title, fill="black", font=large, anchor="mm")
    draw.text(((left + width - right) / 2, height - 14), "epoch", fill="black", font=small, anchor="mm")
    for tick in ticks_y:
        x, y = place(first, tick)
        draw.text((x - 8, y), f"{tick:g}", fill="black", font=small, anchor="rm")
    for tick in ticks_x:
        x, y = place(tick, low)
        draw.text((x, y + 14), f"{tick:g}", fill="black", font=small, anchor="mm")
    for i, curve in enumerate(reversed([curve for curve in shown if curve.label])):
        y = height - bottom - 16 - 20 * i
        draw.line([(width - right - 104, y), (width - right - 80, y)], fill=curve.colour, width=2)
        draw.text((width - right - 74, y), curve.label, fill="black", font=small, anchor="lm")
    return image


def unbroken(epochs: list[int], values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """The points, in pieces where some are left out between."""
    parts: list[list[tuple[int, float]]] = [[]]
    for epoch, value in zip(epochs, values, strict=True):
        if value is not None and math.isfinite(value):
            parts[-1].append((epoch, value))
        elif parts[-1]:
            parts.append([])
    return [part for part in parts if part]


def ticks(low: float, high: float, *, whole: bool = False, most: int = 6) -> list[float]:
    """Round numbers from `low` or below to `high` or above, at most so many steps; two at least."""
    if high - low <= 1e-6 * abs(high):  # all the same, as far as one could read it
        high = low + (abs(low) or 1.0)
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(power * times for times in (1, 2, 5, 10, 20) if power * times * most >= high - low)
    step = max(step, 1.0) if whole else step
    begin, end = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{step * i:.10g}") for i in range(begin, max(end, begin + 1) + 1)]
