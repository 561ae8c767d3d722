"""How the page begins: the question, the answer, and the few numbers everybody asks for."""

import re

from glassformer.lab.report.facts import answer, records, test_of
from glassformer.lab.report.markup import Markup, el
from glassformer.lab.report.numbers import count, duration, interval_of, percent
from glassformer.lab.study import Study, Summary


def opening(study: Study) -> Markup:
    return el(
        "header",
        el("p", f"Investigation · {study.plan.name}", class_="brand"),
        el("h1", study.plan.question or study.plan.name),
        *(el("p", unbroken(words), class_="answer") for words in answer(study)),
        el("dl", *(fact(*one) for one in facts(study)), class_="facts"),
        class_="opening",
    )


def unbroken(words: str) -> str:
    """No line ends inside an interval, or before %.

    >>> unbroken("60 % [1.2, 3.4]") == "60\\xa0% [1.2,\\xa03.4]"
    True
    """
    return re.sub(r" (?=%)|(?<=\d,) (?=[-\d.]+\])", "\N{NO-BREAK SPACE}", words)


def fact(name: str, value: str, *more: str) -> Markup:
    return el("div", el("dt", name), el("dd", value, *(el("small", one) for one in more if one)))


def facts(study: Study) -> list[tuple[str, ...]]:
    """Name, number, and what stands under it."""
    plan, runs = study.plan, records(study)
    found: list[tuple[str, ...]] = [("baseline", *reached(study.baseline))]
    if study.best is not None:
        found.append(("best", *reached(study.best), study.best.cell.title))
    if plan.target is not None:
        found.append(("target", f"{100 * plan.target:g} %"))
    failed = sum(bool(record.failed) for _, record in runs)
    size = f"{len(study.cells)} cells, {len(plan.seeds)} seeds"
    found.append(("runs", count(len(runs)), size, f"{failed} failed" if failed else "none failed"))
    found.append(("computing", duration(study.seconds), *study.machines))
    return found


def reached(summary: Summary) -> tuple[str, str, str]:
    test = test_of(summary)
    if not len(summary.scores):
        return "not run", "", ""
    mean = f"mean within {interval_of(summary)}" if len(summary.scores) > 1 else ""
    return f"{percent(summary)} %", mean, "" if test is None else f"test {test:.1f} %"
