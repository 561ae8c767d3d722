"""Which epoch is kept, when a run stops early, and what the log and the result say."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from glassformer.data import Samples
from glassformer.losses import CrossEntropy, LabelSmoothing
from glassformer.names import named_leaves
from glassformer.predict.run import load
from glassformer.train import fit, loop
from glassformer.train.best_epoch import after_epoch, best
from glassformer.train.jax_engine import JaxEngine
from glassformer.train.listener import Listener
from glassformer.train.recipe import Recipe, Training, Validation
from glassformer.train.run_folder import Progress, Row
from glassformer.train.score import Score
from glassformer.train.weights import load_arrays

from .small import small_data, small_recipe, without_validation


def rows(*scores: float | None) -> tuple[Row, ...]:
    return tuple(Row(i + 1, 1.0, 0.1, 0.5, score, 0.01) for i, score in enumerate(scores))


@pytest.mark.parametrize(
    ("scores", "min_delta", "epoch"),
    [
        ((0.5, 0.7, 0.6), 0.0, 2),
        ((0.5, 0.5, 0.5), 0.0, 1),  # a tie is no improvement
        ((0.50, 0.504, 0.506), 0.5, 3),  # each is compared with the one that is kept, in percentage points
        ((0.50, 0.504, 0.505), 0.6, 1),
        ((None, None), 0.0, 2),
    ],
)
def test_the_epoch_that_is_kept(scores: tuple[float | None, ...], min_delta: float, epoch: int) -> None:
    assert best(rows(*scores), min_delta) == epoch


@pytest.mark.parametrize(
    ("scores", "patience", "stops"),
    [
        ((0.5, 0.4, 0.3), 2, 3),
        ((0.5, 0.4, 0.6, 0.5, 0.5, 0.9), 2, 5),
        ((0.5, 0.4, 0.3, 0.2), 0, None),
        ((0.5, 0.4), 1, 2),
    ],
)
def test_when_patience_runs_out(scores: tuple[float, ...], patience: int, stops: int | None) -> None:
    recipe = Recipe(training=Training(epochs=10), validation=Validation(patience=patience))
    progress, stopped = Progress(), None
    for row in rows(*scores):
        progress = after_epoch(recipe, progress, row)
        if progress.done:
            stopped = row.epoch
            break
    assert stopped == stops


def scored(monkeypatch: pytest.MonkeyPatch, validation: list[float], held_out: int) -> None:
    """The validation scores of the epochs, as told."""
    told = iter(validation)

    def score(engine: JaxEngine, params: object, samples: Samples) -> Score:
        return Score(next(told) if len(samples.labels) == held_out else 0.25, 1.0)

    monkeypatch.setattr(JaxEngine, "score", score)


def test_the_best_weights_are_kept_and_training_stops_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = replace(small_recipe(epochs=9), validation=Validation(patience=2, min_delta=0.5))
    scored(monkeypatch, [0.500, 0.600, 0.604, 0.1, 1.0], held_out=10)
    stopped = fit.train(recipe, small_data(), tmp_path / "stopped", Listener())
    assert (stopped["epochs"], stopped["best_epoch"]) == (4, 2)
    assert (stopped["val_accuracy"], stopped["test_accuracy"]) == (0.6, 0.25)

    monkeypatch.undo()
    fit.train(replace(recipe, training=replace(recipe.training, epochs=2)), small_data(), tmp_path / "two", Listener())
    last, about = load_arrays(tmp_path / "two/state.safetensors")
    kept = named_leaves(load(tmp_path / "stopped").params)
    assert about["progress"]["epoch"] == 2
    for name, array in kept.items():
        np.testing.assert_array_equal(array, last[f"state.params.{name}"])
    assert load_arrays(tmp_path / "stopped/model.safetensors")[1]["epoch"] == 2


def test_without_validation_the_last_weights_are_kept(tmp_path: Path) -> None:
    result = fit.train(without_validation(small_recipe(epochs=3)), small_data(), tmp_path, Listener())
    assert (result["epochs"], result["best_epoch"], result["val_accuracy"]) == (3, 3, None)
    state, _ = load_arrays(tmp_path / "state.safetensors")
    for name, array in named_leaves(load(tmp_path).params).items():
        np.testing.assert_array_equal(array, state[f"state.params.{name}"])


def test_the_log_has_a_line_per_epoch(tmp_path: Path) -> None:
    told: list[Row] = []

    class Told(Listener):
        def epoch(self, row: Row) -> None:
            told.append(row)

    result = fit.train(small_recipe("momentum", epochs=3), small_data(), tmp_path, Told())
    lines = [line.split(",") for line in (tmp_path / "log.csv").read_text().splitlines()]
    assert ",".join(lines[0]) == "epoch,loss,time,test_accuracy,val_accuracy,lr,test_loss,val_loss"
    assert [line[0] for line in lines[1:]] == ["1", "2", "3"]
    assert [line[4] for line in lines[1:]] == ["", "", ""]
    assert [float(line[5]) for line in lines[1:]] == [0.05, 0.025, 0.0125]  # halved every epoch
    assert [float(line[6]) for line in lines[1:]] == pytest.approx([row.test_loss for row in told], abs=1e-6)
    assert [line[7] for line in lines[1:]] == ["", "", ""]
    assert [row.epoch for row in told] == [1, 2, 3]
    assert float(lines[3][1]) == pytest.approx(result["loss"], abs=1e-6)
    assert float(lines[3][3]) == pytest.approx(100 * result["test_accuracy"], abs=0.01)
    assert result["train_seconds"] == pytest.approx(sum(row.time for row in told))


def test_the_loss_of_an_epoch_is_the_mean_over_its_samples(tmp_path: Path) -> None:
    """Not over its batches: the last, of three samples, weighs three tenths of a full one."""
    recipe = without_validation(small_recipe(epochs=1))
    data = small_data()
    losses: list[float] = []

    class Watched(JaxEngine):
        def run(self, state, batches, first, last):
            state, found = super().run(state, batches, first, last)
            losses.extend(found)
            return state, found

    made = loop.Loop(recipe, data, loop.RunFolder(tmp_path), Listener())
    made.engine = Watched(recipe, data.train, (1,))
    made.begin()
    assert fit.finish(made)["loss"] == pytest.approx((10 * sum(losses[:10]) + 3 * losses[10]) / 103, abs=1e-9)


def test_chunks_are_told_and_grow(tmp_path: Path) -> None:
    told: list[tuple[int, int, int]] = []

    class Told(Listener):
        def chunk(self, epoch: int, step: int, steps: int, loss: float, samples_per_second: float) -> None:
            told.append((epoch, step, steps))
            assert np.isfinite(loss)
            assert samples_per_second > 0

    fit.train(small_recipe(epochs=2, batch=1), small_data(), tmp_path, Told())
    assert told[0] == (1, 8, 93)
    assert told[-1] == (2, 93, 93)
    assert len(told) < 30


def test_label_smoothing_chooses_the_loss() -> None:
    assert Recipe(training=Training(label_smoothing=0.1)).loss == LabelSmoothing(0.1)
    assert Recipe().loss == CrossEntropy()
