"""One cell with one seed, trained without a run folder: what comes of it is one record.

The test set is read once, when all is over. A run that fails (a value that is not finite, no memory left) is a result,
too.
"""

import os
import platform
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.data.dataset import Dataset
from glassformer.errors import DataError, FileError, GlassformerError
from glassformer.lab.mechanism import mechanism
from glassformer.lab.record import Record
from glassformer.train.engines import Engine, choose
from glassformer.train.loop import Trainer, split
from glassformer.train.recipe import Recipe
from glassformer.train.resolve import load_for, resolved

_loaded: dict[Any, Dataset] = {}


def loaded(recipe: Recipe) -> Dataset:
    """Once in each process. What texts become depends on the task, the tokeniser, and how much a model reads."""
    given = recipe.model.input
    context = getattr(given, "context", None)
    form = (recipe.data, given.reads, recipe.task, recipe.tokeniser, recipe.start, context)
    if form not in _loaded:
        _loaded[form] = load_for(recipe, recipe.data)
    return _loaded[form]


def train_one(key: str, recipe: Recipe) -> Record:
    """A record, whatever becomes of the run. Data that is not there is no result: the study stops, and can go on."""
    start = time.monotonic()
    seed = recipe.training.seed
    try:
        return trained(key, resolved(recipe, loaded(recipe)), loaded(recipe), start)
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        no_memory = isinstance(error, MemoryError) or "memory" in str(error).lower()
        reason = "out of memory" if no_memory else str(error) or type(error).__name__
    except (DataError, FileError):
        raise
    except GlassformerError as error:  # single factors were tried before; two of them may not go together
        reason = f"cannot run: {error}"
    return Record(key, seed, failed=reason.splitlines()[0], seconds=time.monotonic() - start, machine=machine())


def trained(key: str, recipe: Recipe, data: Dataset, start: float) -> Record:
    train, held_out = split(recipe, data)
    cells = Cells([recipe], choose(recipe, train, lambda _: None), held_out)
    cells.start()
    cells.run()
    (outcome,) = cells.outcomes([key], [0], data.test, [time.monotonic() - start])
    return looked_into(outcome, train if held_out is None else held_out)


class Outcome(NamedTuple):
    """A run that is over, before anybody has looked into the trained model."""

    record: Record
    recipe: Recipe
    params: Any


def looked_into(outcome: Outcome, samples: Any) -> Record:
    record, recipe, params = outcome
    return record if record.failed else replace(record, inside=mechanism(recipe, params, samples))


class Cells(Trainer):
    """Runs without a folder: what comes of each is a record. A run that fails leaves the others alone."""

    def __init__(self, recipes: Sequence[Recipe], engine: Engine, held_out: Any | None) -> None:
        super().__init__(recipes, engine)
        self.held_out = held_out
        self.losses: list[np.ndarray] = []  # of each epoch, one for each run
        self.validation: list[np.ndarray] = []
        self.failed_in = np.zeros(len(recipes), int)  # the epoch; 0: none

    @property
    def done(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.epoch >= max(recipe.training.epochs for recipe in self.recipes) or bool(self.failed_in.all())

    def run_chunk(self, batches: Any) -> None:
        losses = self.take_steps(batches, self.engine.steps)
        fails_now = (self.failed_in == 0) & ~self.finite(losses)
        self.failed_in = np.where(fails_now, self.epoch + 1, self.failed_in)
        self.losses.append(losses.mean(axis=1))

    def end_epoch(self) -> None:
        if self.held_out is not None and not self.failed_in.all():
            self.validation.append(self.accuracies(self.kept(), self.held_out))

    def kept(self) -> Any:
        """Of each run the averaged weights, where there are any and validation data shows the last to be no better."""
        params, ema = self.state.params, self.state.ema
        if ema is None or self.held_out is None:
            return params if ema is None else ema
        better = self.accuracies(params, self.held_out) > self.accuracies(ema, self.held_out)
        if not self.recipes[1:]:
            return params if better[0] else ema

        def pick(last: Any, average: Any) -> Any:
            return jnp.where(better.reshape(-1, *(1,) * (last.ndim - 1)), last, average)

        return jax.tree.map(pick, params, ema)

    def accuracies(self, params: Any, samples: Any) -> np.ndarray:
        return np.atleast_1d(self.engine.score(params, samples).accuracy)

    def outcomes(self, keys: Sequence[str], runs: Sequence[int], test: Any, seconds: Sequence[float]) -> list[Outcome]:
        """Of these runs, which are over."""
        kept = self.kept()
        tests = None if self.failed_in.all() else self.accuracies(kept, test)
        here = jax.device_get(kept)
        outcomes = []
        for i in runs:
            recipe, own, failed = self.recipes[i], self.one(here, i), int(self.failed_in[i])
            epochs = failed - 1 if failed else self.epoch
            record = Record(
                key=keys[i],
                seed=recipe.training.seed,
                failed=f"not finite in epoch {failed}" if failed else "",
                loss=tuple(float(loss[i]) for loss in self.losses[:epochs]),
                validation=tuple(float(score[i]) for score in self.validation[:epochs]),
                test=None if failed or tests is None else float(tests[i]),
                steps=self.engine.steps * epochs,
                seconds=seconds[i],
                parameters=sum(leaf.size for leaf in jax.tree.leaves(own)),
                engine=self.engine.name,
                machine=machine(),
            )
            outcomes.append(Outcome(record, recipe, own))
        return outcomes


def machine() -> str:
    """What computes, not what it is called: "NVIDIA H200"; "AMD EPYC 9454, 2 cores"."""
    device = jax.devices()[0]
    if device.platform != "cpu":
        return device.device_kind
    return (
        f"{processor()}, {len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()} cores"
    )


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith("model name")).partition(":")[2].strip()
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
