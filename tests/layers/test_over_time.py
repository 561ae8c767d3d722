"""Steps over time: what a visitor sees of a loop, and what it can change in it."""

import jax
import jax.numpy as jnp
import pytest

from glassformer.errors import SettingError, ShapeError
from glassformer.layers import GRU, LSTM, RNN
from glassformer.layers.over_time import over_time
from glassformer.names import recording, tag, visiting

KEY = jax.random.key(0)


def running_sum(x):
    def step(total, x):
        total = tag("total", total + x)
        return total, {"total": total}

    return over_time(step, jnp.zeros(x.shape[0]), x)["total"]


def test_a_visitor_sees_all_times_at_once() -> None:
    x, seen = jnp.array([[1.0, 2.0, 4.0], [1.0, 1.0, 1.0]]), {}
    with visiting(recording(seen)):
        y = running_sum(x)
    assert y is seen["total"]
    assert y.tolist() == running_sum(x).tolist() == [[1, 3, 7], [1, 2, 3]]


def test_what_a_visitor_adds_is_carried_on() -> None:
    push = jnp.array([[0.0, 10.0, 0.0]])
    with visiting(lambda name, value: value + push):
        assert running_sum(jnp.array([[1.0, 2.0, 4.0]])).tolist() == [[1, 13, 17]]


@pytest.mark.parametrize("layer", [RNN(3, 4), LSTM(3, 4), GRU(3, 4)], ids=["rnn", "lstm", "gru"])
def test_a_state_depends_on_the_past_only(layer) -> None:
    params, x = layer.init(KEY), jax.random.normal(KEY, (1, 6, 3))
    before, _ = layer.forward(params, x)
    after, _ = layer.forward(params, x.at[:, 4].set(9.0))
    assert jnp.array_equal(before[:, :4], after[:, :4])
    assert (before[:, 4:] != after[:, 4:]).all()


@pytest.mark.parametrize("layer", [RNN, LSTM, GRU])
def test_sizes_that_do_not_fit_are_refused(layer) -> None:
    name = layer.__name__.lower()
    with pytest.raises(ShapeError, match=f"{name}: width of the input is 5, expected 3"):
        layer(3, 4).forward(layer(3, 4).init(KEY), jnp.zeros((1, 2, 5)))
    with pytest.raises(SettingError, match=f"{name}: outputs is 0, expected 1 or more"):
        layer(3, 0)
