"""One row of the interval plot: ranks, name, hypothesis, interval with its seeds, numbers, verdict."""

from dataclasses import dataclass

from glassformer.lab.report.facts import Line
from glassformer.lab.report.marks import dots, mark, whiskers
from glassformer.lab.report.markup import Markup, el, join
from glassformer.lab.report.numbers import NONE, interval, p_is, points, ranks
from glassformer.lab.report.palette import OF_VERDICT, paint
from glassformer.lab.report.plot_frame import Form, Strip
from glassformer.lab.report.scale import Scale
from glassformer.lab.report.text import lines_of, paragraph, text

NAME, WORDS = 18.0, 15.6  # heights of a line


@dataclass(frozen=True)
class Row:
    """Measured: rows differ in height."""

    line: Line
    name: list[str]
    hypothesis: list[str]

    @property
    def words(self) -> float:
        return len(self.name) * NAME + len(self.hypothesis) * WORDS

    def height(self, form: Form) -> float:
        return max(54.0, self.words + 20) if form.wide else self.words + 83

    def strip(self, y: float) -> Strip:
        """Where a narrow row has its interval and its dots: no line of the axis goes through words."""
        return y + self.words + 11, y + self.words + 47


def measured(line: Line, form: Form) -> Row:
    room = form.name_width if form.wide or not form.ranks else form.name_width - 50  # the ranks stand beside
    return Row(line, lines_of(line.name, room, 14.5, 2), lines_of(line.hypothesis, form.name_width, 12, 3))


def wide_row(row: Row, y: float, scale: Scale, form: Form, most: int) -> Markup:
    line, word = row.line, row.line.finding.word
    start, middle = y + (row.height(form) - row.words) / 2 + 13, y + row.height(form) / 2
    told = seeds_up(line)
    first = middle - 8 * (len(told) - 1)  # line of the verdict
    return join(
        ranks_of(line, middle, 50, most) if form.ranks else None,
        paragraph(form.name, start, row.name, 14.5, font_weight=600),
        paragraph(form.name, start + len(row.name) * NAME, row.hypothesis, 12, "quiet"),
        interval_of(line, middle - 7, middle + 12, scale),
        numbers(line, form.value, middle),
        mark(word, form.word + 6, first - 5),
        text(form.word + 19, first, word, 13.5, OF_VERDICT[word], font_weight=600),
        paragraph(form.word + 19, first + 16, told, 12, "quiet"),
    )


def narrow_row(row: Row, y: float, scale: Scale, form: Form) -> Markup:
    line, word = row.line, row.line.finding.word
    start, foot = y + 22, y + row.words + 66
    top, _ = row.strip(y)
    return join(
        text(form.width, start, tied(line), 13, "quiet", text_anchor="end") if form.ranks else None,
        paragraph(0, start, row.name, 14.5, font_weight=600),
        paragraph(0, start + len(row.name) * NAME - 1, row.hypothesis, 12, "quiet"),
        interval_of(line, top + 11, top + 27, scale),
        numbers_in_line(line, form.value, foot),
        mark(word, form.word + 6, foot - 4.5),
        text(form.word + 19, foot, word, 13.5, OF_VERDICT[word], font_weight=600),
    )


def tied(line: Line) -> str:
    return ranks(line.rank) + (" =" if line.tied else "")


def ranks_of(line: Line, y: float, width: float, most: int) -> Markup:
    """The ranks the data allow, in numbers and as a bar among all ranks; = where they are another's, too."""
    if line.rank is None:
        return text(0, y + 4, NONE, 13, "quiet")
    step = width / most
    left, right = (line.rank.best - 1) * step, line.rank.worst * step
    return join(
        text(0, y, tied(line), 13.5, font_weight=600),
        el("rect", x=0, y=y + 8, width=width, height=4, rx=2, **paint("rule")),
        el("rect", x=left, y=y + 8, width=right - left, height=4, rx=2, **paint(OF_VERDICT[line.finding.word])),
    )


def interval_of(line: Line, y: float, below: float, scale: Scale) -> Markup:
    if line.effect is None:
        middle = (scale.start + scale.end) / 2
        return text(middle, (y + below) / 2 + 4, "no interval", 12, "quiet", text_anchor="middle")
    word = line.finding.word
    place = scale.held(line.effect.mean)
    return join(dots(line, below, scale), whiskers(line.effect, word, y, scale), mark(word, place, y))


def numbers(line: Line, x: float, y: float) -> Markup:
    if line.effect is None:
        return text(x, y + 4, NONE, 13, "quiet")
    return join(
        text(x, y, points(line.effect), 14.5, font_weight=650), text(x, y + 16, interval(line.effect), 12.5, "quiet")
    )


def numbers_in_line(line: Line, x: float, y: float) -> Markup:
    if line.effect is None:
        return text(x, y, ", ".join(seeds_up(line)), 13, "quiet")
    mean = el("tspan", points(line.effect), font_size=14.5, font_weight=650, **paint("text"))
    return el("text", mean, f" {interval(line.effect)}", x=x, y=y, font_size=13, **paint("quiet"))


def seeds_up(line: Line) -> list[str]:
    """How many differences are above zero, and p; on a line of its own, how many runs failed."""
    failures = line.finding.failures
    if line.effect is None:
        return [f"{failures} seeds failed" if failures else "too few seeds"]
    up = sum(difference > 0 for difference in line.effect.differences)
    counted = f"{up} of {len(line.effect.differences)} up, {p_is(line.effect.p_holm)}"
    return [counted, f"{failures} failed"] if failures else [counted]
