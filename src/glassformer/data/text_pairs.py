"""Pairs of texts by the path of a file: CSV or TSV of two columns, or JSON lines; the last tenth is for testing.

    Germany,Allemagne                            pairs.csv, pairs.tsv (tabs, no quotes)
    {"prompt": "2 + 2", "answer": "4"}           pairs.jsonl; also ["2 + 2", "4"]

A first line of CSV or TSV that holds two usual names of columns (prompt, answer; source, target; …) names them.
White space around a text, and blank lines, are left out.
"""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.data.table import is_number
from glassformer.data.text_file import read_text
from glassformer.data.texts import Example, Texts
from glassformer.errors import DataError, FileError
from glassformer.reading import open_plain, parse_json

ENDINGS = (".csv", ".tsv", ".jsonl")
EXPECTED = "two texts on each line: CSV, TSV or JSON lines"
COLUMNS = {  # as they are usually called
    *(("prompt", name) for name in ("answer", "response", "completion")),
    *(("question", "answer"), ("instruction", "response"), ("instruction", "output"), ("input", "output")),
    *(("source", "target"), ("text", "target"), ("text1", "text2"), ("sentence1", "sentence2")),
    *(("anchor", "positive"), ("query", "document"), ("query", "passage")),
}
SNIFFED = 1 << 16  # bytes


class Line(NamedTuple):
    number: int  # where it ends in the file, from 1
    cells: list[str]


def load_text_pairs(name: str, path: Path) -> Texts:
    pairs = [pair_of(path, line) for line in read_lines(path)]
    if len(pairs) < 2:
        came = "one pair" if pairs else "no pair"
        raise DataError(f"{path}: {came} of texts came, expected two or more, to train and to test")
    held_out = max(round(len(pairs) / 10), 2 if len(pairs) > 3 else 1)
    return Texts(name=name, train=tuple(pairs[:-held_out]), test=tuple(pairs[-held_out:]))


def read_lines(path: Path) -> Iterator[Line]:
    text = read_text(path, EXPECTED)
    if path.suffix == ".jsonl":
        yield from json_lines(path, text)
        return
    for i, line in enumerate(table_lines(path, text)):
        if i or tuple(map(str.casefold, line.cells)) not in COLUMNS:
            yield line


def table_lines(path: Path, text: str) -> Iterator[Line]:
    is_csv = path.suffix == ".csv"
    style: Any = {} if is_csv else {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    reader = csv.reader(io.StringIO(text, newline=""), **style)
    try:
        for cells in reader:
            if any(stripped := [cell.strip() for cell in cells]):
                yield Line(reader.line_num, stripped)
    except csv.Error as error:
        raise DataError(f"{path}: line {reader.line_num}: {error}; expected {EXPECTED}") from None


def json_lines(path: Path, text: str) -> Iterator[Line]:
    names: list[str] = []
    for number, content in enumerate(text.split("\n"), start=1):
        if not content.strip():
            continue
        where = f"{path}: line {number}"
        found = parse_json(content, where, DataError)
        if isinstance(found, dict):
            names = names or list(found)
            if set(found) != set(names):
                raise DataError(f"{where} has {shown(found)}, the lines before {shown(names)}; all must have the same")
            found = [found[name] for name in names]
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise DataError(
                f'{where} holds {content.strip()[:60]}, expected two texts: {{"prompt": "…", "answer": "…"}}'
            )
        yield Line(number, [one.strip() for one in found])


def pair_of(path: Path, line: Line) -> Example:
    where, count = f"{path}: line {line.number}", len(line.cells)
    if count != 2:
        advice = "; a text with a comma in it stands in quotes" if count > 2 and path.suffix == ".csv" else ""
        raise DataError(f"{where} has {count} column{'s' * (count != 1)}, expected two: a text and its partner{advice}")
    for text, side in zip(line.cells, ("first", "second"), strict=True):
        if not text:
            raise DataError(f"{where}: its {side} text is empty; fill it in, or leave the line out")
    return Example(text=line.cells[0], target=line.cells[1])


def shown(names: Any) -> str:
    return ", ".join(map(repr, names))[:60]


def holds_pairs(path: Path) -> bool:
    """Whether a CSV file looks like pairs of texts, rather than a table of numbers: by its first lines."""
    try:
        with open_plain(path) as file:
            begin = file.read(SNIFFED).decode("utf-8-sig", "ignore")
        lines = [line.cells for line, _ in zip(table_lines(path, begin), range(2), strict=False)]
    except (FileError, OSError):
        return False
    return bool(lines) and all(len(cells) == 2 for cells in lines) and not is_number(lines[-1][0])
