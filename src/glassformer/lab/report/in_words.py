"""The interval plot in words: what each verdict means, and the same rows as a table with the evidence."""

from collections.abc import Sequence

from glassformer.lab.phrases import margin_text
from glassformer.lab.report.facts import Line, coverage
from glassformer.lab.report.marks import mark
from glassformer.lab.report.markup import Markup, el
from glassformer.lab.report.numbers import MINUS, NONE, interval, p_value, points, ranks
from glassformer.lab.study import Finding, Study, Verdict


def meanings(study: Study) -> dict[Verdict, str]:
    goal = "the target" if study.plan.target is not None else "the best combination"
    return {
        "explains": f"helps, and surely closes at least half of the gap from the baseline to {goal}",
        "contributes": "helps; that it closes half of the gap is not shown",
        "no effect": f"surely smaller than {margin_text(study)}, up or down",
        "hurts": "makes it worse",
        "diverges": "more than a tenth of its runs surely fail",
        "not decided": "neither an effect is shown nor that there is none",
    }


def words_used(study: Study, lines: Sequence[Line]) -> Markup:
    used = {line.finding.word for line in lines}
    shown = []
    for word, meaning in meanings(study).items():
        if word in used:
            picture = el("svg", mark(word, 8, 8), viewBox="0 0 16 16", aria_hidden="true")
            shown.append(el("li", picture, el("span", el("strong", word), f": {meaning}")))
    return el("ul", *shown, class_="words")


def in_words(study: Study, lines: Sequence[Line]) -> Markup:
    ranked = any(one.rank for one in lines)
    words = ("ranks", "factor", study.plan.metric.unit, coverage(study), "d", "p", "p (Holm)")
    words = (*words, "epochs to target", "verdict")
    head = [el("th", word, scope="col", class_="number" if 1 < i < 8 else "") for i, word in enumerate(words)]
    head = el("tr", *head[0 if ranked else 1 :])
    body = []
    for one in lines:
        rank = el("td", ranks(one.rank) + (" =" if one.tied else ""), class_="whole") if ranked else None
        numbers = (el("td", number, class_="number") for number in (*effect_of(one.finding), to_target(one.finding)))
        verdict = el("td", one.finding.word, el("small", one.finding.evidence))
        body.append(el("tr", rank, el("th", one.name, scope="row"), *numbers, verdict))
    table = el("table", el("thead", head), el("tbody", *body))
    title = el("summary", "The same as a table, with the evidence")
    return el("details", title, el("div", table, class_="scroll", tabindex=0))


def effect_of(found: Finding) -> list[str]:
    """Points, interval, size, both p."""
    if found.effect is None:
        return [NONE] * 5
    one = found.effect
    size = f"{one.size:.1f}".replace("-", MINUS).replace("inf", "∞")
    return [points(one), interval(one), size, p_value(one.p), p_value(one.p_holm)]


def to_target(found: Finding) -> str:
    """The median over seeds, without the factor and with it."""
    if found.to_target == (None, None):
        return NONE
    without, with_ = ("never" if one is None else f"{one:g}" for one in found.to_target)
    return f"{without} → {with_}"
