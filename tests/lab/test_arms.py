"""Fair arms: tuned with the same effort on seeds of their own, matched to the baseline; looks, and arms that stop."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from glassformer.errors import SettingError
from glassformer.lab import run
from glassformer.lab.arms import matched, settle
from glassformer.lab.asked import asked, cells_of, look_of, seeds_done, under_way
from glassformer.lab.cells import cell
from glassformer.lab.check import check
from glassformer.lab.folder import begin, plan_of
from glassformer.lab.looks_log import LookedAt, Stopped, add_look, chance_to_help, read_looks
from glassformer.lab.multiply_adds import multiply_adds
from glassformer.lab.one_run import loaded
from glassformer.lab.plan import Plan
from glassformer.lab.publish import publish
from glassformer.lab.record import Record, Results
from glassformer.train.loop import with_seed
from glassformer.train.recipe import Recipe
from glassformer.train.resolve import resolved

from .small import small_plan

TUNED = """
[factors.batch]
set = { "training.batch" = 5 }

[factors.momentum]
set = { "optimiser.name" = "momentum" }
tune = { "optimiser.lr" = [0.001, 0.002] }
"""
HEAD = 'seeds = 4\ntune_seeds = 2\npairs = 0\ntune = { "optimiser.lr" = [0.1, 0.2] }'


def best_at(recipe: Recipe) -> float:
    """The baseline is best at 0.2, `batch` at 0.1, `momentum` at 0.002."""
    best = 0.002 if recipe.optimiser.name == "momentum" else 0.1 if recipe.training.batch == 5 else 0.2
    return 0.9 if recipe.optimiser.lr == best else 0.5


def made_up(key: str, recipe: Recipe, *_: object) -> Record:
    seed = recipe.training.seed
    score = best_at(recipe) + 0.01 * (seed % 3) + (0.02 if recipe.training.batch == 5 else 0.0)
    return Record(key, seed, loss=(1.0,), validation=(score,), test=score, steps=5, parameters=5, outcome="ok")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "train_one", made_up)


@pytest.mark.usefixtures("quick")
def test_every_arm_is_tuned_on_seeds_of_its_own_and_compared_on_fresh_ones(tmp_path: Path) -> None:
    plan = small_plan(tmp_path, TUNED, head=HEAD)
    study = run.investigate(plan, tmp_path / "study", jobs=1)
    results = Results(tmp_path / "study")
    tuning = [record for record in results.records.values() if record.seed > 10_000]
    assert Counter(record.seed for record in tuning) == {10_001: 6, 10_002: 6}  # three arms, two values each
    chosen = {one.cell.title: one.cell.recipe.optimiser.lr for one in study.cells}
    assert chosen == {"baseline": 0.2, "batch": 0.1, "momentum": 0.002}
    assert all(record.seed in plan.seeds for one in study.cells for record in one.records)
    again = plan_of(tmp_path / "study")
    said = {names: arm.about for (names, _), arm in again.arms.items()}
    assert (
        said["batch",]
        == "optimiser.lr = 0.1: best of 2 points on validation, 2 seeds; optimiser.lr at the edge of its grid"
    )
    assert under_way(again, results) == (12, 12)


@pytest.mark.usefixtures("quick")
def test_a_tuned_study_grows_without_tuning_again(tmp_path: Path) -> None:
    plan = small_plan(tmp_path, TUNED, head=HEAD)
    run.investigate(plan, tmp_path / "study", jobs=1)
    before = Results(tmp_path / "study").records
    more = small_plan(tmp_path, TUNED, head=HEAD.replace("seeds = 4", "seeds = 6", 1))
    run.investigate(more, tmp_path / "study", jobs=1)
    after = Results(tmp_path / "study").records
    assert before.items() <= after.items()
    assert {seed for _, seed in after.keys() - before.keys()} == {5, 6}
    assert len(after) == len(before) + 2 * 3


def test_a_tie_goes_to_the_earlier_value_and_a_run_that_failed_is_the_worst(tmp_path: Path) -> None:
    plan = small_plan(tmp_path, TUNED, head=HEAD)
    results = Results(tmp_path / "study")
    for pair in asked(plan, results):
        for job in pair:
            bad = job.cell.recipe.optimiser.lr == 0.1 and job.seed == 10_002
            given: dict[str, Any] = {"failed": "not finite in epoch 1"} if bad else {"validation": (0.7,)}
            results.add([Record(job.cell.key, job.seed, **given)])
    assert settle(plan, results, [((), ""), (("momentum",), "")])
    assert plan.arms[(), ""].changes == {"optimiser.lr": 0.2}
    assert plan.arms[("momentum",), ""].changes == {"optimiser.lr": 0.001}


# ---- matched arms

WIDE = '[factors.wide]\nset = { "model.hidden" = [15] }\n[factors.batch]\nset = { "training.batch" = 5 }\n'


def test_arms_take_as_many_updates_or_multiply_adds_as_the_baseline(tmp_path: Path) -> None:
    plan = small_plan(tmp_path, WIDE, head='match = "steps"', sets='"training.epochs" = 6')
    check(plan)
    assert cell(plan, ("batch",)).recipe.training.epochs == 3
    assert cell(plan, ("wide",)).recipe.training.epochs == 6
    assert plan.arms[("batch",), ""].about == (
        "training.epochs = 3 instead of 6: 0.95 times the updates of the baseline"  # 19 x 3 of 10 x 6
    )
    plan = small_plan(tmp_path, WIDE, head='match = "compute"', sets='"training.epochs" = 6')
    check(plan)
    assert cell(plan, ("wide",)).recipe.training.epochs == 2  # 64 x 15 + 15 x 3 instead of 64 x 5 + 5 x 3
    assert cell(plan, ("batch",)).recipe.training.epochs == 6
    assert "1.00 times the multiply-adds" in plan.arms[("wide",), ""].about
    data = loaded(plan.baseline)
    assert multiply_adds(resolved(plan.baseline, data), data.test) == 64 * 5 + 5 * 3


def test_arms_have_as_many_parameters_as_the_baseline(tmp_path: Path) -> None:
    settings = 'model = { kind = "vit", width = 8, hidden = 24, heads = 2, depth = 1, patch_size = 4 }'
    deep = '[factors.deep]\nset = { "model.depth" = 2 }\n'
    plan = small_plan(tmp_path, deep, head='match = "parameters"', sets=settings, engine="jax")
    changes, about = matched(plan, plan.unsettled(("deep",)), "")
    assert set(changes) == {"model.hidden"}
    assert changes["model.hidden"] < 24
    there, wanted = (int(word.replace(",", "")) for word in (about.split(": ")[1].split()[0], about.split()[-1]))
    assert abs(there - wanted) <= 2 * (2 * 8 + 1)  # a unit more of each block is more than it is off
    with pytest.raises(SettingError, match=r"match = 'parameters' adjusts model\.hidden.*take 'compute'"):
        check(small_plan(tmp_path, WIDE, head='match = "parameters"'))


# ---- looks, and arms that stop


def test_the_probability_to_help_is_what_simulation_says() -> None:
    draw = np.random.default_rng(5)
    first = draw.normal(0.6, 1.0, 6)
    mean, spread, n, seeds = first.mean(), first.std(ddof=1), 6, 12
    # flat prior: mean and variance from their posterior, then the seeds to come
    variances = (n - 1) * spread**2 / draw.chisquare(n - 1, 40_000)
    means = draw.normal(mean, np.sqrt(variances / n))
    rest = draw.normal(means, np.sqrt(variances / (seeds - n)))
    whole = (n * mean + (seeds - n) * rest) / seeds
    helps = whole > stats.t.isf(0.025 / 3, seeds - 1) * spread / np.sqrt(seeds)
    assert chance_to_help(first.tolist(), seeds, 3) == pytest.approx(helps.mean(), abs=0.01)
    assert chance_to_help([1.0, 1.0, 1.0], 12, 1) == 1.0
    assert chance_to_help([-1.0, -1.0, -1.0], 12, 1) == 0.0


LOOKS = """
[factors.good]
set = { "training.batch" = 5 }

