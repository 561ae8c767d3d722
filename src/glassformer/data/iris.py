"""Iris: four measurements in cm of 150 flowers, fifty of each of three species (Fisher 1936).

The rows are those of the paper; the copy of the UCI repository differs from it in two. 105 are for training and 45
for testing, 35 and 15 of each species: `iris` is split 0, `iris:3` is split 3.
"""

from pathlib import Path

from glassformer.data.dataset import Dataset
from glassformer.data.table import load_csv
from glassformer.errors import UnknownNameError

FILE = Path(__file__).with_name("iris.csv")


def load_iris(name: str = "iris", cache: Path | None = None) -> Dataset:
    """Nothing is fetched: the rows are bundled.

    >>> data = load_iris("iris:3")
    >>> data.train.x.shape, data.test.x.shape, data.classes
    ((105, 4), (45, 4), ('setosa', 'versicolor', 'virginica'))
    """
    return load_csv(FILE, name=name, split=split_number(name))


def split_number(name: str) -> int:
    word, colon, number = name.partition(":")
    if word != "iris" or (colon and not (number.isascii() and number.isdecimal())):
        raise UnknownNameError(f"no data set is called {name!r}; expected iris, or iris:3 for the split of seed 3")
    return int(number or 0)
