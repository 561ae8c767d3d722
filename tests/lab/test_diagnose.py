"""The usual suspects around a recipe: which there are, and what they find in a run trained badly on purpose."""

import json
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from glassformer.lab.cells import additions, cell, key_of
from glassformer.lab.check import check
from glassformer.lab.diagnose import diagnosis
from glassformer.lab.plan import changed
from glassformer.train.presets import preset, preset_names
from glassformer.train.recipe import Recipe

BAD = {"optimiser.lr": 0.001, "model.start": "zero", "training.epochs": 3, "training.batch": 12}
SMALL = [name for name in preset_names() if not name.startswith("gpt2-")]  # the others need a large machine


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


@pytest.mark.parametrize(
    "name", [name if name == "vit-pico" else pytest.param(name, marks=pytest.mark.slow) for name in SMALL]
)
def test_every_suspect_can_run(name: str) -> None:
    check(diagnosis(preset(name), name))


def test_what_is_suspected_of_patch_attention_with_plain_steps() -> None:
    recipe = changed(preset("attention-pool"), BAD, "")
    assert names(recipe) == {
        *(f"rate x{times}" for times in ("0.1", "0.3", "3", "10", "30", "100")), "AdamW", "cosine schedule",
        "twice the epochs", "half the batch", "twice the batch", "positions sinusoidal", "positions ±0.5",
        "twice as wide",
    }  # fmt: skip
    plan = diagnosis(recipe, "run")
    made = {factor.name: cell(plan, (factor.name,)).recipe for factor in plan.factors}
    assert made["rate x30"].optimiser.lr == 0.03
    assert made["AdamW"].optimiser.name == "adamw"
    assert made["twice the epochs"].training.epochs == 6
    assert made["half the batch"].training.batch == 6
    assert made["twice as wide"].model == replace(plan.baseline.model, width=32, hidden=64)  # pyright: ignore
    assert not plan.by_name["AdamW"].combine


@pytest.mark.parametrize(
    ("name", "changes", "there", "not_there"),
    [
        ("vit-nano", {}, {"one block more", "positions ±0.5", "rate x10"}, {"AdamW", "rate x30"}),
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
    assert "rate x100" in answer
    assert "AdamW" in answer
    assert "On top of rate x100" in answer
    assert "positions sinusoidal" in answer.partition("On top of rate x100")[2].partition("Together")[0]
    assert answer.index("rate x100") < answer.index("positions sinusoidal")