[factors.bad]
set = { "training.batch" = 7 }

[factors."on bad"]
on = ["bad"]
set = { "training.epochs" = 3 }

[factors.worse]
set = { "training.batch" = 9 }
"""
WORTH = {5: 0.2, 7: -0.2, 9: -0.3}


def of_known_worth(key: str, recipe: Recipe, *_: object) -> Record:
    seed, batch = recipe.training.seed, recipe.training.batch
    noise = np.random.default_rng([seed, batch, recipe.training.epochs]).normal(0, 0.02)
    score = 0.5 + WORTH.get(batch, 0.0) + noise
    return Record(key, seed, validation=(score,), test=score, steps=5, parameters=5, outcome="ok")


@pytest.mark.parametrize("futility", [0.0, 0.1])
def test_hopeless_arms_stop_at_a_look_and_it_is_noted(
    futility: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "train_one", of_known_worth)
    head = f"seeds = 12\nlooks = [8, 12]\nfutility = {futility}\npairs = 0"
    plan = small_plan(tmp_path, LOOKS, head=head)
    run.investigate(plan, tmp_path / "study", jobs=1)
    results = Results(tmp_path / "study")
    had = {one.title: len(results.of(one.key)) for one in cells_of(plan, results)}
    # `bad` is what `on bad` is compared with, and goes on
    expected = 8 if futility else 12
    assert had == {"baseline": 12, "good": 12, "bad": 12, "bad + on bad": expected, "worse": expected}
    assert results.looked == (8,)
    assert {one.title for one in results.stopped.values()} == ({"worse", "bad + on bad"} if futility else set())
    assert all("surely help at the end with probability" in one.reason for one in results.stopped.values())
    assert under_way(plan, results) == (len(results.records), len(results.records))
    assert seeds_done(plan, results) == 12


def test_a_look_is_noted_once_and_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    stopped = Stopped("key", "wide", 6, "hopeless")
    for _ in range(2):
        add_look(tmp_path, LookedAt(6, 30, (stopped,)))
    add_look(tmp_path, LookedAt(12, 60))
    with (tmp_path / "looks.jsonl").open("a") as file:
        file.write('{"seeds": 20, "ru')
    assert read_looks(tmp_path) == (LookedAt(6, 30, (stopped,)), LookedAt(12, 60))
    assert len((tmp_path / "looks.jsonl").read_text().splitlines()) == 3


def test_when_time_is_up_it_says_what_is_sure_by_then_and_pays_when_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "train_one", of_known_worth)
    plan = small_plan(tmp_path, LOOKS, head="seeds = 12\nlooks = [8, 12]\npairs = 0")
    folder, results = tmp_path / "study", Results(tmp_path / "study")
    begin(plan, folder)
    pair = [job for pair in asked(plan, results) for job in pair if job.cell.title in ("baseline", "good")]
    results.add(of_known_worth(job.cell.key, with_seed(job.cell.recipe, job.seed)) for job in pair)
    study, _ = publish(run.investigate(plan, folder, jobs=1, budget=0.0), results)
    assert study.answer.startswith("Incomplete: 16 of the 40 runs")
    assert {one.comparison.factors[0]: one.word for one in study.findings}["good"] == "contributes"
    assert look_of(plan, Results(folder)) == study.look  # the same report again
    later = run.investigate(plan, folder, jobs=1).look
    assert (later.planned, later.level) == (False, study.look.level / 2)


# ---- sweeps


def test_a_sweep_is_levels_of_one_subject(tmp_path: Path) -> None:
    text = '[sweeps.rate]\nsetting = "optimiser.lr"\nhypothesis = "too small"\nvalues = [1, 0.01, 0.1]'
    plan: Plan = small_plan(tmp_path, text)
    (sweep,) = plan.sweeps
    assert (sweep.values, sweep.factors) == ((0.01, 0.1, 1), ("", "rate 0.1", "rate 1"))
    assert [(one.name, one.subject, dict(one.changes)) for one in plan.factors] == [
        ("rate 0.1", "rate", {"optimiser.lr": 0.1}),
        ("rate 1", "rate", {"optimiser.lr": 1}),
    ]
    check(plan)
    assert json.dumps(replace(plan, text="").seeds)


# ---- whatever interrupts a study that is tuned, looked at, and grown

GROWN_HEAD = HEAD.replace("seeds = 4", "seeds = 6\nlooks = [4, 6]\nfutility = 0.01", 1)


class StopError(Exception):
    pass


class StopAfter(run.Listener):
    def __init__(self, runs: int) -> None:
        self.left = runs

    def finished(self, title: str, record: Record, seconds_left: float) -> None:
        self.left -= 1
        if not self.left:
            raise StopError


def state_of(folder: Path) -> tuple[Any, ...]:
    results = Results(folder)
    arms = {names: arm.changes for names, arm in plan_of(folder).arms.items()}
    return results.records, arms, results.looked, results.stopped


@pytest.mark.usefixtures("quick")
def test_stopped_while_it_is_tuned_or_grows_it_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    for folder in ("whole", "study"):
        run.investigate(small_plan(tmp_path, TUNED, head=HEAD), tmp_path / folder, jobs=1)
    grown = small_plan(tmp_path, TUNED + WIDE.partition("[factors.batch]")[0], head=GROWN_HEAD)
    whole = run.investigate(grown, tmp_path / "whole", jobs=1)
    for count in (1, 3, 2, 5):  # while the new arm is tuned, and after
        with pytest.raises(StopError):
            run.investigate(replace(grown, arms={}), tmp_path / "study", jobs=1, listener=StopAfter(count))
    study = run.investigate(replace(grown, arms={}), tmp_path / "study", jobs=1)
    assert state_of(tmp_path / "study") == state_of(tmp_path / "whole")
    assert study.answer == whole.answer
    assert whole.notes[-1].startswith(
        "Settled for each arm before it was compared: baseline (optimiser.lr = 0.2: best of"
    )
    assert len(Results(tmp_path / "study").records) == 4 * 2 * 2 + 2 * 6 + 2 * 4  # two arms stopped at the look


@pytest.mark.usefixtures("quick")
def test_two_that_grow_one_study_at_once_find_what_one_finds(tmp_path: Path) -> None:
    def go(folder: str) -> str:
        plan = small_plan(tmp_path, TUNED, head=GROWN_HEAD)
        return run.investigate(plan, tmp_path / folder, jobs=1).answer

    go("alone")
    run.investigate(small_plan(tmp_path, TUNED, head=HEAD), tmp_path / "both", jobs=1)
    with ThreadPoolExecutor(2) as pool:
        answers = [*pool.map(go, ["both"] * 2)]
    assert answers[0] == answers[1]
    assert state_of(tmp_path / "both")[:2] == state_of(tmp_path / "alone")[:2]
    lines = (tmp_path / "both" / "results.jsonl").read_text().splitlines()
    assert len(lines) == len(Results(tmp_path / "both").records)
