"""How the page begins: the question, the answer, and the few numbers everybody asks for."""

import re

from glassformer.lab.claims import said
from glassformer.lab.report.facts import answer, records, target_of, test_of
from glassformer.lab.report.markup import Markup, el
from glassformer.lab.report.numbers import count, duration, interval_of, percent
from glassformer.lab.study import Study, Summary


def opening(study: Study) -> Markup:
    return el(
        "header",
        el("p", f"Investigation · {study.plan.name}", class_="brand"),
        el("h1", study.plan.question or study.plan.name),
        *answered(study),
        *(el("p", el("strong", "Mind: "), warning, class_="warning") for warning in study.warnings),
        el("dl", *(fact(*one) for one in facts(study)), class_="facts"),
        class_="opening",
    )


def answered(study: Study) -> list[Markup]:
    """By paragraphs; under the pointer each sentence tells the tests that it rests on."""
    spans: dict[int, list[Markup]] = {}
    texts: dict[int, list[str]] = {}
    for one in study.sentences:
        tests = "\n".join(dict.fromkeys(said(claim) for claim in one.claims))
        spans.setdefault(one.paragraph, []).append(el("span", unbroken(one.text), title=tests, class_="sentence"))
        texts.setdefault(one.paragraph, []).append(one.text)
    known = {" ".join(words): spaced(spans[paragraph]) for paragraph, words in texts.items()}
    return [el("p", *known.get(words, [unbroken(words)]), class_="answer") for words in answer(study)]


def spaced(spans: list[Markup]) -> list[str]:
    return [part for span in spans for part in (" ", span)][1:]


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
    found: list[tuple[str, ...]] = [("baseline", *reached(study, study.baseline))]
    if study.best is not None:
        found.append(("best", *reached(study, study.best), study.best.cell.title))
    if plan.target is not None:
        found.append(("target", target_of(study)))
    failed = sum(record.place in study.failed for _, record in runs)
    size = f"{len(study.cells)} cells, {len(plan.seeds)} seeds"
    found.append(("runs", count(len(runs)), size, f"{failed} failed" if failed else "none failed"))
    found.append(("computing", duration(study.seconds), *study.machines))
    return found


def reached(study: Study, summary: Summary) -> tuple[str, str, str]:
    test, suffix = test_of(study, summary), study.plan.metric.suffix
    if not len(summary.scores):
        return "not run", "", ""
    mean = f"mean within {interval_of(summary)}" if len(summary.scores) > 1 else ""
    return f"{percent(summary)} {suffix}".strip(), mean, "" if test is None else f"test {test:.1f} {suffix}".strip()
