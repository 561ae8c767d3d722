"""The table of every cell. Its columns can be sorted: each cell carries the number it stands for."""

import math

from glassformer.lab.report.facts import epochs, key_of, level_of, mean_of, test_of, title_of, well
from glassformer.lab.report.markup import Markup, el
from glassformer.lab.report.numbers import NONE, count, duration, interval_of, percent
from glassformer.lab.study import Study, Summary


def head(study: Study) -> tuple[str, ...]:
    score = level_of(study)
    test = score.replace(score.partition(",")[0], "test", 1)
    return ("cell", "seeds", score, "95 % of the mean", test, "parameters", "epochs", "time of a run")


def values(study: Study, summary: Summary) -> list[tuple[str, float | str]]:
    """What is shown, and what it is sorted by."""
    went = well(summary)
    failed = round(summary.failing.value * len(summary.records)) if summary.failing else 0
    parameters = max((record.parameters for record in summary.records), default=0)
    length, seconds, test = epochs(summary), mean_of(record.seconds for record in went), test_of(study, summary)
    title = title_of(study, summary)
    low = -1.0  # whatever is missing stands at the end of the smallest
    return [
        (title, title.lower()),
        (f"{len(summary.records)}, {failed} failed" if failed else str(len(summary.records)), len(summary.records)),
        (percent(summary), low if math.isnan(summary.mean) else summary.mean),
        (interval_of(summary), low if math.isnan(summary.low) else summary.low),
        (NONE if test is None else f"{test:.1f}", low if test is None else test),
        (count(parameters) if parameters else NONE, parameters),
        (NONE if length is None else f"{length:g}" if length == int(length) else f"{length:.1f}", length or low),
        (NONE if seconds is None else duration(seconds), low if seconds is None else seconds),
    ]


def cell_table(study: Study) -> Markup:
    titles = el(
        "tr", *(el("th", word, scope="col", class_="number" if i else "") for i, word in enumerate(head(study)))
    )
    kinds = {key_of(study.baseline): "baseline", **({key_of(study.best): "best"} if study.best else {})}
    body = []
    for summary in study.cells:
        shown = values(study, summary)
        row = [el("th", shown[0][0], scope="row", data_by=shown[0][1])]
        row += [el("td", words, class_="number", data_by=by) for words, by in shown[1:]]
        body.append(el("tr", *row, class_=kinds.get(key_of(summary), "")))
    table = el("table", el("thead", titles), el("tbody", *body), class_="sortable")
    return el("div", table, class_="scroll", tabindex=0)
