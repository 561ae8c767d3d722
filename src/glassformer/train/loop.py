"""The training loop: epochs cut into stretches, scored, logged and saved; interrupted, it resumes exactly."""

import dataclasses
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.data.dataset import Dataset, cut, digest, hold_out
from glassformer.errors import CheckpointError, TrainingError
from glassformer.train.engines import Engine, choose, settled
from glassformer.train.nan_report import all_finite, explain
from glassformer.train.recipe import Recipe
from glassformer.train.rng import make_order
from glassformer.train.run_folder import Progress, Row, RunFolder
from glassformer.train.warm_start import warm_start

STRETCH_SECONDS = 0.5  # how long a stretch should take: progress shows, and Ctrl-C is heard
SAVE_SECONDS = 60.0  # between saves within an epoch; at its end the state is always saved


class Listener:
    """Told how training goes. This one keeps quiet; the command line draws bars."""

    def notice(self, text: str) -> None: ...
    def stretch(self, epoch: int, step: int, steps: int, loss: float, samples_per_second: float) -> None: ...
    def epoch(self, row: Row) -> None: ...
    def interrupted(self) -> bool:
        """True: stop after this stretch and save."""
        return False


class InterruptedRunError(TrainingError):
    """Training was asked to stop; everything so far is saved."""


class Loop:
    """One run from its first weights, or from where its folder says it stands, to its end."""

    def __init__(self, recipe: Recipe, data: Dataset, folder: RunFolder, listener: Listener) -> None:
        self.folder, self.listener, self.test = folder, listener, data.test
        self.classes, self.tokeniser = data.classes, data.tokeniser
        self.train, self.validation = split(recipe, data)
        self.order = make_order(recipe.engine.rng, recipe.training.seed)
        self.engine = choose(recipe, self.train, listener.notice)
        self.recipe = settled(recipe, self.engine)
        self.progress = Progress(data_digest=digest(data.train))
        self.steps_at_once = 8  # of a stretch; found out while running

    def begin(self) -> None:
        params = warm_start(self.recipe, self.order.init(self.recipe.model))
        self.state = self.engine.start(params)  # first: it may refuse the recipe
        self.folder.create(self.recipe)
        if self.tokeniser is not None:
            self.folder.save_tokeniser(self.tokeniser)
        self.save()

    def resume(self) -> None:
        like = jax.eval_shape(lambda key: self.engine.start(self.recipe.model.init(key)), jax.random.key(0))
        state, random_state, progress = self.folder.load_state(like)
        if progress.data_digest not in ("", self.progress.data_digest):
            raise CheckpointError(
                f"{self.folder.path}: the training data of {self.recipe.data} is not what the run was "
                "begun with, so it cannot go on; bring the old data back, or train anew into another folder"
            )
        self.progress = progress
        self.order.restore(random_state)
        self.state = jax.tree.map(jnp.asarray, state)

    def run(self) -> Progress:
        while not self.progress.done:
            self.run_epoch()
        return self.progress

    def run_epoch(self) -> None:
        epoch = self.progress.epoch + 1
        fresh = self.progress.step == 0
        order = self.order.shuffled(epoch, self.engine.total) if fresh else self.order.current(epoch, self.engine.total)
        batches = self.engine.batches([order[: self.engine.count]], epoch)
        saved = time.monotonic()
        while self.progress.step < self.engine.steps:
            self.run_stretch(batches, epoch)
            finished = self.progress.step == self.engine.steps
            if self.listener.interrupted() and not finished:
                self.save()
                raise InterruptedRunError(f"stopped in epoch {epoch} and saved; go on with --resume {self.folder.path}")
            if time.monotonic() - saved > SAVE_SECONDS and not finished:
                self.save()
                saved = time.monotonic()
        self.finish_epoch(epoch)
        if self.listener.interrupted() and not self.progress.done:
            raise InterruptedRunError(f"stopped after epoch {epoch} and saved; go on with --resume {self.folder.path}")

    def run_stretch(self, batches: Any, epoch: int) -> None:
        first = self.progress.step
        last = min(first + self.steps_at_once, self.engine.steps)
        before = jax.tree.map(lambda leaf: leaf.copy(), self.state)  # the jax engine gives the state itself away
        start = time.monotonic()
        self.state, losses = self.engine.run(self.state, batches, first, last)
        seconds = time.monotonic() - start
        good = first + int(np.isfinite(losses).cumprod().sum())
        if good < last or not all_finite(self.state.params):
            raise TrainingError(explain(self.engine, before, batches, first, good, epoch, self.folder.path))
        batch = self.recipe.training.batch
        counts = np.minimum(self.engine.count - np.arange(first, last) * batch, batch)
        self.progress = dataclasses.replace(
            self.progress,
            step=last,
            loss_sum=self.progress.loss_sum + float(losses @ counts),
            seconds=self.progress.seconds + seconds,
        )
        self.steps_at_once = max(
            1, min(4 * (last - first), round((last - first) * STRETCH_SECONDS / max(seconds, 1e-9)))
        )
        mean = self.progress.loss_sum / min(last * batch, self.engine.count)
        self.listener.stretch(epoch, last, self.engine.steps, mean, counts.sum() / max(seconds, 1e-9))

    def finish_epoch(self, epoch: int) -> None:
        test = self.engine.score(self.state.params, self.test)
        held_out = None if self.validation is None else self.engine.score(self.state.params, self.validation)
        row = Row(
            epoch=epoch,
            loss=self.progress.loss_sum / self.engine.count,
            time=self.progress.seconds,
            test_accuracy=test.accuracy,
            val_accuracy=None if held_out is None else held_out.accuracy,
            lr=rate_of(self.recipe, self.engine, epoch),
            test_loss=test.loss,
            val_loss=None if held_out is None else held_out.loss,
        )
        self.progress = after_epoch(self.recipe, self.progress, row)
        if self.progress.best_epoch == epoch:  # before the state: killed in between, the epoch is simply repeated
            self.folder.save_model(self.recipe, self.state.params, self.classes, epoch)
        self.save()
        self.listener.epoch(row)

    def save(self) -> None:
        self.folder.save_state(self.state, self.order.state(), self.progress)


