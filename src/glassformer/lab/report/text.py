"""Text in pictures: it does not wrap by itself. Widths are of a usual sans-serif face, on the safe side."""

import textwrap
from typing import Any

from glassformer.lab.report.markup import Markup, el, join
from glassformer.lab.report.palette import paint

WIDTH = 0.56  # of a letter, in sizes of the face
NARROW, BROAD = "ijlt.,:;'|!()[] ", "mwMW@%"


def text(x: float, y: float, words: str, size: float = 13, ink: str = "text", **more: Any) -> Markup:
    return el("text", words, x=x, y=y, font_size=size, **paint(ink), **more)


def width_of(words: str, size: float) -> float:
    wide = sum(0.3 if c in NARROW else 0.88 if c in BROAD else 1.0 if ord(c) > 0x2E80 else WIDTH for c in words)
    return wide * size


def lines_of(words: str, width: float, size: float, most: int) -> list[str]:
    """As many lines as are allowed; what is left is cut with an ellipsis."""
    words = " ".join(words.split())
    letters = max(4, int(width / (WIDTH * size)))
    while True:
        lines = textwrap.wrap(words, letters)
        if letters <= 4 or all(width_of(line, size) <= width for line in lines):
            break
        letters -= 1
    if len(lines) > most:
        lines = lines[:most]
        lines[-1] = lines[-1][: max(1, letters - 2)].rstrip() + "…"
    return lines


def paragraph(x: float, y: float, lines: list[str], size: float, ink: str = "text", **more: Any) -> Markup:
    return join(*(text(x, y + i * size * 1.3, line, size, ink, **more) for i, line in enumerate(lines)))
