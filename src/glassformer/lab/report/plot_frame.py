"""What plots of effects share: where things stand, the axis of percentage points, zero, and the target."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from glassformer.lab.report.facts import Line
from glassformer.lab.report.markup import Markup, el, join
from glassformer.lab.report.palette import paint
from glassformer.lab.report.scale import Scale, around, shown
from glassformer.lab.report.text import text, width_of

FACE = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
BELOW = 44.0  # room for the axis

Strip = tuple[float, float]  # from, to: where lines of the axis may be drawn


@dataclass(frozen=True)
class Form:
    """Where things stand in a row."""

    width: float
    name: float  # x of the factor's name
    name_width: float
    plot: tuple[float, float]
    value: float  # x of the numbers
    word: float  # x of the verdict
    wide: bool
    marks: int  # on the axis, about
    ranks: bool = True  # there are some to show

    @property
    def kind(self) -> str:
        return "wide" if self.wide else "narrow"


WIDE = Form(1080, 78, 296, (392, 762), 784, 902, wide=True, marks=7)
NARROW = Form(372, 0, 372, (8, 364), 0, 200, wide=False, marks=5)


def without_ranks(form: Form) -> Form:
    """Names begin where ranks would stand."""
    return replace(form, name=0, name_width=form.name + form.name_width, ranks=False)


def svg(width: float, height: float, label: str, *inside: Markup | None, kind: str) -> Markup:
    box = f"0 0 {width:.0f} {height:.0f}"
    return el("svg", *inside, viewBox=box, class_=f"picture {kind}", role="img", aria_label=label, font_family=FACE)


def domain(lines: Iterable[Line], gap: float | None = None) -> tuple[float, float]:
    """All seeds and, unless they go far beyond them, the intervals; the target where it is not far off."""
    effects = [line.effect for line in lines if line.effect]
    values = [0.0, *(number for effect in effects for number in (effect.mean, *effect.differences))]
    reach = 0.5 * (max(values) - min(values)) or 1.0
    low, high = min(values) - reach, max(values) + reach
    values += [min(max(end, low), high) for effect in effects for end in (effect.low, effect.high)]
    if gap is not None and 0 < gap <= 1.5 * max(values):
        values.append(gap)
    return around(values)


def frame(scale: Scale, form: Form, strips: Sequence[Strip], bottom: float, about: str) -> Markup:
    """Light lines at round numbers, a dark one at zero: no effect."""
    drawn = []
    for at in scale.marks(form.marks):
        x, zero = scale(at), at == 0
        ink = paint("", "axis" if zero else "rule")
        drawn.append(el("path", d=upright(x, strips), stroke_width=1.4 if zero else 1.0, **ink))
        words = f"+{shown(at)}" if at > 0 else shown(at)
        drawn.append(text(x, bottom + 17, words, 12, "quiet", text_anchor="middle"))
    middle = (form.plot[0] + form.plot[1]) / 2
    drawn.append(text(middle, bottom + 36, about, 12 if form.wide else 11, "quiet", text_anchor="middle"))
    return join(*drawn)


def target(x: float, strips: Sequence[Strip], form: Form) -> Markup:
    words = "what the target asks for"
    half = width_of(words, 12) / 2
    middle = min(max(x, form.plot[0] + half), form.plot[1] - half)
    line = el("path", d=upright(x, strips), stroke_width=1.3, stroke_dasharray="2 4", **paint("", "accent"))
    y = strips[0][0] - 7 if form.wide else 12
    return join(line, text(middle, y, words, 12, "accent", text_anchor="middle"))


def upright(x: float, strips: Sequence[Strip]) -> str:
    return "".join(f"M{x:.1f},{start:.1f}V{end:.1f}" for start, end in strips)


def rule(y: float, width: float) -> Markup:
    return el("line", x1=0, y1=y, x2=width, y2=y, stroke_width=1, stroke_opacity=0.7, **paint("", "rule"))
