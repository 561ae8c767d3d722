"""Add against remove: what a factor is worth alone, and what it is worth where all the others are."""

from collections.abc import Sequence
from dataclasses import replace

from glassformer.lab.report.facts import BothWays, Line
from glassformer.lab.report.marks import dots, whiskers
from glassformer.lab.report.markup import Markup, el, join
from glassformer.lab.report.numbers import interval, points
from glassformer.lab.report.palette import paint
from glassformer.lab.report.plot_frame import BELOW, NARROW, WIDE, domain, frame, rule, svg
from glassformer.lab.report.scale import Scale
from glassformer.lab.report.text import lines_of, paragraph, text

FORMS = {True: replace(WIDE, name_width=270, plot=(300, 726), value=752), False: NARROW}
COLOURS = {"alone": "curve-1", "with all others": "curve-2"}


def both_ways_plot(rows: Sequence[BothWays], about: str, *, wide: bool) -> Markup:
    form = FORMS[wide]
    scale = Scale(*domain(line for one in rows for line in (one.add, one.remove)), *form.plot)
    step, y = (38.0 if wide else 62.0), 0.0
    drawn, strips = [], []
    for i, one in enumerate(rows):
        name = lines_of(one.name, form.name_width, 14.5, 2)
        head = 0.0 if wide else len(name) * 18.0 + 8
        height = head + 2 * step + 14
        sides = [y + head + 7 + j * step for j in range(2)]
        strips += [(y, y + height)] if wide else [(at + 22, at + 54) for at in sides]
        drawn.append(rule(y, form.width) if i else None)
        start = y + height / 2 - (len(name) - 1) * 9 + 5 if wide else y + 22
        drawn.append(paragraph(0, start, name, 14.5, font_weight=600))
        drawn += [
            side("alone", one.add, sides[0], scale, wide),
            side("with all others", one.remove, sides[1], scale, wide),
        ]
        y += height
    framed = frame(scale, form, strips, y, about)
    return svg(form.width, y + BELOW, "Add against remove", framed, *drawn, kind=form.kind)


def side(label: str, line: Line, y: float, scale: Scale, wide: bool) -> Markup:
    """The interval beside its numbers; on a narrow screen below them."""
    colour = COLOURS[label]
    left, words, at = (FORMS[True].value, y + 22, y + 14) if wide else (0.0, y + 14, y + 31)
    named = [side_mark(left + 6, words - 4.5, label, colour), text(left + 18, words, label, 13, colour)]
    if line.effect is None:
        return join(*named, text(left + 136, words, "no interval", 13, "quiet"))
    mean = el("tspan", points(line.effect), font_size=14.5, font_weight=650, **paint("text"))
    return join(
        *named,
        el("text", mean, f" {interval(line.effect)}", x=left + 136, y=words, font_size=13, **paint("quiet")),
        dots(line, at + 14, scale, colour),
        whiskers(line.effect, "contributes", at, scale, colour),
        side_mark(scale.held(line.effect.mean), at, label, colour),
    )


def side_mark(x: float, y: float, label: str, colour: str) -> Markup:
    """A disc alone, a hollow square with all others."""
    if label == "alone":
        return el("circle", cx=x, cy=y, r=5, stroke_width=1.2, **paint(colour, "card"))
    return el("rect", x=x - 4.4, y=y - 4.4, width=8.8, height=8.8, stroke_width=2, **paint("card", colour))
