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
from glassformer.lab.compile_time import compile_seconds, making_programs
from glassformer.lab.data_identity import identity
from glassformer.lab.mechanism import mechanism
from glassformer.lab.metric import TIME_TO_TARGET
from glassformer.lab.multiply_adds import multiply_adds
from glassformer.lab.outcome import Chance, chance, judged
from glassformer.lab.record import Record
from glassformer.lab.scoring import Reader, Scoring, of_outputs, of_score, time_to
from glassformer.train.engines import Engine, choose
from glassformer.train.held_out import split
from glassformer.train.recipe import Recipe
from glassformer.train.resolve import load_for, resolved
from glassformer.train.tasks import Task
from glassformer.train.trainer import Trainer

_loaded: dict[Any, Dataset] = {}


def loaded(recipe: Recipe) -> Dataset:
    """Once in each process. What texts become depends on the task, the tokeniser, and how much a model reads."""
    given = recipe.model.input
    context = getattr(given, "context", None)
    form = (recipe.data, identity(recipe.data), given.reads, recipe.task, recipe.tokeniser, recipe.start, context)
    if form not in _loaded:
        _loaded[form] = load_for(recipe, recipe.data)
    return _loaded[form]


def train_one(key: str, recipe: Recipe, scoring: Scoring = Scoring()) -> Record:
    """A record, whatever becomes of the run. Data that is not there is no result: the study stops, and can go on."""
    start = time.monotonic()
    seed = recipe.training.seed
    try:
        return trained(key, resolved(recipe, loaded(recipe)), loaded(recipe), start, scoring)
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        no_memory = isinstance(error, MemoryError) or "memory" in str(error).lower()
        reason = "out of memory" if no_memory else str(error) or type(error).__name__
    except (DataError, FileError):
        raise
    except GlassformerError as error:  # single factors were tried before; two of them may not go together
        reason = f"cannot run: {error}"
    failed = Record(key, seed, failed=reason.splitlines()[0], seconds=time.monotonic() - start, machine=machine())
    return judged(failed, {})


def trained(key: str, recipe: Recipe, data: Dataset, start: float, scoring: Scoring) -> Record:
    train, held_out = split(recipe, data)
    before = compile_seconds()
    with making_programs():
        engine = choose(recipe, train, lambda _: None)
    cells = Cells([recipe], engine, held_out, scoring)
    cells.start()
    cells.run()
    times = [time.monotonic() - start], [compile_seconds() - before]
    (outcome,) = cells.outcomes([key], [0], data.test, *times)
    return looked_into(outcome, train if held_out is None else held_out)


class Outcome(NamedTuple):
    """A run that is over, before anybody has looked into the trained model."""

    record: Record
    recipe: Recipe
    params: Any


def looked_into(outcome: Outcome, samples: Any) -> Record:
    record, recipe, params = outcome
    if record.failed:
        return record
    cost = multiply_adds(recipe, samples)
    return replace(record, inside=mechanism(recipe, params, samples), multiply_adds=cost)


