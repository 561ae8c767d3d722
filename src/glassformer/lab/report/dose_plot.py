"""Dose-response, drawn: a panel for each number that was tried at several values, two beside each other."""

from collections.abc import Sequence

import numpy as np

from glassformer.lab.dose_response import Dose
from glassformer.lab.report.dose_words import reference, score_label, sentence, title, value
from glassformer.lab.report.markup import Markup, el, join
from glassformer.lab.report.palette import paint
from glassformer.lab.report.plot_frame import svg
from glassformer.lab.report.scale import Scale, around, shown
from glassformer.lab.report.text import lines_of, paragraph, text, width_of
from glassformer.lab.study import Study

INK = "curve-1"


def dose_plot(study: Study, found: Sequence[Dose], *, wide: bool) -> Markup:
    width, columns = (1080.0, min(2, len(found))) if wide else (372.0, 1)
    apart, height = 48.0, 330.0
    across = (width - apart * (columns - 1)) / columns
    across = min(across, 640.0) if wide else across
    drawn = []
    for i, one in enumerate(found):
        left, top = (i % columns) * (across + apart), (i // columns) * (height + 22)
        drawn.append(panel(study, one, left, top, across, height))
    rows = -(-len(found) // columns)
    return svg(width, rows * (height + 22) - 14, "Dose-response curves", *drawn, kind="wide" if wide else "narrow")


def panel(study: Study, one: Dose, left: float, top: float, width: float, height: float) -> Markup:
    right, bottom = left + width - 8, top + height - 92
    places = np.log(one.values) if one.log else one.values
    room = 0.06 * float(places[-1] - places[0])
    x = Scale(float(places[0]) - room, float(places[-1]) + room, left + 40, right)
    low, high = around([float(end) for end in (one.scores.min(), one.scores.max(), one.low.min(), one.high.max())])
    percent = score_label(study, one.group).endswith("percent")
    y = Scale(max(low, 0.0) if percent else low, min(high, 100.0) if percent else high, bottom, top + 44)
    head = lines_of(title(one), width, 14.5, 1)
    about = f"in {reference(one)}, {len(one.seeds)} seeds"
    return join(
        paragraph(left, top + 13, head, 14.5, font_weight=600),
        text(left, top + 31, lines_of(about, width, 12, 1)[0], 12, "quiet"),
        band(one, places, x, y),
        axes(one, places, x, y, score_label(study, one.group)),
        seeds(one, places, x, y),
        means(one, places, x, y),
        parabola(one, places, x, y),
        paragraph(left, bottom + 62, lines_of(sentence(one), width, 12.5, 2), 12.5, "text"),
    )


def axes(one: Dose, places: np.ndarray, x: Scale, y: Scale, label: str) -> Markup:
    drawn = []
    for at in y.marks(5):
        drawn.append(el("line", x1=x.start, y1=y(at), x2=x.end, y2=y(at), stroke_width=1, **paint("", "rule")))
        drawn.append(text(x.start - 7, y(at) + 4, shown(at), 12, "quiet", text_anchor="end"))
    drawn.append(el("line", x1=x.start, y1=y.start, x2=x.end, y2=y.start, stroke_width=1.2, **paint("", "axis")))
    end = -1e9
    for place, number in zip(places, one.values, strict=True):
        at, words = x(float(place)), value(number)
        half = width_of(words, 12) / 2
        drawn.append(el("line", x1=at, y1=y.start, x2=at, y2=y.start + 5, stroke_width=1.2, **paint("", "axis")))
        if at - half > end + 4:
            drawn.append(text(at, y.start + 19, words, 12, "quiet", text_anchor="middle"))
            end = at + half
    about = f"{one.setting}{' (logarithmic)' if one.log else ''}; {label}"
    room = x.end - x.start + 44
    about = lines_of(about if width_of(about, 12) <= room else f"{one.setting}; {label}", room, 12, 1)[0]
    drawn.append(text((x.start + x.end - 32) / 2, y.start + 37, about, 12, "quiet", text_anchor="middle"))
    return join(*drawn)


def band(one: Dose, places: np.ndarray, x: Scale, y: Scale) -> Markup:
    """Where the optimum may lie; open towards an edge that it reaches."""
    low, high = (float(np.log(end)) if one.log else end for end in one.between)
    start = x.start if low <= places[0] + 1e-9 else x(low)
    end = x.end if high >= places[-1] - 1e-9 else x(high)
    shaded = el(
        "rect",
        x=start,
        y=y.end,
        width=max(end - start, 1.5),
        height=y.start - y.end,
        fill_opacity=0.12,
        **paint("accent"),
    )
    if one.place != "inside":
        return shaded
    at = x(float(np.log(one.optimum)) if one.log else one.optimum)
    line = el(
        "line", x1=at, y1=y.end, x2=at, y2=y.start, stroke_width=1.3, stroke_dasharray="2 4", **paint("", "accent")
    )
    return join(shaded, line)


def seeds(one: Dose, places: np.ndarray, x: Scale, y: Scale) -> Markup:
    drawn = []
    for seed, scores in zip(one.seeds, one.scores, strict=True):
        line = " ".join(f"{x(float(p)):.1f},{y(float(s)):.1f}" for p, s in zip(places, scores, strict=True))
        ink = paint("", "axis", "seed")
        drawn.append(
            el(
                "polyline",
                el("title", f"seed {seed}"),
                points=line,
                stroke_width=1,
                stroke_opacity=0.45,
                data_seed=seed,
                **ink,
            )
        )
    return join(*drawn)


def means(one: Dose, places: np.ndarray, x: Scale, y: Scale) -> Markup:
    ink, drawn = paint("", INK), []
    line = " ".join(f"{x(float(p)):.1f},{y(float(m)):.1f}" for p, m in zip(places, one.means, strict=True))
    drawn.append(el("polyline", points=line, stroke_width=2.2, stroke_linejoin="round", **ink))
    for i, place in enumerate(places):
        at, low, high = x(float(place)), y(float(one.low[i])), y(float(one.high[i]))
        drawn.append(el("line", x1=at, y1=low, x2=at, y2=high, stroke_width=2.2, **ink))
        said = f"{one.titles[i]}: {one.means[i]:.2f} [{one.low[i]:.2f}, {one.high[i]:.2f}]"
        drawn.append(
            el(
                "circle",
                el("title", said),
                cx=at,
                cy=y(float(one.means[i])),
                r=4.4,
                stroke_width=1.2,
                **paint(INK, "card"),
            )
        )
    return join(*drawn)


def parabola(one: Dose, places: np.ndarray, x: Scale, y: Scale) -> Markup | None:
    """From neighbour to neighbour of the best."""
    if one.place != "inside":
        return None
    three = slice(one.best - 1, one.best + 2)
    fit = np.polyfit(places[three], one.means[three], 2)
    at = np.linspace(places[three][0], places[three][-1], 40)
    line = " ".join(f"{x(float(p)):.1f},{y.held(float(v)):.1f}" for p, v in zip(at, np.polyval(fit, at), strict=True))
    return el("polyline", points=line, stroke_width=1.4, stroke_dasharray="5 3", **paint("", "accent"))
