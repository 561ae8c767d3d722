"""The interval plot: one row a factor, with its interval, a dot for every seed, its verdict and its ranks.

It is drawn twice, for a wide window (and for paper) and for a narrow one, from the same rows.
"""

from collections.abc import Sequence

from glassformer.lab.report.facts import Line
from glassformer.lab.report.interval_row import measured, narrow_row, wide_row
from glassformer.lab.report.markup import Markup, join
from glassformer.lab.report.plot_frame import BELOW, Form, domain, frame, rule, svg, target, without_ranks
from glassformer.lab.report.scale import Scale
from glassformer.lab.report.text import text

APART = 34.0  # room for the line above what is not ranked


def interval_plot(
    lines: Sequence[Line], apart: Sequence[Line], form: Form, about: str, head: str, gap: float | None = None
) -> Markup:
    """`apart` is shown and not ranked; `head` stands over the numbers; `gap`: what is missing to the target."""
    form = form if any(line.rank for line in lines) else without_ranks(form)
    scale = Scale(*domain([*lines, *apart], gap), *form.plot)
    aim = gap if gap is not None and scale.inside(gap) else None
    top = 24.0 if form.wide or aim is not None else 0.0
    top += 16.0 if form.wide and aim is not None else 0.0
    rows = [measured(line, form) for line in (*lines, *apart)]
    starts, y = [], top
    for i, row in enumerate(rows):
        y += APART if i == len(lines) else 0
        starts.append(y)
        y += row.height(form)
    most = max((line.rank.worst for line in lines if line.rank), default=1)
    strips = [(top, y)] if form.wide else [row.strip(at) for row, at in zip(rows, starts, strict=True)]
    drawn = [header(form, head) if form.wide else None, frame(scale, form, strips, y, about)]
    if aim is not None:
        drawn.append(target(scale(aim), strips, form))
    for i, (row, at) in enumerate(zip(rows, starts, strict=True)):
        if i == len(lines):
            drawn.append(text(form.name, at - 10, "For comparison, not ranked", 12, "quiet", font_weight=600))
        elif i:
            drawn.append(rule(at, form.width))
        drawn.append(wide_row(row, at, scale, form, most) if form.wide else narrow_row(row, at, scale, form))
    return svg(form.width, y + BELOW, f"{len(rows)} factors: {about}", *drawn, kind=form.kind)


def header(form: Form, head: str) -> Markup:
    return join(
        text(0, 13, "ranks", 12, "quiet") if form.ranks else None,
        text(form.name, 13, "factor, and what it would mean", 12, "quiet"),
        text(form.value, 13, head, 12, "quiet"),
        text(form.word, 13, "verdict", 12, "quiet"),
    )
