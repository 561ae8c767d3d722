"""What trackers are told, read back from the files that they write themselves."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import SettingError
from glassformer.train import fit
from glassformer.train.loop import InterruptedRunError, Listener
from glassformer.train.trackers import NAMES, TRACKERS, Tracker, Trackers

from .small import Stop, small_data, small_recipe


def train(folder: Path, name: str, listener: Listener | None = None, **training: Any) -> dict[str, Any]:
    told = Trackers(listener or Listener(), [name])
    try:
        return fit.run_recipe(small_recipe(**training), small_data(), lambda recipe: recipe, out=folder, listener=told)
    finally:
        told.close()


def resume(folder: Path, name: str) -> dict[str, Any]:
    told = Trackers(Listener(), [name])
    try:
        return fit.resume(folder, told, small_data())
    finally:
        told.close()


def test_tensorboard_has_losses_scores_and_the_recipe(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    result = train(tmp_path / "run", "tensorboard")
    events = reading.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    accuracy = events.Scalars("test/accuracy")
    assert [event.step for event in accuracy] == [10, 20]  # 93 samples in batches of ten, two epochs
    assert accuracy[result["best_epoch"] - 1].value == pytest.approx(result["test_accuracy"])
    assert events.Scalars("train/loss")
    assert "model.hidden" in str(events.Tensors("recipe/text_summary")[0].tensor_proto)


def test_mlflow_goes_on_with_a_run_that_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    with pytest.raises(InterruptedRunError):
        train(tmp_path / "run", "mlflow", Stop(2), epochs=3)
    result = resume(tmp_path / "run", "mlflow")
    number = json.loads((tmp_path / "run" / NAMES).read_text())["mlflow"]
    run = mlflow.get_run(number)
    assert run.data.params["optimiser.lr"] == "0.2"
    assert run.data.metrics["epoch/loss"] == pytest.approx(result["loss"])
    history = mlflow.MlflowClient().get_metric_history(number, "test/accuracy")
    assert [metric.step for metric in history] == [10, 20, 30]


@pytest.mark.slow
def test_wandb_is_told_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    train(tmp_path / "run", "wandb")
    assert json.loads((tmp_path / "run" / NAMES).read_text())["wandb"]
    (written,) = (tmp_path / "run" / "wandb").glob("offline-run-*/run-*.wandb")
    until = time.monotonic() + 60  # a process of its own writes the file, when it finds the time
    while b"test/accuracy" not in written.read_bytes():
        assert time.monotonic() < until, "nothing was written"
        time.sleep(0.1)


class Broken(Tracker):
    name, package = "broken", "json"

    def open(self, folder: Path, settings: dict[str, Any]) -> None:
        raise ConnectionError("nobody there")


def test_a_tracker_that_fails_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRACKERS, "broken", Broken)
    said: list[str] = []
    listener = Listener()
    listener.notice = said.append  # pyright: ignore[reportAttributeAccessIssue]
    assert train(tmp_path / "run", "broken", listener)["epochs"] == 2
    assert said == ["broken: nobody there; training goes on without it"]


def test_what_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match="--log: 'tensorbord' came, expected tensorboard, mlflow, wandb"):
        Trackers(Listener(), ["tensorbord"])
    monkeypatch.setattr(TRACKERS["wandb"], "package", "no_such_package")
    with pytest.raises(SettingError, match=r"pip install 'glassformer\[wandb\]'"):
        Trackers(Listener(), ["wandb"])