def split(recipe: Recipe, data: Dataset) -> tuple[Any, Any | None]:
    """What is trained on, and what is held out to choose by."""
    share, subset = recipe.validation.share, recipe.training.subset
    train, held_out = hold_out(data.train, share) if share else (data.train, None)
    return (cut(train, slice(subset)) if subset else train), held_out


def rate_of(recipe: Recipe, engine: Engine, epoch: int) -> float:
    """The learning rate of an epoch's last step."""
    rate = recipe.optimiser.schedule.rate(recipe.optimiser.lr, engine.steps, recipe.training.epochs)
    return float(np.asarray(rate(epoch * engine.steps - 1)))


def after_epoch(recipe: Recipe, progress: Progress, row: Row) -> Progress:
    """Where the run stands when an epoch is over: which epoch is the best so far, and whether to stop."""
    rows = (*progress.rows, row)
    best_epoch = best(rows, recipe.validation.min_delta, by_loss=recipe.task.by_loss)
    patience = recipe.validation.patience
    out_of_patience = bool(patience and row.epoch - best_epoch >= patience)
    done = row.epoch >= recipe.training.epochs or out_of_patience
    return Progress(epoch=row.epoch, best_epoch=best_epoch, rows=rows, done=done, data_digest=progress.data_digest)


def best(rows: tuple[Row, ...], min_delta: float, *, by_loss: bool = False) -> int:
    """The epoch to keep: a later one must beat it by more than `min_delta` points. Without scores, the last."""
    if goodness(rows[-1], by_loss) is None:
        return rows[-1].epoch
    kept = rows[0]
    for row in rows[1:]:
        if 100 * ((goodness(row, by_loss) or 0) - (goodness(kept, by_loss) or 0)) > min_delta:
            kept = row
    return kept.epoch


def goodness(row: Row, by_loss: bool) -> float | None:
    if not by_loss:
        return row.val_accuracy
    return None if row.val_loss is None else -row.val_loss


def result(recipe: Recipe, progress: Progress, folder: RunFolder, engine: Engine) -> dict[str, Any]:
    """The outcome of a run, as `--json` prints it. Scores are those of the weights that were kept."""
    params = jax.eval_shape(recipe.model.init, jax.random.key(0))
    return {
        "test_accuracy": progress.best.test_accuracy,
        "val_accuracy": progress.best.val_accuracy,
        "test_loss": progress.best.test_loss,
        "val_loss": progress.best.val_loss,
        "loss": progress.rows[-1].loss,
        "epochs": progress.epoch,
        "best_epoch": progress.best_epoch,
        "train_seconds": sum(row.time for row in progress.rows),
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(params)),
        "task": recipe.task.name,
        "engine": engine.name,
        "seed": recipe.training.seed,
        "run": str(folder.path),
    }
