"""Averaged weights: the formula, which weights a run keeps, and that a run goes on with them to the bit."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer.data import Samples
from glassformer.errors import SettingError
from glassformer.lab.one_run import Cells
from glassformer.lens.studio.runs import rows_of
from glassformer.names import named_leaves
from glassformer.predict.run import load
from glassformer.train import fit
from glassformer.train.jax_engine import JaxEngine
from glassformer.train.loop import Listener, split, with_seed
from glassformer.train.recipe import Recipe, Training
from glassformer.train.rng import Threefry
from glassformer.train.score import Score
from glassformer.train.weights import load_arrays

from .small import small_data, small_recipe, whole_and_cut, without_validation

KEEP = 0.8


def averaging(kind: str = "sgd", **training: Any) -> Recipe:
    return small_recipe(kind, ema=KEEP, **training)


def test_the_average_is_its_formula() -> None:
    """From the first weights on, after each update: 0.8 of itself and 0.2 of the new ones."""
    recipe = averaging()
    engine = JaxEngine(recipe, small_data().train, (1,))
    state, batches = engine.start(Threefry(0).init(recipe.model)), engine.batches([np.arange(103)], 1)
    expected = {name: np.asarray(leaf, np.float64) for name, leaf in named_leaves(state.params).items()}
    for step in range(engine.steps):
        state, _ = engine.run(state, batches, step, step + 1)
        for name, leaf in named_leaves(state.params).items():
            expected[name] = KEEP * expected[name] + (1 - KEEP) * np.asarray(leaf, np.float64)
    for name, leaf in named_leaves(state.ema).items():
        np.testing.assert_allclose(leaf, expected[name], atol=1e-6)
        assert not np.array_equal(leaf, named_leaves(state.params)[name])


def test_they_change_nothing_of_the_last_ones_and_are_not_there_unasked(tmp_path: Path) -> None:
    fit.train(averaging(), small_data(), tmp_path / "with", Listener())
    plain = fit.train(small_recipe(), small_data(), tmp_path / "without", Listener())
    one, other = (load_arrays(tmp_path / name / "state.safetensors")[0] for name in ("with", "without"))
    assert {name for name in one if name not in other} == {
        name.replace(".params.", ".ema.") for name in other if name.startswith("state.params.")
    }
    for name, array in other.items():  # another program, which may round otherwise
        np.testing.assert_allclose(one[name], array, atol=1e-6, err_msg=name)
    assert not any("ema" in name or name == "weights" for name in plain)
    assert "ema" not in (tmp_path / "without/log.csv").read_text()


@pytest.mark.parametrize(("average", "kept"), [(0.7, "averaged"), (0.6, "averaged"), (0.5, "last")])
def test_the_better_ones_on_validation_data_are_kept(
    average: float, kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = iter([(0.3, 2.0), (0.6, 2.1), (0.4, 1.0), (average, 1.1)])  # test and validation of the last, of the average

    def score(engine: JaxEngine, params: object, samples: Samples) -> Score:
        return Score(*next(told))

    monkeypatch.setattr(JaxEngine, "score", score)
    result = fit.train(averaging(epochs=1), small_data(), tmp_path, Listener())
    assert result["weights"] == kept
    assert (result["test_accuracy"], result["val_accuracy"]) == ((0.4, average) if kept == "averaged" else (0.3, 0.6))
    assert (result["last_test_accuracy"], result["last_val_accuracy"]) == (0.3, 0.6)
    assert (result["ema_test_accuracy"], result["ema_val_accuracy"]) == (0.4, average)
    assert (result["ema_test_loss"], result["last_val_loss"]) == (1.0, 2.1)
    assert json.loads((tmp_path / "metrics.json").read_text()) == result
    state = load_arrays(tmp_path / "state.safetensors")[0]
    for name, leaf in load_arrays(tmp_path / "model.safetensors")[0].items():
        np.testing.assert_array_equal(leaf, state[f"state.{'ema' if kept == 'averaged' else 'params'}.{name}"])
    row = rows_of(tmp_path / "log.csv")[0]
    assert (row["test_accuracy"], row["ema_test_accuracy"], row["ema_val_accuracy"]) == (0.3, 0.4, average)
    assert (row["ema_test_loss"], row["ema_val_loss"]) == (1.0, 1.1)


def test_of_several_epochs_the_best_of_either_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = iter([0.1, 0.5, 0.1, 0.2, 0.1, 0.4, 0.1, 0.8, 0.1, 0.7, 0.1, 0.1])
    monkeypatch.setattr(JaxEngine, "score", lambda *_: Score(next(told), 1.0))
    result = fit.train(averaging(epochs=3), small_data(), tmp_path, Listener())
    assert (result["best_epoch"], result["weights"], result["val_accuracy"]) == (2, "averaged", 0.8)


def test_without_validation_data_the_averaged_ones_are_kept(tmp_path: Path) -> None:
    result = fit.train(without_validation(averaging()), small_data(), tmp_path, Listener())
    assert (result["weights"], result["ema_val_accuracy"]) == ("averaged", None)
    state = load_arrays(tmp_path / "state.safetensors")[0]
    for name, leaf in named_leaves(load(tmp_path).params).items():
        np.testing.assert_array_equal(leaf, state[f"state.ema.{name}"])


@pytest.mark.parametrize("seeds", [(), (1, 2)])
def test_cut_in_the_middle_it_resumes_to_the_bit(
    seeds: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "load_for", lambda recipe, name, tokeniser: small_data())
    recipe = averaging(accumulate=2, batch=4)

    assert whole_and_cut(recipe, seeds, tmp_path)


def test_what_is_frozen_is_its_own_average_to_the_bit(tmp_path: Path) -> None:
    recipe = averaging(epochs=1)
    recipe = replace(recipe, optimiser=replace(recipe.optimiser, freeze=("layers.0.*",)))
    fit.train(recipe, small_data(), tmp_path, Listener())
    state = load_arrays(tmp_path / "state.safetensors")[0]
    for name, leaf in named_leaves(Threefry(1).init(recipe.model)).items():
        same = state[f"state.ema.{name}"].tobytes() == np.asarray(leaf).tobytes()
        assert same == name.startswith("layers.0.")


def test_a_study_scores_the_better_ones_of_each_run() -> None:
    """Of three runs in one program, the first is better with its last weights, the others with the averaged ones."""
    recipe, seeds = averaging(epochs=1), (1, 2, 3)
    train, held_out = split(recipe, small_data())
    cells = Cells([with_seed(recipe, seed) for seed in seeds], JaxEngine(recipe, train, seeds), held_out)
    cells.start()
    cells.run()
    state, goodness = cells.state, iter([np.array([0.6, 0.5, 0.5]), np.array([0.5, 0.5, 0.6])])
    cells.goodness = lambda params: next(goodness)
    kept = cells.kept()
    for one, last, average in zip(*map(jax.tree.leaves, (kept, state.params, state.ema)), strict=True):
        np.testing.assert_array_equal(one, jnp.stack([last[0], average[1], average[2]]))


@pytest.mark.parametrize("keep", [1.0, -0.1, float("nan")])
def test_what_averages_nothing_is_refused(keep: float) -> None:
    with pytest.raises(SettingError, match=r"training: ema is .*, expected 0 \(no averaged weights\) to below 1"):
        Training(ema=keep)
