"""The training of a run, from its first weights, or from where its folder says it stands, to its end.

Epochs are cut into chunks, scored, logged and saved; interrupted, a run resumes exactly.
"""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.data.dataset import Dataset, digest
from glassformer.errors import CheckpointError, TrainingError
from glassformer.layers.attend import Attend
from glassformer.models.stack import unstacked
from glassformer.structure import structure
from glassformer.train import hosts
from glassformer.train.background_writer import BackgroundWriter
from glassformer.train.best_epoch import after_epoch
from glassformer.train.engines import Engine, choose, jax_engine, settled
from glassformer.train.held_out import split
from glassformer.train.jax_engine import State
from glassformer.train.limits import bytes_of
from glassformer.train.listener import InterruptedRunError, Listener
from glassformer.train.nan_report import explain, finite_on_device
from glassformer.train.outcome import result
from glassformer.train.recipe import Recipe, with_seed
from glassformer.train.run_folder import RECIPE, STATE, Progress, Row, RunFolder, progress_of
from glassformer.train.sharded_state import STATES, ShardedStates, of_json, steps_of, to_json
from glassformer.train.trainer import Trainer, stacked

CHUNK_SECONDS = 0.5  # how long a chunk should take: progress shows, and Ctrl-C is heard
LARGE = 1 << 28  # bytes: a state that is written while training goes on, and not copied to be looked at again
SAVE_SECONDS = 60.0  # between saves within an epoch; at its end the state is always saved


