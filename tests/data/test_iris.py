"""Iris as published, its splits, and CSV files of one's own."""

import re
from pathlib import Path

import numpy as np
import pytest

from glassformer.data import hold_out, iris
from glassformer.data.dataset import Dataset
from glassformer.data.iris import load_iris
from glassformer.data.table import Table, load_csv, read_csv
from glassformer.errors import DataError, UnknownNameError


def rows_of(*tables: Table) -> np.ndarray:
    """Numbers and label side by side, in an order that does not depend on the tables'."""
    rows = np.concatenate([np.column_stack([table.x, table.labels]) for table in tables])
    return rows[np.lexsort(rows.T)]


def tables(data: Dataset) -> tuple[Table, Table]:
    assert isinstance(data.train, Table)
    assert isinstance(data.test, Table)
    return data.train, data.test


def test_the_rows_are_those_of_the_paper() -> None:
    table, classes = read_csv(iris.FILE)
    assert classes == ("setosa", "versicolor", "virginica")
    assert np.bincount(table.labels).tolist() == [50, 50, 50]
    x = table.x.astype(np.float64)
    assert x.mean(axis=0).round(3).tolist() == [5.843, 3.057, 3.758, 1.199]
    assert x.std(axis=0, ddof=1).round(3).tolist() == [0.828, 0.436, 1.765, 0.762]
    means = {  # as the paper gives them
        "setosa": [5.006, 3.428, 1.462, 0.246],
        "versicolor": [5.936, 2.770, 4.260, 1.326],
        "virginica": [6.588, 2.974, 5.552, 2.026],
    }
    for label, name in enumerate(classes):
        assert x[table.labels == label].mean(axis=0).round(3).tolist() == means[name]
    # the two that are damaged in the UCI repository, by its own account
    assert x[34].round(1).tolist() == [4.9, 3.1, 1.5, 0.2]
    assert x[37].round(1).tolist() == [4.9, 3.6, 1.4, 0.1]


@pytest.mark.parametrize("name", ["iris", "iris:3"])
def test_a_split_is_stratified_and_loses_no_row(name: str) -> None:
    data = load_iris(name)
    train, test = tables(data)
    assert data.name == name
    assert data.classes == ("setosa", "versicolor", "virginica")
    assert (train.x.shape, train.x.dtype, train.labels.dtype) == ((105, 4), np.float32, np.int32)
    assert (test.x.shape, test.x.dtype, test.labels.dtype) == ((45, 4), np.float32, np.int32)
    assert np.bincount(train.labels).tolist() == [35, 35, 35]
    assert np.bincount(test.labels).tolist() == [15, 15, 15]
    assert np.array_equal(rows_of(train, test), rows_of(read_csv(iris.FILE)[0]))


def test_a_split_is_the_same_each_time_and_another_number_gives_another() -> None:
    first, again = load_iris(), load_iris("iris:0")
    for came, expected in zip((*first.train, *first.test), (*again.train, *again.test), strict=True):
        assert np.array_equal(came, expected)
    assert not np.array_equal(rows_of(tables(first)[1]), rows_of(tables(load_iris("iris:1"))[1]))
    # pinned: another draw would make earlier results incomparable
    test = tables(first)[1]
    pinned = [[5.7, 3.8, 1.7, 0.3], [6.5, 3.2, 5.1, 2.0], [5.7, 2.6, 3.5, 1.0]]
    assert np.array_equal(test.x[:3], np.array(pinned, np.float32))
    assert test.labels[:3].tolist() == [0, 2, 1]


def test_validation_has_all_classes_and_they_do_not_take_turns() -> None:
    for split in range(50):
        rest, validation = hold_out(load_iris(f"iris:{split}").train)
        assert len(validation.labels) == 10
        assert set(validation.labels.tolist()) == {0, 1, 2}
        assert not np.array_equal(rest.labels[:-3], rest.labels[3:])


@pytest.mark.parametrize("name", ["iris:", "iris:x", "iris:-1", "iris:1.5", "irises", "iris:³"])
def test_a_name_that_is_no_split(name: str) -> None:
    with pytest.raises(UnknownNameError, match=f"no data set is called '{name}'; expected iris, or iris:3"):
        load_iris(name)


def write(folder: Path, text: str) -> Path:
    path = folder / "own.csv"
    path.write_bytes(text.encode())
    return path


