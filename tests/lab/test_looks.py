"""What looking in between costs, and that it is paid."""

import math

import numpy as np
import pytest

from glassformer.errors import SettingError
from glassformer.lab.looks import Look, evenly, look_now, looks, spent, unplanned
from glassformer.lab.statistics import sign_flip_p

STUDIES = 4000


@pytest.mark.parametrize("kind", ["obrien-fleming", "pocock"])
@pytest.mark.parametrize("at", [[10], [6, 12], [10, 15, 20], [7, 8, 9, 30]])
def test_all_looks_together_spend_the_level(at: list[int], kind: str) -> None:
    found = looks(at, kind)  # type: ignore[arg-type]
    assert sum(look.level for look in found) == pytest.approx(0.05, abs=1e-12)
    assert [look.spent for look in found] == pytest.approx(np.cumsum([look.level for look in found]))
    assert [look.last for look in found] == [False] * (len(at) - 1) + [True]
    assert all(look.decides for look in found)


def test_pocock_spends_earlier() -> None:
    assert spent(0.5, kind="pocock") > 5 * spent(0.5)
    assert (spent(0.0), spent(-1.0)) == (0.0, 0.0)
    assert spent(1.0) == pytest.approx(0.05)
    assert spent(2.0) == pytest.approx(0.05)


def alarms(levels: list[tuple[int, float]]) -> float:
    """Share of studies without an effect, one factor, that some look calls sure."""
    values = np.random.default_rng(0).normal(size=(STUDIES, levels[-1][0]))
    alarm = np.zeros(STUDIES, bool)
    for seeds, level in levels:
        alarm |= sign_flip_p(values[:, :seeds]) <= level
    return float(alarm.mean())


@pytest.mark.parametrize("kind", ["obrien-fleming", "pocock"])
def test_false_alarms_stay_at_5_percent_however_often_one_looks(kind: str) -> None:
    at = [7, 9, 11, 14]
    error = 3 * math.sqrt(0.05 * 0.95 / STUDIES)
    assert alarms([(look.seeds, look.level) for look in looks(at, kind)]) <= 0.05 + error  # type: ignore[arg-type]
    assert alarms([(seeds, 0.05) for seeds in at]) > 0.05 + error  # unpaid: it would be seen


def test_a_study_that_grows_unplanned_says_to_which_bound() -> None:
    third = unplanned([8, 10], 14)
    assert (third.number, third.level, third.planned) == (3, 0.0125, False)
    assert third.spent == pytest.approx(0.0875)
    assert alarms([(8, 0.05), (10, 0.025), (14, 0.0125)]) <= third.spent
    assert unplanned([], 12) == Look(1, 12, 0.05, 0.05)
    assert unplanned([12], 12).number == 1  # the same report again


def test_between_two_looks_the_earlier_one_counts() -> None:
    assert look_now(14, [10, 15, 20]) == looks([10, 15, 20])[0]
    assert look_now(15, [10, 15, 20]) == looks([10, 15, 20])[1]
    assert look_now(3, [10, 15, 20]).decides is False


@pytest.mark.parametrize("at", [[], [0, 4], [10, 10], [12, 8]])
def test_looks_that_do_not_rise_are_refused(at: list[int]) -> None:
    with pytest.raises(SettingError, match=r"expected numbers of seeds that rise: looks = \[10, 15, 20\]"):
        looks(at)
    with pytest.raises(SettingError, match="looks is 0, expected 1 or more"):
        evenly(0, 20, 10)
