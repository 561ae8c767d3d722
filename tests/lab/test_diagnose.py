"""The usual suspects around a recipe: which there are, and what they find in a run trained badly on purpose."""

import json
import math
import runpy
import subprocess
import sys
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from glassformer.lab import diagnose, run
from glassformer.lab.cells import additions, cell, key_of
from glassformer.lab.check import check
from glassformer.lab.diagnose import diagnosis
from glassformer.lab.folder import plan_of
from glassformer.lab.metric import LOSS
from glassformer.lab.plan import changed, usual_metric
from glassformer.lab.record import Record
from glassformer.train.optimiser import Optimiser
from glassformer.train.presets import preset, preset_names
from glassformer.train.recipe import Recipe

from .small import small_plan

ROOT = Path(__file__).parents[2]
BAD = {"optimiser.lr": 0.001, "model.start": "zero", "training.epochs": 3, "training.batch": 12}
SMALL = [name for name in preset_names() if not name.startswith(("gpt2-", "smollm-"))]  # others are large


def names(recipe: Recipe) -> set[str]:
    return {factor.name for factor in diagnosis(recipe, "run").factors}


@pytest.mark.parametrize("name", preset_names())
def test_every_suspect_changes_something(name: str) -> None:
    plan = diagnosis(preset(name), name)
    keys = [one.with_.key for one in additions(plan)]
    assert len(set(keys)) == len(keys)
    assert cell(plan, ()).key not in keys
    assert all(factor.hypothesis for factor in plan.factors)
    assert 5 <= len(plan.factors) <= 20
    assert diagnosis(preset(name), name, target=0.5).metric == usual_metric(preset(name))


@pytest.mark.parametrize(
    "name", [name if name == "vit-pico" else pytest.param(name, marks=pytest.mark.slow) for name in SMALL]
)
def test_every_suspect_can_run(name: str) -> None:
    check(diagnosis(preset(name), name))


def test_what_is_suspected_of_patch_attention_with_plain_steps() -> None:
    recipe = changed(preset("attention-pool"), BAD, "")
    assert names(recipe) == {
        *(f"rate {rate}" for rate in ("0.0001", "0.0003", "0.003", "0.01", "0.03", "0.1")), "AdamW", "cosine schedule",
        "twice the epochs", "half the batch", "twice the batch", "positions sinusoidal", "positions ±0.5",
        "twice as wide",
    }  # fmt: skip
    plan = diagnosis(recipe, "run")
    made = {factor.name: cell(plan, (factor.name,)).recipe for factor in plan.factors}
    assert made["rate 0.03"].optimiser.lr == 0.03
    assert plan.sweeps[0].widen
    assert plan.metric == LOSS
    assert made["AdamW"].optimiser.name == "adamw"
    assert made["twice the epochs"].training.epochs == 6
    assert made["half the batch"].training.batch == 6
    assert made["twice as wide"].model == replace(plan.baseline.model, width=32, hidden=64)  # pyright: ignore
    assert not plan.by_name["AdamW"].combine


@pytest.mark.parametrize(
    ("name", "changes", "there", "not_there"),
    [
        ("vit-nano", {}, {"one block more", "positions ±0.5", "rate 0.018"}, {"AdamW", "rate 0.054"}),
        ("vit-nano", {"training.subset": 500}, {"four times the data", "half the data"}, set()),
        ("vit-nano", {"model.dropout": 0.1, "training.shift": 2}, {"without dropout", "without shifts"}, set()),
        ("vit-nano", {"training.augment.erase": 0.1}, {"without augmentation"}, {"without dropout"}),
        ("vit-nano", {"model.dropout": 0.0, "training.shift": 0}, set(), {"without dropout", "without shifts"}),
        ("mlp", {"training.label_smoothing": 0.1}, {"without label smoothing"}, {"twice as wide", "positions ±0.5"}),
        ("mlp", {"training.batch": 1}, {"twice the batch"}, {"half the batch"}),
        ("mlp", {"optimiser.schedule": {"kind": "warmup-cosine"}}, set(), {"cosine schedule"}),
        ("mlp", {"optimiser.schedule": {"kind": "constant"}}, {"cosine schedule"}, set()),
    ],
)  # fmt: skip
def test_suspects_depend_on_the_recipe(
    name: str, changes: dict[str, Any], there: set[str], not_there: set[str]
) -> None:
    found = names(changed(preset(name), changes, ""))
    assert there <= found
    assert not not_there & found