OWN = "height, weight ,kind\n1,2.5,owl\n-3e1,4,cat\n\n5,6,owl\n7,8,cat\n9,10,cat\n"


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = write(tmp_path, OWN)
    table, classes = read_csv(path)
    assert classes == ("cat", "owl"), "in the order of their names"
    assert table.x.tolist() == [[1, 2.5], [-30, 4], [5, 6], [7, 8], [9, 10]]
    assert table.labels.tolist() == [1, 0, 1, 0, 0]
    data = load_csv(path)
    train, test = tables(data)
    assert data.name == str(path)
    assert load_csv(path, name="pets").name == "pets"
    assert sorted(test.labels.tolist()) == [0, 1], "three in ten, at least one"
    assert np.array_equal(rows_of(train, test), rows_of(table))


SAME = {
    "no names": "1,2.5,owl\n-30,4,cat\n5,6,owl\n7,8,cat\n9,10,cat\n",
    "byte order mark and carriage returns": "\ufeff" + OWN.replace("\n", "\r\n"),
    "quotes": OWN.replace("owl", '"owl"').replace("2.5", '"2.5"'),
    "no newline at the end": OWN.rstrip(),
    "rows of nothing": OWN + ",,\n",
}


@pytest.mark.parametrize("text", SAME.values(), ids=SAME.keys())
def test_other_spellings_of_the_same(tmp_path: Path, text: str) -> None:
    expected, classes = read_csv(write(tmp_path, OWN))
    came, names = read_csv(write(tmp_path, text))
    assert np.array_equal(came.x, expected.x)
    assert np.array_equal(came.labels, expected.labels)
    assert names == classes


def test_classes_of_unequal_size_keep_their_share(tmp_path: Path) -> None:
    lines = [f"{i},{'rare' if i % 10 == 0 else 'common'}" for i in range(200)]
    train, test = tables(load_csv(write(tmp_path, "\n".join(lines))))
    assert np.bincount(train.labels).tolist() == [126, 14]
    assert np.bincount(test.labels).tolist() == [54, 6]
    assert np.bincount(train.labels[-14:]).tolist() in ([13, 1], [12, 2]), "a tenth has the share of each"


BAD = {
    "empty": ("", "own.csv: the file is empty; expected rows of numbers with a class name at the end"),
    "blank": ("\n \n", "own.csv: the file is empty"),
    "names only": ("a,b,kind\n", "own.csv: there are no rows under the names of the columns"),
    "one column": ("1;2;owl\n", "own.csv: line 1 has one column; expected numbers and a class name, separated by comm"),
    "short row": (OWN + "1,owl\n", "own.csv: line 8 has 2 columns, the first line 3; all must have as many"),
    "long row": (OWN + "1,2,3,owl\n", "own.csv: line 8 has 4 columns, the first line 3"),
    "a word": (OWN + "1,two,owl\n", "own.csv: line 8, column 2 (weight): 'two' is not a number; only the last column"),
    "a word and no names": ("1,2,owl\n1,x,owl\n", "own.csv: line 2, column 2: 'x' is not a number"),
    "a slip in the first row": ("5.l,2,owl\n1,2,owl\n", "own.csv: line 1, column 1: '5.l' is not a number"),
    "nothing": (OWN + "1,,owl\n", "own.csv: line 8, column 2 (weight): '' is not a number"),
    "no class": (OWN + "1,2,\n", "own.csv: line 8 has nothing in its last column, expected the name of its class"),
    "nan": (OWN + "nan,2,owl\n", "own.csv: line 8, column 1 (height): 'nan' is not a finite number of 32 bits"),
    "inf": (OWN + "1,-inf,owl\n", "own.csv: line 8, column 2 (weight): '-inf' is not a finite number"),
    "too large": (OWN + "1,1e39,owl\n", "own.csv: line 8, column 2 (weight): '1e39' is not a finite number of 32 bits"),
    "one class": ("1,owl\n2,owl\n", "own.csv: all rows are of the class 'owl'; expected two classes or more"),
    "one of a class": (OWN + "1,2,elk\n", "own.csv: one row only is of the class 'elk'; expected two or more"),
    "two lines in one cell": ('1,"a\nb"\n2,"a\nb"\nx,c\n', "own.csv: line 5, column 1: 'x' is not a number"),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD.keys())
def test_files_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        load_csv(write(tmp_path, text))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.csv: there is no such file; expected a CSV file"):
        load_csv(tmp_path / "gone.csv")
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        load_csv(tmp_path)
    latin = tmp_path / "latin.csv"
    latin.write_bytes("1,Käuzchen\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"latin\.csv: not a CSV file in UTF-8: 'utf-8' codec can't decode"):
        load_csv(latin)
    latin.write_bytes(b'1,"' + b"x" * 200_000)
    with pytest.raises(DataError, match=r"latin\.csv: not a CSV file in UTF-8: field larger than field limit"):
        load_csv(latin)
