"""A metric says which way is better, and how it is spelt."""

import math
from collections.abc import Callable

import pytest

from glassformer import register, registry
from glassformer.errors import SettingError, UnknownNameError
from glassformer.lab.metric import ACCURACY, BUILT_IN, LOSS, Metric, function_of, metric_named


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    there = {what: dict(things) for what, things in registry._registered.items()}
    monkeypatch.setattr(registry, "_registered", there)


@pytest.mark.parametrize("one", BUILT_IN, ids=lambda one: one.name)
def test_a_gain_is_up_whatever_the_metric(one: Metric) -> None:
    better, worse = (0.9, 0.5) if one.higher else (0.5, 0.9)
    assert one.gain(better, worse) == pytest.approx(0.4 * one.scale)
    assert one.better(better, worse)
    assert not one.better(worse, better)
    assert one.raw(one.shown(0.3)) == pytest.approx(0.3)
    assert metric_named(one.name) == one


def test_chance_is_that_of_guessing() -> None:
    assert ACCURACY.chance(10) == 0.1
    assert LOSS.chance(10) == math.log(10)
    assert metric_named("accuracy", worst=0.3).chance(10) == 0.3
    assert metric_named("time to target").chance(10) is None
    assert ACCURACY.chance(None) is None


def brier(outputs: float, labels: float) -> float:
    return (outputs - labels) ** 2


def test_an_own_metric_is_known_by_its_name() -> None:
    own = Metric("brier", scale=100, higher=False)
    register.metric(own)(brier)
    register.metric(own)(brier)  # a cell of a notebook was run twice
    assert metric_named("brier", margin=0.5).margin == 0.5
    assert function_of(own) is brier
    assert function_of(ACCURACY) is None

    def other(outputs: float, labels: float) -> float:
        return 0.0

    with pytest.raises(SettingError, match=r"brier'\): .*other came, and .*brier has this name; choose another"):
        register.metric(own)(other)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Metric(""), "the name is empty"),
        (lambda: Metric("x", scale=0), "scale is 0, expected a number above 0"),
        (lambda: Metric("x", margin=-1), "margin is -1"),
        (lambda: Metric("x", logit=True), "logit is for shares, from 0 to 1; it goes from -inf to inf"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        make()


def test_an_unknown_one_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"'acuracy'.*accuracy.*--code"):
        metric_named("acuracy")
