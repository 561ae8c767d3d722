"""The Python interface: arrays in, arrays out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import glassformer
from glassformer.data import Dataset
from glassformer.data import load as load_data
from glassformer.errors import CheckpointError, DataError, SettingError
from glassformer.models import MLP, ViT
from glassformer.predict import run as run_module
from glassformer.predict.run import Run
from glassformer.train import fit as fit_module
from glassformer.train.fit import new_folder
from glassformer.train.recipe import Recipe, Training

from .small import small_data, write_npz


@pytest.fixture(scope="module")
def data() -> Dataset:
    return small_data()


@pytest.fixture(scope="module")
def run(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("fit") / "run"
    arrays = (data.train.images, data.train.labels, data.test.images, data.test.labels)
    settings = {"training__epochs": 5, "training__batch": 8, "model__hidden": (6,), "optimiser__lr": 0.02}
    return glassformer.fit("mlp", arrays, out=out, seed=3, **settings)


def test_a_seed_by_the_name_of_its_setting(data: Dataset, tmp_path: Path) -> None:
    arrays = (data.train.images, data.train.labels, data.test.images, data.test.labels)
    run = glassformer.fit("mlp", arrays, out=tmp_path / "run", training__seed=5, training__epochs=1, model__hidden=(6,))
    assert run.recipe.training.seed == 5


def test_fit_takes_arrays_and_gives_a_run(run: Run) -> None:
    assert run.metrics["test_accuracy"] > 0.9
    assert run.metrics["epochs"] == 5
    assert run.recipe.training.seed == 3
    assert run.recipe.data == "arrays"
    assert run.model == MLP(images=replace(MLP().images, shape=(8, 8, 1), classes=3), hidden=(6,))
    assert run.classes == ("0", "1", "2")


def test_load_gives_the_same_run(run: Run, data: Dataset) -> None:
    for path in (run.path, str(run.path)):
        again = glassformer.load(path)
        np.testing.assert_array_equal(again.logits(data.test.images), run.logits(data.test.images))
        assert again.metrics == run.metrics


def test_predictions_and_probabilities(run: Run, data: Dataset) -> None:
    p = run.probabilities(data.test.images)
    assert p.shape == (37, 3)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    logits = run.logits(data.test.images).astype(float)
    np.testing.assert_allclose(p, np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), atol=1e-12)
    np.testing.assert_array_equal(run.predict(data.test.images), p.argmax(axis=1))
    np.testing.assert_array_equal(run.predict(data.test.images[..., 0]), p.argmax(axis=1))  # grey, no channel axis


def test_many_images_are_taken_in_parts(run: Run, data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run.logits(data.test.images)
    monkeypatch.setattr(run_module, "AT_ONCE", 10)
    np.testing.assert_allclose(run.logits(data.test.images), expected, atol=1e-5)


def test_evaluation(run: Run, data: Dataset) -> None:
    result = run.evaluate(*data.test)
    predicted, p = run.predict(data.test.images), run.probabilities(data.test.images)
    assert result.accuracy == np.mean(predicted == data.test.labels) == run.metrics["test_accuracy"]
    assert result.loss == pytest.approx(-np.mean(np.log(p[np.arange(37), data.test.labels])))
    for label in range(3):
        for guess in range(3):
            assert result.confusion[label, guess] == np.sum((data.test.labels == label) & (predicted == guess))
    assert [row["count"] for row in result.per_class] == np.bincount(data.test.labels).tolist()
    assert result.per_class[1]["recall"] == pytest.approx(np.mean(predicted[data.test.labels == 1] == 1))
    assert result.per_class[1]["precision"] == pytest.approx(np.mean(data.test.labels[predicted == 1] == 1))


def test_evaluation_without_images_takes_the_test_set_of_the_run(tmp_path: Path, data: Dataset) -> None:
    file = write_npz(tmp_path / "small.npz", data)
    run = glassformer.fit("mlp", str(file), out=tmp_path / "run", training__epochs=1, model__hidden=(6,))
    assert run.recipe.data == str(file)
    assert run.evaluate().accuracy == run.metrics["test_accuracy"]


def test_a_relative_path_is_written_down_as_an_absolute_one(
    tmp_path: Path, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_npz(tmp_path / "small.npz", data)
    monkeypatch.chdir(tmp_path)
    for given in ("small.npz", load_data("small.npz")):
        run = glassformer.fit("mlp", given, training__epochs=1, model__hidden=(6,))
        assert run.recipe.data == str(file)


def test_a_run_from_arrays_needs_them_again(data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("arrays").mkdir()  # a folder that happens to be called so is not them
    message = (
        r"the run was trained on arrays given in Python, which no file holds; score it with "
        r"run\.evaluate\(images, labels\) or `glassformer eval RUN --data …`, go on with it by glassformer\.train\.fit"
    )
    arrays = (data.train.images, data.train.labels, data.test.images, data.test.labels)
    for given in (data, arrays):
        again = glassformer.fit("mlp", given, training__epochs=1, model__hidden=(6,))
        assert again.recipe.data == "arrays"
        with pytest.raises(DataError, match=message):
            again.evaluate()
        with pytest.raises(DataError, match=message):
            fit_module.resume(again.path)
        assert fit_module.resume(again.path, data=arrays) == again.metrics


def test_a_class_nobody_was_taken_for_has_no_precision(run: Run, data: Dataset) -> None:
    one = data.test.images[data.test.labels == 0][:1]
    rows = run.evaluate(one, np.array([0])).per_class
    assert [row["recall"] for row in rows] == [1.0, None, None]
    assert rows[2]["precision"] is None


IMAGES, LABELS = np.zeros((4, 8, 8, 1), np.uint8), np.zeros(4, int)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (IMAGES.astype(float), LABELS, "predict: images of type float64 came, expected uint8, 0 to 255"),
        (IMAGES[:, :7], LABELS, r"predict: images of shape \(4, 7, 8, 1\) came, expected \(N, 8, 8, 1\)"),
        (IMAGES[0], LABELS, r"images of shape \(8, 8, 1\) came"),
        (IMAGES[:0], LABELS[:0], r"images of shape \(0, 8, 8, 1\) came"),
        (IMAGES, LABELS[:3], r"evaluate: labels are int64 of shape \(3,\), expected a whole number for each of 4"),
        (IMAGES, LABELS.astype(float), "evaluate: labels are float64"),
        (IMAGES, LABELS[:, None], r"labels are int64 of shape \(4, 1\)"),
        (IMAGES, LABELS + 3, "evaluate: labels 3 to 3 came, the model knows 0 to 2"),
        (IMAGES, LABELS - 1, "evaluate: labels -1 to -1 came, the model knows 0 to 2"),
        (IMAGES, None, "evaluate: images and labels belong together, and only one of them came"),
        (None, LABELS, "evaluate: images and labels belong together"),
    ],
)
def test_arrays_that_do_not_fit(images: np.ndarray | None, labels: np.ndarray | None, message: str, run: Run) -> None:
    with pytest.raises(DataError, match=message):
        run.evaluate(images, labels)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((IMAGES, LABELS), "fit: 2 arrays came, expected four: train images, train labels, test images, test labels"),
        ((IMAGES.astype(int), LABELS, IMAGES, LABELS), "arrays: training images are int64, expected uint8"),
        ((IMAGES.astype(float), LABELS, IMAGES, LABELS), "arrays: training images are float32, test images uint8"),
        ((IMAGES, LABELS, IMAGES[:, 0], LABELS), "arrays: training images are 8x8x1, test images 8x1x1"),
        ((IMAGES, LABELS[:3], IMAGES, LABELS), "arrays: training images are 4, their labels 3"),
        ((IMAGES, LABELS, IMAGES, LABELS + 5), "arrays: test label 5 of sample 0 is out of range"),
    ],
)
def test_data_that_cannot_be_trained_on(arrays, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        glassformer.fit("mlp", arrays, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_settings_by_keyword_are_checked(data: Dataset, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"training\.epoch: Training has no setting 'epoch'"):
        glassformer.fit("mlp", data, out=tmp_path / "run", training__epoch=3)
    assert not (tmp_path / "run").exists()


def test_a_recipe_and_a_new_folder_under_runs(data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = Recipe(training=Training(epochs=1))
    assert recipe.model == ViT()
    run = glassformer.fit(recipe, data, model=MLP(hidden=(6,)))
    assert run.path == Path("runs/run-1")
    assert run.images.shape == (8, 8, 1)
    with new_folder("run") as other:
        assert other == Path("runs/run-2")


def test_a_run_without_a_result_yet(run: Run, tmp_path: Path) -> None:
    for name in ("recipe.toml", "model.safetensors"):
        (tmp_path / name).write_bytes((run.path / name).read_bytes())
    assert glassformer.load(tmp_path).metrics == {}
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model\.safetensors: there is no such file"):
        glassformer.load(tmp_path)


def test_only_what_there_is_can_be_asked_for() -> None:
    with pytest.raises(AttributeError, match="module 'glassformer' has no attribute 'fitt'"):
        _ = glassformer.fitt  # pyright: ignore
