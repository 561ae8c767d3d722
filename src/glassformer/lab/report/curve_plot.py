"""Learning curves, drawn: a line with a band for each cell, its name at its end, the target across."""

from collections.abc import Sequence

from glassformer.lab.metric import Metric
from glassformer.lab.report.learning import Curve
from glassformer.lab.report.markup import Markup, el, join
from glassformer.lab.report.palette import paint
from glassformer.lab.report.plot_frame import svg
from glassformer.lab.report.scale import Scale, shown
from glassformer.lab.report.text import lines_of, paragraph, text, width_of

DASHES = ("6 4", "", "", "9 3 2 3", "2 3", "")
LINE = 15.0  # between two names


def curve_plot(curves: Sequence[Curve], target: float | None, metric: Metric, *, wide: bool) -> Markup:
    """`target` as it is shown."""
    width, height = (1080.0, 430.0) if wide else (372.0, 300.0)
    left, right, top = (48.0, 800.0, 14.0) if wide else (32.0, 366.0, 12.0)
    bottom = height - 44
    epochs = max(len(curve.mean) for curve in curves)
    ends = [float(end) for curve in curves for end in (curve.low.min(), curve.high.max())]
    ends += [target] if target is not None else []
    low, high = min(ends), max(ends)
    room = 0.05 * (high - low) or 1.0
    x = Scale(1, max(epochs, 2), left, right)
    least, most = (metric.shown(end) for end in (metric.low, metric.high))
    y = Scale(max(least, low - room), min(most, high + room), bottom, top)
    drawn = [
        axes(x, y, wide, metric),
        *(band(curve, colour_of(curve, i, curves), x, y) for i, curve in enumerate(curves)),
    ]
    if target is not None:
        drawn.append(target_line(target, metric, curves, x, y))
    for i, curve in enumerate(curves):
        drawn.append(line(curve, i, colour_of(curve, i, curves), x, y))
    if wide:
        drawn.append(names(curves, x, y, right + 16, width - right - 16, metric))
        return svg(width, height, "Learning curves", *drawn, kind="wide")
    key, added = legend(curves, height + 4, width, metric)
    return svg(width, height + added, "Learning curves", *drawn, key, kind="narrow")


def colour_of(curve: Curve, i: int, curves: Sequence[Curve]) -> str:
    """The baseline is grey, the best black, the causes between them coloured."""
    if i == 0:
        return "curve-0"
    return "curve-5" if i == len(curves) - 1 and curve.label == "best combination" else f"curve-{(i - 1) % 4 + 1}"


def axes(x: Scale, y: Scale, wide: bool, metric: Metric) -> Markup:
    drawn = []
    for at in y.marks(6):
        drawn.append(el("line", x1=x.start, y1=y(at), x2=x.end, y2=y(at), stroke_width=1, **paint("", "rule")))
        drawn.append(text(x.start - 8, y(at) + 4, shown(at), 12, "quiet", text_anchor="end"))
    for at in (mark for mark in x.marks(8 if wide else 5) if mark == int(mark)):
        drawn.append(text(x(at), y.start + 19, shown(at), 12, "quiet", text_anchor="middle"))
    drawn.append(el("line", x1=x.start, y1=y.start, x2=x.end, y2=y.start, stroke_width=1.2, **paint("", "axis")))
    about = f"epoch; validation {metric.name}" + (" in percent" if metric.suffix == "%" else "")
    drawn.append(text((x.start + x.end) / 2, y.start + 38, about, 12, "quiet", text_anchor="middle"))
    return join(*drawn)


def band(curve: Curve, colour: str, x: Scale, y: Scale) -> Markup:
    places = [f"{x(i + 1):.1f},{y(v):.1f}" for i, v in enumerate(curve.high)]
    places += [f"{x(i + 1):.1f},{y(v):.1f}" for i, v in reversed(list(enumerate(curve.low)))]
    return el("polygon", points=" ".join(places), fill_opacity=0.16, **paint(colour))


def line(curve: Curve, i: int, colour: str, x: Scale, y: Scale) -> Markup:
    places = " ".join(f"{x(epoch + 1):.1f},{y(v):.1f}" for epoch, v in enumerate(curve.mean))
    ink, dashes = paint("", colour), DASHES[i % len(DASHES)] if colour != "curve-5" else ""
    dashed = {"stroke_dasharray": dashes} if dashes else {}
    thick = 2.8 if colour == "curve-5" else 2.2
    drawn = el("polyline", points=places, stroke_width=thick, stroke_linejoin="round", **dashed, **ink)
    end = el("circle", cx=x(len(curve.mean)), cy=y(float(curve.mean[-1])), r=3.4, **paint(colour))
    return join(drawn, end)


