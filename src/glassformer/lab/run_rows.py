"""Every run of a study as a row: its cell, what it reached, its settings. For results.csv and `lab.load`."""

import math
from collections.abc import Iterable
from typing import Any

from glassformer.lab.record import Record
from glassformer.lab.settings_columns import settings_of, varying
from glassformer.lab.study import Study, Summary


def run_rows(study: Study, others: Iterable[Record] = (), *, all_settings: bool = False) -> list[dict[str, Any]]:
    """One for each run, with the same names in the same order in all; None where there is nothing.

    others         records that no cell of the study has; what they were is not known
    all_settings   also those that are the same in all cells
    """
    settings = {id(one): settings_of(one.cell.recipe) for one in study.cells}
    names = list(dict.fromkeys(name for one in settings.values() for name in one))
    names = names if all_settings else varying(settings.values())
    rows, seen = [], set()
    for summary in study.cells:
        scores = scores_by_seed(summary)
        own = {name: settings[id(summary)].get(name) for name in names}
        for record in summary.records:
            if record.place not in seen:  # the same recipe may stand in two groups, under two measures
                seen.add(record.place)
                rows.append(
                    {**place_of(study, summary), **numbers_of(record, scores.get(record.seed)), **own, **inside(record)}
                )
    none = dict.fromkeys(names)
    for record in others:
        if record.place not in seen:
            rows.append(
                {"cell": None, "group": None, "measure": None, **numbers_of(record, None), **none, **inside(record)}
            )
    return aligned(rows)


def place_of(study: Study, summary: Summary) -> dict[str, Any]:
    cell = summary.cell
    return {"cell": cell.title, "group": cell.group, "measure": study.plan.group(cell.group).measure}


def numbers_of(record: Record, score: float | None) -> dict[str, Any]:
    """Of the run itself. `score` is what the study compares."""
    last = {f"validation.{name}": curve[-1] for name, curve in record.scores.items() if curve}
    last |= {f"test.{name}": value for name, value in record.test_scores.items()}
    return {
        "key": record.key,
        "seed": record.seed,
        "outcome": record.outcome,
        "reason": record.reason,
        "failed": record.failed,
        "score": score,
        "validation": record.validation[-1] if record.validation else None,
        "test": record.test,
        "loss": record.loss[-1] if record.loss else None,
        **last,
        "epochs": len(record.loss),
        "steps": record.steps,
        "seconds": record.seconds,
        "compile_seconds": record.compile_seconds,
        "parameters": record.parameters,
        "multiply_adds": record.multiply_adds or None,
        "engine": record.engine,
        "machine": record.machine,
    }


def inside(record: Record) -> dict[str, float]:
    return {f"inside.{name}": value for name, value in record.inside.items()}


def scores_by_seed(summary: Summary) -> dict[int, float]:
    """As the study compares them; of a run that failed what it counts as, where that is known."""
    if len(summary.records) != len(summary.scores):
        return {}
    both = zip(summary.records, summary.scores.tolist(), strict=True)
    return {record.seed: score for record, score in both if not math.isnan(score)}


def aligned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All with all names: what a run did not measure is None. Those of the lens come last."""
    names = dict.fromkeys(name for row in rows for name in row)
    order = sorted(names, key=lambda name: name.startswith("inside."))
    return [{name: row.get(name) for name in order} for row in rows]
