"""Training told to an experiment tracker: TensorBoard, MLflow, or Weights & Biases.

A tracker is a listener: it hears of the settings, of the loss while training goes on, and of every score. A run that is
resumed goes on where it is kept: each tracker's own name of the run lies in the run folder, in trackers.json.
"""

import importlib
import json
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.errors import SettingError, TrainingError
from glassformer.files import write_whole
from glassformer.reading import read_json
from glassformer.train.listener import Listener
from glassformer.train.settings import to_plain

if TYPE_CHECKING:
    from glassformer.data import Dataset
    from glassformer.train.recipe import Recipe
    from glassformer.train.run_folder import Row

NAMES = "trackers.json"


class Tracker(Listener):
    name: str
    package: str  # as it is imported
    steps: int = 0  # of an epoch; 0: nothing was trained yet

    def __init__(self) -> None:
        try:
            self.library = importlib.import_module(self.package)
        except ImportError:
            raise SettingError(
                f"--log {self.name}: the package {self.package} is missing; pip install 'glassformer[{self.name}]'"
            ) from None

    def begins(self, folder: Path, recipe: "Recipe", data: "Dataset", seeds: tuple[int, ...]) -> None:
        self.run_of = folder, recipe

    def resumes(self, folder: Path, recipe: "Recipe") -> None:
        self.run_of = folder, recipe

    def chunk(self, epoch: int, step: int, steps: int, loss: float, samples_per_second: float) -> None:
        if not self.steps:  # not before: the run may have been refused
            folder, recipe = self.run_of
            self.open(folder, flat(to_plain(recipe)))
        self.steps = steps
        self.write({"train/loss": loss, "train/samples_per_second": samples_per_second}, (epoch - 1) * steps + step)

    def epoch(self, row: "Row") -> None:
        scores = {
            "epoch/loss": row.loss,
            "epoch/lr": row.lr,
            "test/loss": row.test_loss,
            "test/accuracy": row.test_accuracy,
            "validation/loss": row.val_loss,
            "validation/accuracy": row.val_accuracy,
        }
        self.write({name: value for name, value in scores.items() if value is not None}, row.epoch * self.steps)

    @abstractmethod
    def open(self, folder: Path, settings: dict[str, Any]) -> None: ...

    @abstractmethod
    def write(self, values: dict[str, float], step: int) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class TensorBoard(Tracker):
    """Event files in the run folder: `tensorboard --logdir runs`."""

    name, package = "tensorboard", "tensorboardX"

    def open(self, folder: Path, settings: dict[str, Any]) -> None:
        self.writer = self.library.SummaryWriter(str(folder / "tensorboard"))
        lines = "\n".join(f"    {name} = {value!r}" for name, value in settings.items())
        self.writer.add_text("recipe", lines)

    def write(self, values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        self.writer.close()


class MLflow(Tracker):
    """Where MLFLOW_TRACKING_URI says, in the experiment of MLFLOW_EXPERIMENT_NAME."""

    name, package = "mlflow", "mlflow"

    def open(self, folder: Path, settings: dict[str, Any]) -> None:
        before = own_name(folder, self.name)
        run = self.library.start_run(run_id=before or None, run_name=None if before else folder.name)
        if not before:
            self.library.log_params(settings)
            keep_name(folder, self.name, run.info.run_id)

    def write(self, values: dict[str, float], step: int) -> None:
        self.library.log_metrics(values, step=step)

    def close(self) -> None:
        self.library.end_run()


class WandB(Tracker):
    """As WANDB_PROJECT and WANDB_MODE say."""

    name, package = "wandb", "wandb"

    def open(self, folder: Path, settings: dict[str, Any]) -> None:
        before = own_name(folder, self.name)
        self.run = self.library.init(
            id=before or None, resume="allow" if before else None, name=folder.name, config=settings, dir=str(folder)
        )
        keep_name(folder, self.name, self.run.id)

    def write(self, values: dict[str, float], step: int) -> None:
        self.run.log({**values, "step": step})

    def close(self) -> None:
        self.run.finish()


TRACKERS: dict[str, type[Tracker]] = {one.name: one for one in (TensorBoard, MLflow, WandB)}


class Trackers(Listener):
    """Tell a listener, and trackers beside it. What goes wrong in a tracker ends nothing: it is said once, and left."""

    def __init__(self, listener: Listener, names: list[str]) -> None:
        unknown = [name for name in names if name not in TRACKERS]
        if unknown:
            raise SettingError(f"--log: {unknown[0]!r} came, expected {', '.join(TRACKERS)}")
        self.listener, self.trackers = listener, [TRACKERS[name]() for name in dict.fromkeys(names)]

    def tell(self, what: str, *told: Any) -> None:
        for tracker in [*self.trackers]:
            try:
                getattr(tracker, what)(*told)
            except Exception as error:
                self.trackers.remove(tracker)
                self.listener.notice(f"{tracker.name}: {error}; training goes on without it")

    def begins(self, folder: Path, recipe: "Recipe", data: "Dataset", seeds: tuple[int, ...]) -> None:
        self.listener.begins(folder, recipe, data, seeds)
        self.tell("begins", folder, recipe, data, seeds)

    def resumes(self, folder: Path, recipe: "Recipe") -> None:
        self.listener.resumes(folder, recipe)
        self.tell("resumes", folder, recipe)

    def notice(self, text: str) -> None:
        self.listener.notice(text)

    def chunk(self, epoch: int, step: int, steps: int, loss: float, samples_per_second: float) -> None:
        self.listener.chunk(epoch, step, steps, loss, samples_per_second)
        self.tell("chunk", epoch, step, steps, loss, samples_per_second)

    def epoch(self, row: "Row") -> None:
        self.listener.epoch(row)
        self.tell("epoch", row)

    def interrupted(self) -> bool:
        return self.listener.interrupted()

    def close(self) -> None:
        self.trackers = [tracker for tracker in self.trackers if tracker.steps]
        self.tell("close")


def flat(settings: Any, where: str = "") -> dict[str, Any]:
    """`model.width`: 64, …"""
    if not isinstance(settings, dict):
        return {where: settings}
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= flat(value, f"{where}.{name}".lstrip("."))
    return found


def own_name(folder: Path, tracker: str) -> str:
    """What a tracker calls the run in the folder; nothing where it does not know it."""
    names = read_json(folder / NAMES, TrainingError) if (folder / NAMES).is_file() else {}
    return str(names.get(tracker, "")) if isinstance(names, dict) else ""


def keep_name(folder: Path, tracker: str, name: str) -> None:
    names = read_json(folder / NAMES, TrainingError) if (folder / NAMES).is_file() else {}
    write_whole(folder / NAMES, json.dumps({**names, tracker: name}) + "\n")