class Cells(Trainer):
    """Runs without a folder: what comes of each is a record. A run that fails leaves the others alone."""

    def __init__(
        self, recipes: Sequence[Recipe], engine: Engine, held_out: Any | None, scoring: Scoring = Scoring()
    ) -> None:
        super().__init__(recipes, engine)
        self.held_out, self.scoring = held_out, scoring
        self.losses: list[np.ndarray] = []  # of each epoch, one for each run
        self.scores: list[dict[str, np.ndarray]] = []  # of each epoch, by metric, on validation
        self.failed_in = np.zeros(len(recipes), int)  # the epoch; 0: none
        self.reader = Reader(recipes[0], bool(recipes[1:])) if scoring.metrics else None

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
            self.scores.append(self.scored(self.kept(), self.held_out))

    def kept(self) -> Any:
        """Of each run the averaged weights, where there are any and validation data shows the last to be no better."""
        params, ema = self.state.params, self.state.ema
        if ema is None or self.held_out is None:
            return params if ema is None else ema
        better = self.goodness(params) > self.goodness(ema)
        if not self.recipes[1:]:
            return params if better[0] else ema

        def pick(last: Any, average: Any) -> Any:
            return jnp.where(better.reshape(-1, *(1,) * (last.ndim - 1)), last, average)

        return jax.tree.map(pick, params, ema)

    def goodness(self, params: Any) -> np.ndarray:
        score = self.engine.score(params, self.held_out)
        return np.atleast_1d(-np.asarray(score.loss) if self.recipes[0].task.by_loss else score.accuracy)

    def scored(self, params: Any, samples: Any) -> dict[str, np.ndarray]:
        """By metric, one number for each run; nan for outputs of one that failed."""
        found = of_score(self.recipes[0], self.engine.score(params, samples))
        if self.reader is None:
            return found
        seen = self.reader.read(params, samples)
        each = [
            of_outputs(self.scoring.metrics, one) if not bad else {}
            for one, bad in zip(seen, self.failed_in, strict=True)
        ]
        return {**found, **{name: np.array([one.get(name, np.nan) for one in each]) for name in self.scoring.metrics}}

    def outcomes(
        self,
        keys: Sequence[str],
        runs: Sequence[int],
        test: Any,
        seconds: Sequence[float],
        compiling: Sequence[float],
    ) -> list[Outcome]:
        """Of these runs, which are over."""
        kept = self.kept()
        tests = {} if self.failed_in.all() else self.scored(kept, test)
        here, known = jax.device_get(kept), self.chances(test)
        outcomes = []
        for i in runs:
            recipe, own, failed = self.recipes[i], self.one(here, i), int(self.failed_in[i])
            epochs = failed - 1 if failed else self.epoch
            curves = self.curves(i, epochs)
            at_end = {} if failed else {name: float(values[i]) for name, values in tests.items()}
            if self.scoring.reached and not failed:
                metric, _ = self.scoring.reached
                curve = curves.get(metric) or ()
                taken = time_to(self.scoring.reached, curve, seconds[i] - compiling[i])
                curves, at_end = with_time(curves, at_end, taken)
            record = Record(
                key=keys[i],
                seed=recipe.training.seed,
                failed=f"not finite in epoch {failed}" if failed else "",
                loss=tuple(float(loss[i]) for loss in self.losses[:epochs]),
                validation=curves.get("accuracy", ()),
                test=at_end.get("accuracy"),
                steps=self.engine.steps * epochs,
                seconds=seconds[i],
                parameters=sum(leaf.size for leaf in jax.tree.leaves(own)),
                engine=self.engine.name,
                machine=machine(),
                scores=curves,
                test_scores=at_end,
                compile_seconds=compiling[i],
            )
            outcomes.append(Outcome(judged(record, known), recipe, own))
        return outcomes

    def curves(self, run: int, epochs: int) -> dict[str, tuple[float, ...]]:
        """Of one run, by metric."""
        names = self.scores[0] if self.scores else ()
        return {name: tuple(float(one[name][run]) for one in self.scores[:epochs]) for name in names}

    def chances(self, test: Any) -> dict[str, Chance]:
        parts = {"validation": self.held_out, "test": test}
        return {name: chance_on(self.recipes[0].task, part) for name, part in parts.items() if part is not None}


def with_time(curves: dict[str, Any], at_end: dict[str, float], seconds: float | None) -> tuple[Any, Any]:
    """What is timed has one value for a run, on validation and in the end; none where the target was never reached."""
    if seconds is None:
        return curves, at_end
    name = TIME_TO_TARGET.name
    return {**curves, name: (seconds,)}, {**at_end, name: seconds}


_chances: dict[int, tuple[Any, Chance]] = {}


def chance_on(task: Task, samples: Any) -> Chance:
    """Once for the same samples in a process."""
    if id(samples) not in _chances:
        _chances[id(samples)] = samples, chance(task, samples)
    return _chances[id(samples)][1]


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
