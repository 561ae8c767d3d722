"""The simulations of docs/lab.md, smaller: what is promised holds, or the report warns; the page has the numbers."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from glassformer.lab import simulate
from glassformer.lab.shape import is_skewed
from glassformer.lab.simulate import (
    BESIDE,
    CONDITIONS,
    FAILS,
    beside_row,
    condition_row,
    levels_row,
    looks_row,
    surely_same,
    table,
    table_beside,
    tuned_row,
)
from glassformer.lab.statistics import effects

ROOT = Path(__file__).parents[2]
STUDIES = 600


@pytest.mark.parametrize("name", list(CONDITIONS))
def test_a_condition_holds_or_is_warned_of(name: str) -> None:
    row = condition_row(name, 6, STUDIES)
    errors = 3 * math.sqrt(0.05 * 0.95 / STUDIES)
    assert row["unwarned_alarms"] <= 0.055 + errors
    if name in FAILS:
        assert row["warned"] > 0.99
    else:
        assert row["alarms"] <= 0.055 + errors
        assert 0.93 - errors <= row["covers"] <= 0.97 + errors


@pytest.mark.parametrize("name", list(CONDITIONS))
def test_no_effect_and_the_interquartile_mean_hold_or_are_warned_of(name: str) -> None:
    row = beside_row(name, STUDIES)
    errors = 3 * math.sqrt(0.05 * 0.95 / STUDIES)
    assert 0.93 - errors <= row["typical_covers"] <= 0.97 + errors
    assert row["unwarned_alarms"] <= 0.055 + errors
    assert (row["alarms"] > 0.5) == (name == "a tenth of the arms' seeds collapses")  # it would be seen
    assert row["power"] > 0.3


@pytest.mark.slow
def test_looks_choices_and_tuning() -> None:
    errors = 3 * math.sqrt(0.05 * 0.95 / STUDIES)
    for row in (looks_row(True, STUDIES), levels_row(True, STUDIES), tuned_row(True, STUDIES)):
        assert row["alarms"] <= 0.055 + errors
    assert levels_row(False, 2 * STUDIES)["alarms"] > 0.06  # on the seeds that chose, it would be seen


def test_many_studies_at_once_are_each_what_the_lab_says() -> None:
    values = simulate.skewed(np.random.default_rng(2), (4, 5, 10), 1.5) + 0.6
    p, low, high = simulate.tested(values)
    same = surely_same(values, 2.0)
    assert 0 < same.mean() < 1
    for i, study in enumerate(values):
        for j, one in enumerate(effects(list(study), margin=2.0)):
            assert (one.p_same <= 0.05) == same[i, j]
            assert (low[i, j], high[i, j]) == pytest.approx((one.low, one.high))
            if one.p_holm <= 0.05 or p[i, j] <= 0.05:
                assert p[i, j] == pytest.approx(one.p_holm)


def test_a_study_that_looks_skewed_says_so() -> None:
    rng = np.random.default_rng(5)
    skewed = effects(list(simulate.skewed(rng, (1, 12, 12), 2.0)[0]))
    symmetric = effects(list(simulate.symmetric(rng, (1, 12, 12))[0]))
    assert is_skewed(skewed)
    assert not is_skewed(symmetric)


def test_what_is_done_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def task(replications: int) -> dict[str, float]:
        made.append(replications)
        return {"alarms": 0.05, "alarms_error": 0.01}

    monkeypatch.setattr(simulate, "tasks", lambda: {"one": task, "two": task})
    file = tmp_path / "done.json"
    first = simulate.simulate(10, file)
    assert simulate.simulate(10, file) == first
    assert made == [10, 10]
    simulate.simulate(20, file)
    assert made == [10, 10, 20, 20]


def test_the_page_has_the_table_and_the_table_keeps_the_promise() -> None:
    rows = json.loads((ROOT / "studies/simulations/lab.json").read_text())
    page = (ROOT / "docs/lab.md").read_text()
    assert table(rows) in page
    assert table_beside(rows) in page
    assert {row["replications"] for row in rows.values()} == {10_000}
    for name, row in rows.items():
        if name.endswith(("unpaid", "same seeds")):
            continue  # what happens without paying
        assert row.get("unwarned_alarms", row["alarms"]) <= 0.055
        if name.startswith(BESIDE):
            assert 0.93 <= row["typical_covers"] <= 0.97
        if "covers" in row and not any(name.startswith(one) for one in FAILS):
            assert 0.93 <= row["covers"] <= 0.97
            assert row["alarms"] <= 0.055