def target_line(value: float, metric: Metric, curves: Sequence[Curve], x: Scale, y: Scale) -> Markup:
    """Its name stands where the curves leave most room."""
    at, words = y(value), f"target {value:g} {metric.suffix}".strip()
    wide = width_of(words, 12)
    places = (x.start + 6, (x.start + x.end - wide) / 2, x.end - 6 - wide)
    best = max(places, key=lambda left: clear(curves, left, left + wide, at - 10, x, y))
    ink = paint("", "accent")
    return join(
        el("line", x1=x.start, y1=at, x2=x.end, y2=at, stroke_width=1.3, stroke_dasharray="2 4", **ink),
        text(best, at - 6, words, 12, "accent"),
    )


def clear(curves: Sequence[Curve], left: float, right: float, height: float, x: Scale, y: Scale) -> float:
    """How far the nearest curve passes from there; one that has ended goes on as the line to its name."""
    step, found = x(2) - x(1), []
    for curve in curves:
        near = [v for epoch, v in enumerate(curve.mean, 1) if left - step <= x(epoch) <= right + step]
        heights = [y(float(v)) for v in near or curve.mean[-1:]]
        found.append(max(min(heights) - height, height - max(heights), 0.0))
    return min(found)


def names(curves: Sequence[Curve], x: Scale, y: Scale, left: float, width: float, metric: Metric) -> Markup:
    """Each at the height of its curve's end, pushed apart where they would meet, with a thin line to the end."""
    labels = [(i, [*lines_of(curve.label, width, 13, 2), ended(curve, metric)]) for i, curve in enumerate(curves)]
    labels.sort(key=lambda label: -float(curves[label[0]].mean[-1]))
    wanted = [y(float(curves[i].mean[-1])) for i, _ in labels]
    heights = [len(lines) * LINE + 9 for _, lines in labels]
    tops = apart([want - high / 2 for want, high in zip(wanted, heights, strict=True)], heights, y.end, y.start + 20)
    drawn = []
    for (i, lines), top, want in zip(labels, tops, wanted, strict=True):
        colour = colour_of(curves[i], i, curves)
        start = x(len(curves[i].mean)) + 5
        path = f"M{start:.1f},{want:.1f}L{x.end + 4:.1f},{want:.1f}L{left - 4:.1f},{top + 8:.1f}"
        drawn.append(el("path", d=path, stroke_width=0.8, stroke_opacity=0.6, **paint("", colour)))
        drawn.append(paragraph(left, top + 12, lines[:-1], 13, colour, font_weight=600))
        drawn.append(text(left, top + 12 + (len(lines) - 1) * 16.4, lines[-1], 12, "quiet"))
    return join(*drawn)


def ended(curve: Curve, metric: Metric) -> str:
    return f"{metric.level(float(curve.mean[-1]))} after {len(curve.mean)} epochs, {curve.seeds} seeds"


def apart(tops: list[float], heights: list[float], low: float, high: float) -> list[float]:
    """Moved down so that none lies on another, then up again as far as the bottom asks."""
    down, edge = [], low
    for top, height in zip(tops, heights, strict=True):
        down.append(max(top, edge))
        edge = down[-1] + height
    up, edge = [], high
    for top, height in zip(reversed(down), reversed(heights), strict=True):
        edge = min(top, edge - height)
        up.append(edge)
    return up[::-1]


def legend(curves: Sequence[Curve], top: float, width: float, metric: Metric) -> tuple[Markup, float]:
    """Under the picture, on a narrow screen; and how much room it takes."""
    drawn, y = [], top + 12
    for i, curve in enumerate(curves):
        colour = colour_of(curve, i, curves)
        lines = lines_of(curve.label, width - 36, 13, 2)
        dashed = (
            {"stroke_dasharray": DASHES[i % len(DASHES)]} if DASHES[i % len(DASHES)] and colour != "curve-5" else {}
        )
        drawn.append(el("line", x1=0, y1=y - 4, x2=26, y2=y - 4, stroke_width=2.4, **dashed, **paint("", colour)))
        drawn.append(paragraph(36, y, lines, 13, colour, font_weight=600))
        drawn.append(text(36, y + len(lines) * 16.4, ended(curve, metric), 12, "quiet"))
        y += len(lines) * 17 + 25
    return join(*drawn), y - top
