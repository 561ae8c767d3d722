"""Tables with tabs between the columns: names in the first line, the last column is what is to be found."""

from pathlib import Path

import numpy as np

from glassformer.data import Dataset
from glassformer.data.table import Table, make_table


def read_tsv(word: str) -> Dataset:
    """The last fifth of the rows is for testing."""
    with Path(word).open() as file:
        *_, target = file.readline().rstrip("\n").split("\t")
        rows = np.loadtxt(file, np.float32, delimiter="\t", ndmin=2)
    cut = len(rows) - max(1, len(rows) // 5)
    train, test = (Table(part[:, :-1], part[:, -1:]) for part in (rows[:cut], rows[cut:]))
    return make_table(word, train, test, (target,), numbers=True)