@pytest.mark.parametrize(
    ("seconds", "epochs"),
    [(3000, 30), (500, 30), (100, 16), (40, 4), (16, 1)],  # a run takes 2 s and half a second an epoch
)
def test_so_many_epochs_that_all_runs_fit_into_the_time(
    seconds: float, epochs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fake(key: str, recipe: Recipe) -> Record:
        return Record(key, 1, seconds=9 + 2 + recipe.training.epochs / 2, compile_seconds=9)

    monkeypatch.setattr(diagnose, "train_one", fake)
    recipe = changed(preset("vit-nano"), {"training.epochs": 30}, "")
    assert diagnose.epochs_within(recipe, seconds, runs=20, at_once=2) == epochs


def test_the_baseline_is_the_run_made_comparable() -> None:
    """Early stopping and test-set-only runs cannot be compared; engine and threads are this machine's business."""
    recipe = changed(preset("attention-pool"), {"validation.share": 0.2, "validation.patience": 3}, "")
    recipe = replace(recipe, engine=replace(recipe.engine, name="native", threads=2))
    plan = diagnosis(recipe, "mine", target=0.9, seeds=7)
    assert (plan.target, len(plan.seeds)) == (0.9, 7)
    assert "mine" in plan.question
    assert (plan.baseline.validation.share, plan.baseline.validation.patience) == (0.2, 0)
    assert (plan.baseline.engine.name, plan.baseline.engine.threads) == ("auto", 0)
    unchanged = [one.name for one in fields(Recipe) if one.name not in ("validation", "engine")]
    assert all(getattr(plan.baseline, name) == getattr(recipe, name) for name in unchanged)
    whole = changed(preset("attention-pool"), {"validation.share": 0.0}, "")
    assert diagnosis(whole, "mine").baseline.validation.share == 0.1
    assert key_of(plan.baseline) != key_of(diagnosis(whole, "mine").baseline)


def test_a_run_too_long_for_the_time_is_shortened_and_the_question_says_so() -> None:
    recipe = changed(preset("vit-pico"), {"training.epochs": 8}, "")
    plan = diagnosis(recipe, "mine", epochs=2)
    assert plan.question == "Why is the loss of mine not better? (all runs shortened to 2 of 8 epochs)"
    assert plan.baseline.training.epochs == 2
    assert "twice the epochs" not in plan.by_name
    assert diagnosis(recipe, "mine", epochs=9).baseline.training.epochs == 8
    assert diagnosis(recipe, "mine", samples=99).by_name["half the data"].changes == {"training.subset": 49}


# ---- a grid whose best value is at its edge


def rated(best: float, key: str, recipe: Recipe, *_: object) -> Record:
    """The better, the nearer the rate is to the best one; too high a rate fails."""
    rate, seed = recipe.optimiser.lr, recipe.training.seed
    if rate > 100 * best:
        return Record(key, seed, failed="not finite in epoch 1", outcome="nan")
    loss = 1 + abs(math.log10(rate / best)) + 0.01 * (seed % 5)
    return Record(key, seed, scores={"loss": (loss,)}, test_scores={"loss": loss}, steps=5, parameters=5, outcome="ok")


@pytest.mark.parametrize(
    ("rate", "best", "more"),
    [
        pytest.param(0.01, 0.01, False, marks=pytest.mark.slow),
        (1e-5, 5e-3, True),
        pytest.param(1.0, 5e-3, True, marks=pytest.mark.slow),  # diverges: smaller ones are tried
    ],
)
def test_a_grid_is_widened_until_its_best_value_is_inside(
    rate: float, best: float, more: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = replace(small_plan(tmp_path, engine="jax").baseline, optimiser=Optimiser("adamw", lr=rate))
    plan = diagnosis(recipe, "small", seeds=7)
    monkeypatch.setattr(run, "train_one", partial(rated, best))
    study = run.investigate(plan, tmp_path / "study", jobs=1)
    there = study.plan.sweeps[0].values
    before = plan.sweeps[0].values
    assert set(before) <= set(there)
    assert (len(there) > len(before)) is more
    nearest = min(there, key=lambda one: abs(math.log10(one / best)))
    assert there[0] < nearest < there[-1]
    assert plan_of(tmp_path / "study").sweeps == study.plan.sweeps
    again = run.investigate(plan, tmp_path / "study", jobs=1)  # the plan as it was first asked for
    assert again.plan.sweeps == study.plan.sweeps


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "low", "high"), [(1000.0, 0.03, 1.0), (1e-5, 0.01, 3.0)])
def test_a_rate_that_is_far_off_is_found_whether_training_diverges_or_never_begins(
    rate: float, low: float, high: float, tmp_path: Path
) -> None:
    """The values that cure it lie beyond the first grid."""
    base = small_plan(tmp_path).baseline
    training = replace(base.training, epochs=5)
    recipe = replace(base, optimiser=replace(base.optimiser, lr=rate), training=training)
    study = run.investigate(diagnosis(recipe, "small"), tmp_path / "study", jobs=1)
    best = max((one for one in study.findings if one.word == "explains"), key=lambda one: one.effect.mean)  # pyright: ignore
    (name,) = best.comparison.factors
    assert name.startswith("rate ")
    assert low <= float(name.removeprefix("rate ")) <= high
    assert "What explains it: rate" in study.answer
    outcomes = {record.outcome for record in study.baseline.records}
    assert rate < 1 or outcomes <= {"nan", "collapse"}  # weights as they began may be right by chance


def glassformer(*words: str, folder: Path) -> str:
    result = subprocess.run(
        [sys.executable, "-m", "glassformer", *words], capture_output=True, text=True, cwd=folder, timeout=900
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.slow
def test_both_causes_of_a_run_trained_badly_on_purpose_are_named(tmp_path: Path) -> None:
    """Plain steps at 0.001, positions that start at zero. Alone, better positions help nothing: with that rate nothing
    does. They are found on top of the better rate."""
    settings = [word for name, value in BAD.items() for word in ("--set", f"{name}={value}")]
    glassformer("train", "attention-pool", *settings, "--out", "bad", folder=tmp_path)
    said = glassformer("diagnose", "bad", "--seeds", "10", "--json", "--out", "why", folder=tmp_path)
    found = json.loads(said.splitlines()[-1])
    answer = found["answer"]
    assert "rate 0.1" in answer
    assert "AdamW" in answer
    assert "positions sinusoidal" in answer


def test_the_page_has_the_classic_cases_and_all_were_diagnosed_rightly_in_time() -> None:
    script = runpy.run_path(str(ROOT / "scripts/classic_cases.py"))
    results = script["kept"]()
    assert list(results) == list(script["CASES"])
    assert all(script["CASES"][name].finds(one["helping"]) and one["seconds"] < 600 for name, one in results.items())
    assert script["table"](results) in (ROOT / "docs/lab.md").read_text()
