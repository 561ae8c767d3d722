"""The interaction grid: what two factors do together beyond the sum of what each does alone."""

from itertools import chain

from glassformer.lab.report.facts import line, of_kind, pairs
from glassformer.lab.report.markup import Markup, el, join
from glassformer.lab.report.numbers import interval, p_is, points
from glassformer.lab.study import Effect, Finding, Study

STEPS = 8  # of the colours, from one end to the other
SAID = {"not decided": "no interaction is shown"}


def together(study: Study) -> Markup | None:
    """A triangle: on its diagonal each alone, below it what every two do together. None where nothing was crossed."""
    found = pairs(study)
    if not found:
        return None
    names = list(dict.fromkeys(chain.from_iterable(one.comparison.factors for one in found)))
    alone = {one.comparison.factors[0]: one for one in of_kind(study, "add")}
    by_pair = {frozenset(one.comparison.factors): one for one in found}
    largest = max((abs(one.effect.mean) for one in found if one.effect), default=0.0) or 1.0
    rows = []
    for i, row in enumerate(names):
        cells = [el("th", row, scope="row")]
        for j, column in enumerate(names):
            if j > i:
                cells.append(el("td", class_="none"))
            elif i == j:
                cells.append(alone_cell(study, alone.get(row)))
            else:
                cells.append(pair_cell(by_pair.get(frozenset((row, column))), largest))
        rows.append(el("tr", *cells))
    head = el("tr", el("td"), *(el("th", name, scope="col") for name in names))
    return el("div", el("table", el("thead", head), el("tbody", *rows), class_="grid"), class_="scroll", tabindex=0)


def alone_cell(study: Study, found: Finding | None) -> Markup:
    effect = line(study, found).effect if found else None
    return el("td", *shown(effect, "alone"), class_="alone")


def pair_cell(found: Finding | None, largest: float) -> Markup:
    if found is None or found.effect is None:
        return el("td", *shown(None, "no number"))
    step = round((found.effect.mean / largest + 1) / 2 * STEPS)
    words = f"{SAID.get(found.word, found.word)}, {p_is(found.effect.p_holm)}"
    return el("td", *shown(found.effect, words), class_=f"signed-{step}")


def shown(effect: Effect | None, words: str) -> list[Markup]:
    if effect is None:
        return [el("small", words)]
    return [el("strong", points(effect)), join(" "), el("span", interval(effect)), el("small", words)]
