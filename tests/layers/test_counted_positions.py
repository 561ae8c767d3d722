"""Which row of the table each token reads, and what is said of a sequence that has no place in it."""

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer.errors import SettingError, ShapeError
from glassformer.layers import CountedPositions
from glassformer.layers.counted_positions import Params

LAYER = CountedPositions(tokens=7, width=1, first=2)
ROWS = Params(pos=jnp.arange(7.0)[:, None])


def test_padding_is_not_counted_on_either_side() -> None:
    keep = jnp.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]], bool)
    y, cache = LAYER.forward(ROWS, jnp.zeros((4, 4, 1)), keep=keep)
    expected = [[2, 3, 4, 5], [2, 3, 1, 1], [1, 1, 2, 3], [1, 1, 1, 1]]
    np.testing.assert_array_equal(cache.places, expected)
    np.testing.assert_array_equal(y[..., 0], expected)
    np.testing.assert_array_equal(LAYER.forward(ROWS, jnp.zeros((1, 5, 1)))[1].places, [[2, 3, 4, 5, 6]])


def test_what_has_no_place() -> None:
    with pytest.raises(ShapeError, match="counted positions: 6 tokens came, the table has 5 rows from 2 on"):
        LAYER.forward(ROWS, jnp.zeros((1, 6, 1)))
    with pytest.raises(SettingError, match="counted positions: first is 0, expected 1 or more"):
        CountedPositions(7, 1, first=0)
