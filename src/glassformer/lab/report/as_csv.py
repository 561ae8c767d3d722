"""results.csv: one row a run, with a column for each setting that is not the same in all cells."""

import csv
import io
import math
from typing import Any

from glassformer.lab.record import Record
from glassformer.lab.run_rows import numbers_of, run_rows
from glassformer.lab.study import Study

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would compute a text that begins so


def as_csv(study: Study) -> str:
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    found = run_rows(study)
    rows.writerow(map(word, found[0] if found else numbers_of(Record("", 0), None)))
    rows.writerows([value_of(value) for value in row.values()] for row in found)
    return file.getvalue()


def value_of(value: Any) -> Any:
    if isinstance(value, str):
        return word(value)
    return number(value) if value is None or isinstance(value, float) else value


def word(text: str) -> str:
    return f"'{text}" if text.startswith(FORMULA) else text


def number(value: float | None) -> str:
    """To the last bit; nothing where there is none."""
    return "" if value is None or not math.isfinite(value) else repr(float(value))
