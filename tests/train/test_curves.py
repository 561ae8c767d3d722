"""The picture of a run, whatever its numbers are."""

import io
from math import inf, nan

import numpy as np
import pytest
from PIL import Image

from glassformer.train.curves import curves, ticks
from glassformer.train.run_folder import Row


def rows(*losses: float, score: float | None = 0.5) -> tuple[Row, ...]:
    return tuple(Row(i + 1, loss, 1.0, score, None, 0.1, loss, loss) for i, loss in enumerate(losses))


@pytest.mark.parametrize(
    ("losses", "score"),
    [
        ((2.3, 1.1, 0.4), 0.9),
        ((1.0,), 0.0),
        ((0.0, 0.0), 0.0),
        ((3.25, 3.25), None),
        ((nan, inf), None),
        ((1.0, nan, 2.0), 1.0),
        ((1e30, 3e38), None),
        ((1e-30, 1e-38), 1e-20),
        ((-2.0, -1.0), None),
        (tuple(range(300, 0, -1)), 0.1),
    ],
)
def test_any_numbers_are_drawn(losses: tuple[float, ...], score: float | None) -> None:
    picture = np.asarray(Image.open(io.BytesIO(curves(rows(*losses, score=score)))))
    assert picture.shape == (384, 960, 3)
    assert picture.min() < 100  # something is there


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 2.3, [0, 0.5, 1, 1.5, 2, 2.5]),
        (0.0, 0.0, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (97.2, 98.9, [97, 97.5, 98, 98.5, 99]),
        (-3.0, -1.0, [-3, -2.5, -2, -1.5, -1]),
    ],
)
def test_ticks_are_round_and_reach_around(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == expected


def test_epochs_are_whole() -> None:
    assert ticks(1, 1, whole=True) == [1, 2]
    assert ticks(1, 3, whole=True) == [1, 2, 3]
