"""results.csv: one row a run."""

import csv
import io
import math

from glassformer.lab.report.facts import records, scores_of
from glassformer.lab.study import Study

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would compute a text that begins so


def as_csv(study: Study) -> str:
    names = list(dict.fromkeys(name for _, record in records(study) for name in record.inside))
    head = ("cell", "group", "key", "seed", "failed", "score", "validation", "test", "loss")
    head += ("epochs", "steps", "seconds", "parameters", "engine", "machine", *(f"inside.{name}" for name in names))
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(map(word, head))
    for summary, record in records(study):
        cell = summary.cell
        score = scores_of(summary).get(record.seed)
        last = [values[-1] if values else None for values in (record.validation, record.loss)]
        row = [word(cell.title), word(cell.group), record.key, record.seed, word(record.failed), number(score)]
        row += [number(last[0]), number(record.test), number(last[1]), len(record.loss), record.steps]
        row += [number(record.seconds), record.parameters, word(record.engine), word(record.machine)]
        rows.writerow([*row, *(number(record.inside.get(name)) for name in names)])
    return file.getvalue()


def word(text: str) -> str:
    return f"'{text}" if text.startswith(FORMULA) else text


def number(value: float | None) -> str:
    """To the last bit; nothing where there is none."""
    return "" if value is None or not math.isfinite(value) else repr(float(value))