class Loop(Trainer):
    """A run from its first weights, or from where its folder says it stands, to its end.

    With `seeds` several, trained together: each has a folder of its own, `seed-N`. `root` is what is resumed if it is
    not the folder: that of several seeds, of which this is one.
    """

    def __init__(
        self,
        recipe: Recipe,
        data: Dataset,
        folder: RunFolder,
        listener: Listener,
        seeds: tuple[int, ...] = (),
        root: Path | None = None,
    ) -> None:
        train, self.validation = split(recipe, data)
        engine = jax_engine(recipe, train, seeds) if seeds else choose(recipe, train, listener.notice)
        recipe = settled(recipe, engine)
        for line in stand_ins(recipe):
            listener.notice(line)
        super().__init__([with_seed(recipe, seed) for seed in seeds] or [recipe], engine)
        self.folder, self.listener, self.data, self.root = folder, listener, data, root or folder.path
        self.folders = [folder.of_seed(seed) for seed in seeds] or [folder]
        begun = Progress(data_digest=digest(data.train), rounding=engine.rounding)
        self.progress = [begun] * len(self.folders)
        self.loss_sum, self.seconds = np.zeros(len(self.folders)), 0.0  # of the epoch under way
        self.steps_at_once = 8  # of a chunk; found out while running
        self.saved = time.monotonic()
        self.writer = BackgroundWriter()
        self.states: ShardedStates | None = None  # of a run on a mesh, from its beginning on

    @property
    def is_large(self) -> bool:
        return bytes_of(self.state) > LARGE

    def begin(self) -> None:
        self.start()  # first: it may refuse the recipe
        self.open_states()
        for recipe, folder in zip(self.recipes, self.folders, strict=True):
            folder.create(recipe)
            if self.data.tokeniser is not None:
                folder.save_tokeniser(self.data.tokeniser)
        hosts.must_see(self.folders[0].path / RECIPE)
        self.save(self.active)

    def open_states(self) -> None:
        if self.recipes[0].engine.mesh:
            self.states = ShardedStates(self.folder.path)

    def resume(self) -> None:
        init = self.recipes[0].network.init
        like = jax.eval_shape(
            lambda key: self.engine.start(stacked([init(key)] * len(self.folders))), jax.random.key(0)
        )
        self.open_states()
        of_one_device = (self.folder.path / STATE).exists() or not steps_of(self.folder.path)
        if of_one_device:  # where there are both, it is the later one
            state, random_states, progress = self.folder.load_states(unstacked(like), len(self.folders))
            self.state = self.engine.place(state)
        else:
            random_states, progress = self.load_sharded(like)
        if progress[0].data_digest not in ("", self.progress[0].data_digest):
            raise CheckpointError(
                f"{self.folder.path}: the training data of {self.recipes[0].data} is not what the run was "
                "begun with, so it cannot go on; bring the old data back, or train anew into another folder"
            )
        if progress[0].rounding != self.engine.rounding:
            self.listener.notice(
                f"the {self.engine.name} engine rounds otherwise than when this run was begun; it goes on"
            )
            progress = [dataclasses.replace(one, rounding=self.engine.rounding) for one in progress]
        last = max(progress, key=lambda one: (one.epoch, one.step))  # others may have been done before
        self.progress, self.epoch, self.step = progress, last.epoch, last.step
        self.loss_sum = np.array([one.loss_sum for one in progress])
        self.seconds = last.seconds * len(self.folders)
        for order, random_state in zip(self.orders, random_states, strict=True):
            order.restore(random_state)
        if self.states and of_one_device:
            self.save(self.active)
            self.states.wait()
            self.folder.remove_state()
        elif self.epoch and not self.step and not of_one_device and progress[0].best_epoch == self.epoch:
            self.keep(0)  # it may have been killed while these weights were written
        if self.folders[1:]:  # killed between the state of all and those of each
            self.save([i for i, one in enumerate(progress) if (one.epoch, one.step) == (last.epoch, last.step)])

    def load_sharded(self, like: State) -> tuple[list[dict[str, np.ndarray]], list[Progress]]:
        """A state that was saved on a mesh, onto this one or onto one device."""
        placement, path = self.recipes[0].placement, self.folder.path / STATES
        here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
        shardings = jax.tree.map(lambda _: here, like) if placement is None else placement.shardings(like)
        placed = jax.tree.map(
            lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place), like, shardings
        )
        self.state, about = (self.states or ShardedStates(self.folder.path)).load(placed, self.listener.notice)
        if not finite_on_device(self.state.params):
            raise CheckpointError(
                f"{path}: holds weights that are not finite (NaN or infinite); bring back a good copy"
            )
        return [of_json(about.get("order"), path)], [progress_of(about.get("progress"), path)]

    @property
    def done(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return not self.active

    @property
    def active(self) -> list[int]:
        """The runs that are not done."""
        return [i for i, progress in enumerate(self.progress) if not progress.done]

    def run_chunk(self, batches: Any) -> None:
        first, epoch, batch = self.step, self.epoch + 1, self.recipes[0].training.samples_of_update
        again = not self.recipes[1:] and not self.is_large and hosts.count() == 1
        before = jax.tree.map(lambda leaf: leaf.copy(), self.state) if again else None  # it is given away
        start = time.monotonic()
        block = self.engine.block  # it is left at the same steps by a run that is interrupted and by one that is not
        losses = self.take_steps(batches, min(-(-(first + self.steps_at_once) // block) * block, self.engine.steps))
        seconds = time.monotonic() - start
        finite = self.finite(losses)
        if not finite.all():
            good = first + int(np.isfinite(losses[0]).cumprod().sum())
            raise TrainingError(
                self.is_not_finite(int(finite.argmin()), good)
                if before is None
                else explain(self.engine, before, batches, first, good, epoch, self.folder.path)
            )
        counts = np.minimum(self.engine.count - np.arange(first, self.step) * batch, batch)
        self.loss_sum, self.seconds = self.loss_sum + losses @ counts, self.seconds + seconds
        taken = self.step - first
        wanted = 4 * CHUNK_SECONDS if self.is_large else CHUNK_SECONDS  # at its end a device waits for the host
        self.steps_at_once = max(1, min(4 * taken, round(taken * wanted / max(seconds, 1e-9))))
        mean = float(self.loss_sum.mean()) / min(self.step * batch, self.engine.count)
        speed = len(self.folders) * counts.sum() / max(seconds, 1e-9)
        self.listener.chunk(epoch, self.step, self.engine.steps, mean, speed)
        asked = self.listener.interrupted(), time.monotonic() - self.saved > SAVE_SECONDS, self.steps_at_once
        stops, saves, steps = hosts.of_all(asked).T  # all hosts do the same, and the first one looks at the clock
        self.steps_at_once = int(steps[0])
        if self.step < self.engine.steps:
            if stops.any():
                self.save(self.active)
                self.wait()
                raise InterruptedRunError(f"stopped in epoch {epoch} and saved; {self.how_to_go_on}")
            if saves[0]:
                self.save(self.active)

    def is_not_finite(self, i: int, good: int) -> str:
        seed = self.recipes[i].training.seed
        if not self.recipes[1:]:
            return (
                f"after step {good} of epoch {self.epoch + 1} a value is not finite; the last good checkpoint is kept "
                f"in {self.folder.path}; try a lower learning rate (--lr) or clipping (--set optimiser.clip=1)"
            )
        return (
            f"seed {seed}: a value is not finite in epoch {self.epoch + 1}; the last good checkpoints are kept in "
            f"{self.folder.path}. Train it alone (--seed {seed}) to see the step and the layer, or try a lower "
            "learning rate (--lr)"
        )

    @property
    def how_to_go_on(self) -> str:
        return f"go on with --resume {self.root}"

    def end_epoch(self) -> None:
        params, recipe, active = self.state.params, self.recipes[0], self.active
        scores = [
            (None, None) if weights is None or samples is None else self.engine.score(weights, samples)
            for weights in (params, self.state.ema)
            for samples in (self.data.test, self.validation)
        ]
        losses, lr = self.loss_sum / self.engine.count, rate_of(recipe, self.engine, self.epoch)

        def row(of: Callable[[np.ndarray], Any], seconds: float) -> Row:
            values = [None if value is None else float(of(np.atleast_1d(value))) for score in scores for value in score]
            accuracy, loss, val_accuracy, val_loss, *ema = values
            return Row(
                self.epoch,
                float(of(losses)),
                seconds,
                accuracy,
                val_accuracy,
                lr,
                loss,
                val_loss,
                *ema[::2],
                *ema[1::2],
            )

        share = self.seconds / len(self.folders)  # of the one program that trains them all
        mean = row(np.mean, self.seconds)
        self.loss_sum, self.seconds = np.zeros(len(self.folders)), 0.0
        for i in active:
            self.progress[i] = after_epoch(recipe, self.progress[i], row(lambda values, i=i: values[i], share))
            if self.progress[i].best_epoch == self.epoch:  # before the state: killed in between, the epoch is repeated
                self.keep(i)
        self.save(active)
        self.listener.epoch(mean)
        if hosts.of_all(self.listener.interrupted()).any() and not self.done:
            self.wait()
            raise InterruptedRunError(f"stopped after epoch {self.epoch} and saved; {self.how_to_go_on}")

    def keep(self, i: int) -> None:
        """The weights of a run as its model."""
        averaged = self.progress[i].best.keeps_average(by_loss=self.recipes[i].task.by_loss)
        kept = hosts.whole(self.one(self.state.ema if averaged else self.state.params, i))
        self.write(self.folders[i].save_tuned, self.recipes[i], kept, self.data.classes, self.epoch)

    def save(self, runs: list[int]) -> None:
        for i in runs:
            self.progress[i] = dataclasses.replace(
                self.progress[i],
                step=self.step,
                loss_sum=float(self.loss_sum[i]),
                seconds=self.seconds / len(self.folders),
            )
        orders = [order.state() for order in self.orders]
        self.saved = time.monotonic()
        if self.states:
            self.save_sharded(self.states, orders[0])
            return
        here = jax.device_get(self.state)  # once for all runs, not leaf by leaf
        if self.folders[1:]:  # first, and in one file: they go on together, from the same step
            self.folder.save_states(here, orders, self.progress)
        for i in runs:
            self.write(self.folders[i].save_state, self.one(here, i), orders[i], self.progress[i])

    def save_sharded(self, states: ShardedStates, order: dict[str, np.ndarray]) -> None:
        if self.step:  # at the end of an epoch the weights to keep are in the state, too
            self.writer.wait()
        self.folder.save_log(self.progress[0].rows)
        about = {"progress": dataclasses.asdict(self.progress[0]), "order": to_json(order)}
        states.save(self.epoch * self.engine.steps + self.step, self.state, about)

    def wait(self) -> None:
        """Until all is written."""
        self.writer.wait()
        if self.states:
            self.states.wait()

    def write(self, save: Callable[..., None], *content: Any) -> None:
        """Now; of what is large, while training goes on."""
        if self.is_large:
            self.writer.put(save, *content)
        else:
            save(*content)

    def finish(self) -> list[dict[str, Any]]:
        """To the end: the result of each run."""
        self.run()
        self.wait()
        runs = zip(self.recipes, self.progress, self.folders, strict=True)
        results = [result(*run, self.engine) for run in runs]
        for folder, outcome in zip(self.folders, results, strict=True):
            folder.save_metrics(outcome)
        if not self.folders[1:]:
            self.folder.save_curves(self.progress[0].rows)
        return results


def stand_ins(recipe: Recipe) -> list[str]:
    """A line for each way to attend that this machine does not have."""
    if recipe.engine.name != "jax":
        return []
    dtype = jnp.bfloat16 if recipe.engine.precision == "bf16" else jnp.float32
    nodes = structure(recipe.model).walk()
    lines = {node.layer.instead(dtype, node.x.q.shape[-1]) for node in nodes if isinstance(node.layer, Attend)}
    return sorted(lines - {""})


def rate_of(recipe: Recipe, engine: Engine, epoch: int) -> float:
    """The learning rate of an epoch's last step."""
    rate = recipe.optimiser.schedule.rate(recipe.optimiser.lr, engine.steps, recipe.training.epochs)
    return float(np.asarray(rate(epoch * engine.steps - 1)))
