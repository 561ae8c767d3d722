"""The answer for the terminal, then the ranked effects as a table that fits."""

import shutil
import textwrap
import unicodedata
from collections.abc import Sequence

from glassformer.lab.report.facts import Line, comparators, groups, ranked
from glassformer.lab.report.numbers import MINUS, NONE, interval, p_value, points, ranks
from glassformer.lab.study import Study

WIDEST, NARROWEST = 100, 40
HEAD = ("ranks", "factor", "points", "95 % interval", "p", "verdict")
GAPS = 2 * (len(HEAD) - 1)


def summary(study: Study, width: int | None = None) -> str:
    """As wide as the terminal, at most 100 letters."""
    width = max(NARROWEST, min(width or shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST))
    parts = [wrapped(study.plan.question, width), wrapped(study.answer, width)]
    lines, apart = ranked(study), comparators(study)
    if lines or apart:
        parts.append("\n".join(table(lines, apart, width)))
    for group, own in groups(study):
        parts.append("\n".join([*wrapped(f"{group.name}:", width).splitlines(), *table(own, [], width)]))
    if any(one.tied for one in lines):
        parts.append(wrapped("= a tie: another factor may have the same rank. p after Holm.", width))
    parts += [wrapped(f"- {note}", width, "  ") for note in study.notes]
    return "\n\n".join(part for part in parts if part)


def table(lines: Sequence[Line], apart: Sequence[Line], width: int) -> list[str]:
    rows = [row(one) for one in (*lines, *apart)]
    fixed = [max(len(cells[i]) for cells in (HEAD, *rows)) for i in range(len(HEAD))]
    room = width - sum(fixed[:1] + fixed[2:]) - GAPS
    if room < 12:  # too narrow for columns: two lines each
        return [part for cells in rows for part in stacked(cells, width)]
    longest = max(map(cells_of, ("factor", *(cells[1] for cells in rows))))
    fixed[1] = min(room, longest)
    shown = [drawn(cells, fixed) for cells in rows]
    rule = "  ".join("-" * wide for wide in fixed)
    below = [rule, *shown[len(lines) :]] if apart else []
    return [drawn(HEAD, fixed), rule, *shown[: len(lines)], *below]


def row(line: Line) -> list[str]:
    effect = line.effect
    numbers = ["-"] * 3 if effect is None else [points(effect), interval(effect), p_value(effect.p_holm)]
    rank = ranks(line.rank).replace(NONE, "-") + (" =" if line.tied else "")
    return [rank, clean(line.name), *(number.replace(MINUS, "-") for number in numbers), line.finding.word]


def drawn(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Ranks, name and verdict to the left, numbers to the right."""
    sides = [
        padded(cut(cell, width), width) if i in (0, 1, 5) else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(sides).rstrip()


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
