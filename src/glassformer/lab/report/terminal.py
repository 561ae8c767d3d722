"""The answer for the terminal, then the ranked effects as a table that fits."""

import shutil
import textwrap
import unicodedata
from collections.abc import Sequence

from glassformer.lab.report.facts import TIE, Line, answer, apart, comparators, coverage, ranked
from glassformer.lab.report.numbers import MINUS, NONE, interval, p_value, points, ranks
from glassformer.lab.study import Study

WIDEST, NARROWEST = 100, 40
NAME = 1  # the column that gives way
GAP = "  "


def summary(study: Study, width: int | None = None) -> str:
    """As wide as the terminal, at most 100 letters."""
    width = max(NARROWEST, min(width or shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST))
    parts = [wrapped(words, width) for words in (study.plan.question, *answer(study))]
    lines, others = ranked(study), comparators(study)
    head = ("ranks", "factor", study.plan.metric.unit, f"{coverage(study)} interval", "p", "verdict")
    if lines or others:
        parts.append("\n".join(table(lines, others, width, head)))
    for title, _, own, _ in apart(study):
        parts.append("\n".join([wrapped(f"{title}:", width), *table(own, [], width, head)]))
    if any(one.tied for one in lines):
        parts.append(wrapped(f"= {TIE} p after Holm.", width))
    parts += [wrapped(f"- {note}", width, "  ") for note in (*study.warnings, *study.notes)]
    return "\n\n".join(part for part in parts if part)


def table(lines: Sequence[Line], others: Sequence[Line], width: int, head: Sequence[str]) -> list[str]:
    rows = [row(one) for one in (*lines, *others)]
    first = 0 if any(line.rank for line in lines) else NAME  # no ranks, no column for them
    fixed = [max(cells_of(cells[i]) for cells in (head, *rows)) for i in range(len(head))]
    room = width - sum(fixed[first:]) + fixed[NAME] - len(GAP) * (len(head) - first - 1)
    if room < 12:  # too narrow for columns: two lines each
        return [part for cells in rows for part in stacked(cells, width)]
    fixed[NAME] = min(room, fixed[NAME])
    shown = [drawn(cells, fixed, first) for cells in rows]
    rule = GAP.join("-" * wide for wide in fixed[first:])
    below = [rule, *shown[len(lines) :]] if others else []
    return [drawn(head, fixed, first), rule, *shown[: len(lines)], *below]


def row(line: Line) -> list[str]:
    effect = line.effect
    numbers = ["-"] * 3 if effect is None else [points(effect), interval(effect), p_value(effect.p_holm)]
    rank = ranks(line.rank).replace(NONE, "-") + (" =" if line.tied else "")
    return [rank, clean(line.name), *(number.replace(MINUS, "-") for number in numbers), line.finding.word]


def drawn(cells: Sequence[str], widths: Sequence[int], first: int) -> str:
    """Ranks, name and verdict to the left, numbers to the right."""
    sides = [
        padded(cut(cell, width), width) if i in (0, 1, 5) else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return GAP.join(sides[first:]).rstrip()


def stacked(cells: Sequence[str], width: int) -> list[str]:
    rank, name, mean, ends, p, word = cells
    return [
        cut(f"{rank}  {name}", width),
        *textwrap.wrap(f"{mean} {ends} p {p}, {word}", width, initial_indent="   ", subsequent_indent="   "),
    ]


def wrapped(words: str, width: int, indent: str = "") -> str:
    """By the room that letters take: some take two places."""
    lines, line = [], ""
    for piece in clean(words).split(" "):
        while cells_of(indent + piece) > width:
            start = cut_to(piece, width - len(indent))
            lines += [line] if line else []
            lines.append((indent if lines else "") + start)
            line, piece = "", piece[len(start) :]
        grown = f"{line} {piece}" if line else (indent if lines else "") + piece
        if cells_of(grown) > width:
            lines.append(line)
            line = indent + piece
        else:
            line = grown
    return "\n".join([*lines, *([line] if line else [])])


def clean(words: str) -> str:
    """One line without control characters: a name cannot steer the terminal."""
    return "".join(c for c in " ".join(words.split()) if unicodedata.category(c)[0] != "C")


def cells_of(words: str) -> int:
    """Places it takes on the screen."""
    return sum(place(c) for c in words)


def place(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def cut(words: str, width: int) -> str:
    return words if cells_of(words) <= width else cut_to(words, width - 1) + "…"


def cut_to(words: str, width: int) -> str:
    taken = 0
    for i, letter in enumerate(words):
        taken += place(letter)
        if taken > width:
            return words[: max(i, 1)]
    return words


def padded(words: str, width: int) -> str:
    return words + " " * (width - cells_of(words))
