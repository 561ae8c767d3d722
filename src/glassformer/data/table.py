"""Tables: a CSV file of numbers whose last column names the class, split into training and test rows.

    sepal_length,sepal_width,species        the first line may name the columns
    5.1,3.5,setosa

The split is drawn class by class, so that both sides have every class in its share, and its number is the seed. Rows
are mixed at random, but with each class spread evenly: the end of the training rows, which validation takes, has
every class in its share too.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from glassformer.data.dataset import ROWS, Dataset, with_labels
from glassformer.errors import DataError
from glassformer.memory import must_fit
from glassformer.reading import open_plain, size_of

TEST_SHARE = 0.3
IN_MEMORY = 24  # bytes that a byte of a table takes while it is read: two of them are a cell
LARGEST = float(np.finfo(np.float32).max)


class Table(NamedTuple):
    x: np.ndarray  # float32 (N, columns)
    labels: np.ndarray  # int32 (N,); of a regression float32 (N, K)

    holds = ROWS


class Row(NamedTuple):
    line: int  # where it ends in the file, from 1
    cells: list[str]


def make_table(
    name: str, train: Table, test: Table, classes: tuple[str, ...] = (), *, numbers: bool = False
) -> Dataset:
    """Rows given as arrays; with `numbers` the labels are what a regression is to find, and `classes` their names."""
    checked = []
    for where, (x, labels) in ((f"{name}: training", train), (f"{name}: test", test)):
        if x.ndim != 2 or not np.issubdtype(x.dtype, np.number) or x.shape[1:] != train.x.shape[1:] or not x.size:
            raise DataError(f"{where} rows are {x.dtype} of shape {x.shape}, expected numbers, (N, columns)")
        if len(x) != len(labels):
            raise DataError(f"{where} rows are {len(x):,}, their labels {len(labels):,}; each row needs one label")
        if not np.isfinite(x.astype(np.float32)).all():
            raise DataError(f"{where} rows hold a value that is no finite number of 32 bits; remove it or fill it in")
        checked.append(Table(x.astype(np.float32), labels))
    return with_labels(Dataset(name, checked[0], checked[1], classes), numbers=numbers)


def load_csv(path: Path, *, name: str = "", split: int = 0, numbers: bool = False) -> Dataset:
    """Classes are numbered in the order of their names; another `split` has other test rows, three in ten.

    With `numbers` the last column is what a regression is to find.
    """
    if numbers:
        return load_numbers(path, name or str(path), split)
    table, classes = read_csv(path)
    train, test = split_by_class(table, split)
    return Dataset(name=name or str(path), train=train, test=test, classes=classes)


def load_numbers(path: Path, name: str, split: int) -> Dataset:
    rows = list(read_rows(path))
    columns, rows = take_names(path, rows) if rows else ([], [])
    if len(rows) < 2:
        raise DataError(f"{path}: there are fewer than two rows; expected numbers, the last of which is to be found")
    whole = [numbers(path, Row(row.line, [*row.cells, "-"]), [*columns, ""]) for row in rows]
    cells = np.array(whole, np.float32)[np.random.default_rng(split).permutation(len(rows))]
    count = max(1, round(TEST_SHARE * len(rows)))
    test, train = (Table(part[:, :-1], part[:, -1:]) for part in (cells[:count], cells[count:]))
    return Dataset(name, train, test, classes=(columns[-1] or "y",))


def read_csv(path: Path) -> tuple[Table, tuple[str, ...]]:
    """All rows in file order, and the names of the classes."""
    rows = list(read_rows(path))
    if not rows:
        raise DataError(f"{path}: the file is empty; expected rows of numbers with a class name at the end")
    columns, rows = take_names(path, rows)
    if not rows:
        raise DataError(f"{path}: there are no rows under the names of the columns")
    x = np.array([numbers(path, row, columns) for row in rows], np.float32)
    names = [row.cells[-1] for row in rows]
    classes = tuple(sorted(set(names)))
    check_classes(path, names, classes)
    number = {name: label for label, name in enumerate(classes)}
    return Table(x=x, labels=np.array([number[name] for name in names], np.int32)), classes


def read_rows(path: Path) -> Iterator[Row]:
    """Rows that are not blank, without the spaces around their cells."""
    with open_plain(path, DataError, "a CSV file") as file:
        must_fit(IN_MEMORY * size_of(file), f"{path}: the table", "take fewer rows", DataError)
        try:
            # Excel puts a byte order mark at the beginning
            reader = csv.reader(io.TextIOWrapper(file, encoding="utf-8-sig", newline=""))
            for cells in reader:
                if any(stripped := [cell.strip() for cell in cells]):
                    yield Row(reader.line_num, stripped)
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror or error}; expected a CSV file") from None
        except (UnicodeDecodeError, csv.Error) as error:
            raise DataError(f"{path}: not a CSV file in UTF-8: {error}") from None


def take_names(path: Path, rows: list[Row]) -> tuple[list[str], list[Row]]:
    """The names of the columns, and the rows below. A first line that has a number is a row, and names none."""
    first = rows[0].cells
    if len(first) < 2:
        raise DataError(
            f"{path}: line {rows[0].line} has one column; expected numbers and a class name, separated by commas"
        )
    if any(map(is_number, first[:-1])):
        return [""] * len(first), rows
    return first, rows[1:]


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def numbers(path: Path, row: Row, columns: list[str]) -> list[float]:
    """All cells but the last, which names the class."""
    where = f"{path}: line {row.line}"
    if len(row.cells) != len(columns):
        raise DataError(f"{where} has {len(row.cells)} columns, the first line {len(columns)}; all must have as many")
    if not row.cells[-1]:
        raise DataError(f"{where} has nothing in its last column, expected the name of its class")
    for i, (cell, name) in enumerate(zip(row.cells[:-1], columns, strict=False)):
        column = f"column {i + 1}" + (f" ({name})" if name else "")
        if not is_number(cell):
            raise DataError(f"{where}, {column}: {cell!r} is not a number; only the last column may hold words")
        if not abs(float(cell)) <= LARGEST:  # NaN is not either
            raise DataError(
                f"{where}, {column}: {cell!r} is not a finite number of 32 bits; remove the row or fill it in"
            )
    return [float(cell) for cell in row.cells[:-1]]


def check_classes(path: Path, names: list[str], classes: tuple[str, ...]) -> None:
    if len(classes) < 2:
        raise DataError(f"{path}: all rows are of the class {names[0]!r}; expected two classes or more")
    counts = Counter(names)
    for name in classes:
        if counts[name] < 2:
            raise DataError(
                f"{path}: one row only is of the class {name!r}; expected two or more, to train and to test"
            )


def split_by_class(table: Table, split: int) -> tuple[Table, Table]:
    """(training, test), drawn with the seed `split`: of each class three rows in ten are test rows, at least one."""
    rng = np.random.default_rng(split)
    train, test = [], []
    ends = np.cumsum(np.bincount(table.labels))
    for of_class in np.split(np.argsort(table.labels, kind="stable"), ends[:-1]):
        rows = rng.permutation(of_class)
        count = max(1, round(TEST_SHARE * len(rows)))
        test.append(rows[:count])
        train.append(rows[count:])
    return take(table, mixed(train, rng)), take(table, mixed(test, rng))


def mixed(groups: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Row i of n is put at a random place between i / n and (i + 1) / n of the whole, group by group."""
    places = [(np.arange(len(rows)) + rng.random(len(rows))) / len(rows) for rows in groups]
    return np.concatenate(groups)[np.argsort(np.concatenate(places), kind="stable")]


def take(table: Table, rows: np.ndarray) -> Table:
    return Table(x=table.x[rows], labels=table.labels[rows])
