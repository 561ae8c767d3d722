"""Attention over tokens as lines of text: the tokens, and beneath them how much each is looked at, head by head.

                   def f(x):
block 0 · head 0   ▂▁▁▂▁▁█▃    most at 'x', 41 %
"""

import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np

from glassformer.lens.token_maps import HEADINGS, Place, TokenMap, by_kind, shown

LEVELS = " ▁▂▃▄▅▆▇█"
LEAST = 24  # columns for tokens, however narrow the terminal is


def token_rows(maps: Sequence[TokenMap], place: Place, width: int, what: str = "most at") -> list[str]:
    """One line for each map, under the tokens; long texts go on in further paragraphs of the same lines."""
    lines: list[str] = []
    for kind, own in by_kind(maps):
        lines += ["", HEADINGS[kind], *paragraphs(own, place, width, what)]
    return lines[1:]


def paragraphs(maps: list[TokenMap], place: Place, width: int, what: str) -> Iterator[str]:
    titles = [one.title for one in maps]
    margin = max(map(len, titles)) + 2
    rows = [one.of(place) for one in maps]
    notes = [
        f"  {what} {shown(one.columns[row.argmax()])!r}, {share(row)}" for one, row in zip(maps, rows, strict=True)
    ]
    names = [shown(name) for name in maps[0].columns]
    for start, end in line_breaks([cells(name) for name in names], max(LEAST, width - margin - max(map(len, notes)))):
        if start:
            yield ""
        yield " " * margin + "".join(names[start:end])
        for title, row, note in zip(titles, rows, notes, strict=True):
            heights = levels(row)
            heat = "".join(heights[i] * cells(names[i]) for i in range(start, end))
            yield f"{title:{margin}}{heat}{note}".rstrip()


def share(row: np.ndarray) -> str:
    return f"{100 * row.max() / row.sum():.0f} %" if row.sum() > 0 else "nothing"


def levels(row: np.ndarray) -> list[str]:
    """Height beside the largest of the row; what is above zero is seen only from half a level on."""
    most = row.max()
    return [LEVELS[round((len(LEVELS) - 1) * float(value / most))] if most > 0 else " " for value in row]


def line_breaks(widths: list[int], most: int) -> Iterator[tuple[int, int]]:
    """Neighbouring tokens that have room in a line together."""
    start, taken = 0, 0
    for i, width in enumerate(widths):
        if taken + width > most and i > start:
            yield start, i
            start, taken = i, 0
        taken += width
    yield start, len(widths)


def cells(text: str) -> int:
    """Columns of a terminal: two for the wide characters of East Asia, none for what is put on others."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    none = sum(unicodedata.category(character) in ("Mn", "Me", "Cf") for character in text)
    return max(0, len(text) + wide - none)
