"""What a person sees while a model trains: the configuration, a bar, a line per epoch. All on stderr."""

import signal
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from glassformer.cli.hosts import note
from glassformer.train.listener import Listener

if TYPE_CHECKING:
    from glassformer.data import Dataset
    from glassformer.train.recipe import Recipe, Training
    from glassformer.train.run_folder import Row


class TrainingProgress(Listener):
    """A listener that draws; on Ctrl-C it asks the loop to stop after the chunk under way."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False, quiet=quiet)
        self.bar = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(),
            TextColumn("loss {task.fields[loss]:.4f}  {task.fields[speed]}"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self.task: Any = None
        self.epochs, self.by_loss = 0, False
        self.stopping = False
        self.begun = time.monotonic()

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.bar.stop()

    def begins(self, folder: Path, recipe: "Recipe", data: "Dataset", seeds: tuple[int, ...]) -> None:
        training, optimiser = recipe.training, recipe.optimiser
        self.hear_of(recipe)
        note(run=str(folder))
        seed = f"seeds {', '.join(map(str, seeds))}" if seeds else f"seed {training.seed}"
        times = f" x {training.accumulate}" if training.accumulate > 1 else ""
        self.console.print(
            f"{type(recipe.model).__name__} on {data.name} ({recipe.task.count(data.train):,} training {what(recipe)}, "
            f"{100 * recipe.validation.share:g} % held out), {length(training)}, batch {training.batch}{times}, "
            f"{optimiser.name} at {optimiser.lr:g} ({optimiser.schedule.kind}), {seed} "
            f"-> {folder}"
        )

    def hear_of(self, recipe: "Recipe") -> None:
        from glassformer.train.throughput import Throughput

        self.epochs, self.by_loss = recipe.training.epochs, recipe.task.by_loss
        self.throughput = Throughput(recipe)

    def resumes(self, folder: Path, recipe: "Recipe") -> None:
        self.hear_of(recipe)
        note(run=str(folder))
        self.console.print(f"going on with {folder}")

    def notice(self, text: str) -> None:
        self.console.print(text)

    def chunk(self, epoch: int, step: int, steps: int, loss: float, samples_per_second: float) -> None:
        fields = {"epoch": epoch, "loss": loss, "speed": self.throughput.shown(samples_per_second)}
        if self.task is None:
            self.task = self.bar.add_task("", total=self.epochs * steps, **fields)
        self.bar.update(self.task, completed=(epoch - 1) * steps + step, **fields)

    def epoch(self, row: "Row") -> None:
        scores = f"test {self.shown(row.test_loss, row.test_accuracy)}"
        if row.val_loss is not None:
            scores += f"  validation {self.shown(row.val_loss, row.val_accuracy)}"
        if row.ema_test_loss is not None:
            scores += f"  averaged: test {self.shown(row.ema_test_loss, row.ema_test_accuracy)}"
        if row.ema_val_loss is not None:
            scores += f"  validation {self.shown(row.ema_val_loss, row.ema_val_accuracy)}"
        self.console.print(f"epoch {row.epoch:3}  loss {row.loss:.4f}  {scores}  {row.time:.1f} s")

    def shown(self, loss: float | None, accuracy: float | None) -> str:
        if accuracy is None:
            return f"loss {loss:.4f}"
        share = f"{100 * accuracy:.2f} %"
        return f"loss {loss:.4f}, {share}" if self.by_loss and loss is not None else share

    def stop_soon(self, number: int = signal.SIGINT, *_: Any) -> None:
        if self.stopping:
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            return  # schedulers may send their signal to several processes
        self.stopping = True
        self.console.print("stopping after this chunk; press Ctrl-C again to stop at once")

    def interrupted(self) -> bool:
        return self.stopping


def length(training: "Training") -> str:
    if training.steps:
        return f"{training.steps:,} steps, scored every {training.score_every:,}"
    return f"{training.epochs} epochs"


def what(recipe: "Recipe") -> str:
    """What its samples are."""
    reads = recipe.model.input.reads
    return {"rows of numbers": "rows", "texts": "sequences"}.get(reads, reads)
