"""What accuracy costs, drawn: a panel for each cost, and how the error falls with size."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.lab.pareto import Front, Point
from glassformer.lab.plan import MAIN
from glassformer.lab.report.cost_words import cost, kept, law_sentence
from glassformer.lab.report.dose_words import score_label
from glassformer.lab.report.markup import Markup, el, join
from glassformer.lab.report.palette import paint
from glassformer.lab.report.plot_frame import svg
from glassformer.lab.report.scale import Scale, around, marks, shown
from glassformer.lab.report.text import lines_of, paragraph, text
from glassformer.lab.scaling import Law
from glassformer.lab.study import Study

PERCENT = (0, 50, 80, 90, 95, 98, 99, 99.5, 99.8, 99.9)
INK, HEIGHT, APART = "curve-1", 300.0, 48.0
SHORT = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def cost_plot(study: Study, found: Sequence[Front], *, wide: bool) -> Markup:
    numbers = {one.cell.key: i for i, one in enumerate(kept(list(found)), 1)}
    panels = [lambda left, top, width, one=one: front_panel(study, one, numbers, left, top, width) for one in found]
    return grid(panels, HEIGHT, "Score against cost", wide=wide)


def law_plot(found: Sequence[Law], *, wide: bool) -> Markup:
    panels = [lambda left, top, width, one=one: law_panel(one, left, top, width) for one in found]
    return grid(panels, HEIGHT + 80, "Error against size", wide=wide)


def grid(panels: Sequence[Callable[[float, float, float], Markup]], height: float, label: str, *, wide: bool) -> Markup:
    width, columns = (1080.0, min(3, max(2, len(panels)))) if wide else (372.0, 1)
    across = (width - APART * (columns - 1)) / columns
    drawn = [
        panel((i % columns) * (across + APART), (i // columns) * (height + 20), across)
        for i, panel in enumerate(panels)
    ]
    rows = -(-len(panels) // columns)
    return svg(width, rows * (height + 20) - 12, label, *drawn, kind="wide" if wide else "narrow")


def front_panel(study: Study, one: Front, numbers: dict[str, int], left: float, top: float, width: float) -> Markup:
    prices = [point.cost for point in one.points]
    x = log_scale(min(prices), max(prices), left + 40, left + width - 8)
    y = Height.of(study, one, top + HEIGHT - 48, top + 30)
    order = {"dominated": 0, "undecided": 1, "front": 2}
    drawn = [mark(one, point, x, y) for point in sorted(one.points, key=lambda point: order[point.standing])]
    return join(
        paragraph(left, top + 13, lines_of(one.about, width, 14, 1), 14, font_weight=600),
        frame(x, y.scale, f"{one.cost} (logarithmic); {score_label(study, MAIN)}", y.marks()),
        staircase(one, x, y),
        *drawn,
        labels(one, numbers, x, y),
    )


@dataclass(frozen=True)
class Height:
    """Scores on the axis; percentages by the logarithm of what is missing to 100: good ones would lie on each other."""

    scale: Scale
    percent: bool

    @classmethod
    def of(cls, study: Study, one: Front, bottom: float, top: float) -> "Height":
        percent = score_label(study, MAIN).endswith("percent") and study.plan.metric.higher
        made = cls(Scale(0, 1, 0, 1), percent)
        ends = [end for p in one.points for end in (p.summary.mean, p.summary.low, p.summary.high)]
        least = min(100 - p.summary.mean for p in one.points) / 2 if percent else 0.0
        held = [min(end, 100 - least) if percent else end for end in ends if math.isfinite(end)]
        return cls(Scale(*around([made.place(end) for end in held]), bottom, top), percent)

    def place(self, score: float) -> float:
        return -math.log10(max(100 - score, 1e-3)) if self.percent else score

    def __call__(self, score: float) -> float:
        return self.scale.held(self.place(score))

    def marks(self) -> list[tuple[float, str]]:
        if not self.percent:
            return [(at, shown(at)) for at in self.scale.marks(5)]
        there = [one for one in PERCENT if self.scale.inside(self.place(one))]
        return [(self.place(one), f"{one:g}") for one in there]


def log_scale(low: float, high: float, start: float, end: float) -> Scale:
    low, high = math.log10(low), math.log10(high)
    room = 0.07 * (high - low) or 0.3
    return Scale(low - room, high + room, start, end)


def frame(x: Scale, y: Scale, about: str, heights: Sequence[tuple[float, str]]) -> Markup:
    drawn = []
    for at, words in heights:
        drawn.append(el("line", x1=x.start, y1=y(at), x2=x.end, y2=y(at), stroke_width=1, **paint("", "rule")))
        drawn.append(text(x.start - 7, y(at) + 4, words, 12, "quiet", text_anchor="end"))
    drawn.append(el("line", x1=x.start, y1=y.start, x2=x.end, y2=y.start, stroke_width=1.2, **paint("", "axis")))
    for at, words in log_marks(x.low, x.high):
        drawn.append(el("line", x1=x(at), y1=y.start, x2=x(at), y2=y.start + 5, stroke_width=1.2, **paint("", "axis")))
        drawn.append(text(x(at), y.start + 19, words, 12, "quiet", text_anchor="middle"))
    drawn.append(text((x.start + x.end) / 2, y.start + 38, about, 11.5, "quiet", text_anchor="middle"))
    return join(*drawn)


def log_marks(low: float, high: float) -> list[tuple[float, str]]:
    """Round numbers of a logarithmic axis, from 10^low to 10^high: by tens, or by 1, 2, 5 where that is too few.

    >>> [words for _, words in log_marks(3.4, 5.2)], [words for _, words in log_marks(1.8, 1.9)]
    (['5k', '10k', '20k', '50k', '100k'], ['65', '70', '75'])
    """
    tens = [1.0, 2.0, 5.0] if high - low < 2.2 else [1.0]
    found = [first * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for first in tens]
    found = [one for one in found if low <= math.log10(one) <= high]
    if len(found) < 2:
        found = marks(10**low, 10**high, 3)
    return [(math.log10(one), short(one)) for one in found]


def short(number: float) -> str:
    """
    >>> short(20000), short(1.5e6), short(0.3), short(512)
    ('20k', '1.5M', '0.3', '512')
    """
    size, letter = next(((size, letter) for size, letter in SHORT if number >= size), (1.0, ""))
    return f"{number / size:.3g}{letter}"


def staircase(one: Front, x: Scale, y: Height) -> Markup | None:
    """Through the front: from each point on, until the next one is better."""
    points = [(x(math.log10(point.cost)), y(point.summary.mean)) for point in one.points if point.standing == "front"]
    if len(points) < 2:
        return None
    path = f"M{points[0][0]:.1f},{points[0][1]:.1f}" + "".join(f"H{a:.1f}V{b:.1f}" for a, b in points[1:])
    return el("path", d=path, stroke_width=1.4, stroke_opacity=0.7, stroke_dasharray="5 3", **paint("", INK))


def mark(front: Front, point: Point, x: Scale, y: Height) -> Markup:
    one, at = point.summary, x(math.log10(point.cost))
    said = (
        f"{one.cell.title}: {one.mean:.2f} [{one.low:.2f}, {one.high:.2f}], {cost(front, point.cost)}, {point.standing}"
    )
    said += f" by {point.dominated_by}" if point.dominated_by else ""
    if point.standing == "dominated":
        return el("circle", el("title", said), cx=at, cy=y(one.mean), r=2.6, fill_opacity=0.55, **paint("axis"))
    ink = paint(INK, "card") if point.standing == "front" else paint("card", INK)
    line = el("line", x1=at, y1=y(one.low), x2=at, y2=y(one.high), stroke_width=1.8, **paint("", INK))
    return join(line, el("circle", el("title", said), cx=at, cy=y(one.mean), r=4.6, stroke_width=1.6, **ink))


def labels(one: Front, numbers: dict[str, int], x: Scale, y: Height) -> Markup:
    """The number of each on the front; those that lie on each other share a label."""
    together: list[tuple[float, float, list[int]]] = []
    for point in (point for point in one.points if point.standing == "front"):
        at, height = x(math.log10(point.cost)), y(point.summary.mean)
        near = next((label for label in together if abs(label[0] - at) < 16 and abs(label[1] - height) < 13), None)
        if near is None:
            together.append((at, height, near_numbers := []))
        else:
            near_numbers = near[2]
        near_numbers.append(numbers[point.summary.cell.key])
    return join(
        *(
            text(at - 7, height - 7, ", ".join(map(str, own)), 11.5, INK, text_anchor="end", font_weight=600)
            for at, height, own in together
        )
    )


def law_panel(one: Law, left: float, top: float, width: float) -> Markup:
    x = log_scale(one.sizes[0], one.sizes[-1], left + 40, left + width - 8)
    least = max(float(one.low.min()), 0.5 * float(one.errors.min()))
    y = log_scale(least, float(one.high.max()), top + HEIGHT - 48, top + 30)
    at = np.geomspace(one.sizes[0], one.sizes[-1], 40)
    path = " ".join(
        f"{x(math.log10(n)):.1f},{y.held(math.log10(e)):.1f}" for n, e in zip(at, one.error(at), strict=True)
    )
    law = el("polyline", points=path, stroke_width=1.6, stroke_dasharray="5 3", **paint("", "accent"))
    dots = []
    for size, error, low, high in zip(one.sizes, one.errors, one.low, one.high, strict=True):
        place, ends = x(math.log10(size)), (y.held(math.log10(max(end, 1e-9))) for end in (low, high))
        dots.append(el("line", x1=place, y1=next(ends), x2=place, y2=next(ends), stroke_width=1.8, **paint("", INK)))
        dots.append(el("circle", cx=place, cy=y(math.log10(error)), r=4.4, stroke_width=1.2, **paint(INK, "card")))
    return join(
        paragraph(left, top + 13, lines_of(one.dose.setting, width, 14, 1), 14, font_weight=600),
        frame(x, y, f"parameters; {one.kind} (both logarithmic)", log_marks(y.low, y.high)),
        law if one.falls else None,
        *dots,
        paragraph(left, top + HEIGHT + 14, lines_of(law_sentence(one), width, 12.5, 5), 12.5),
    )
