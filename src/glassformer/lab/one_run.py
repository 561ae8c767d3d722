"""One cell with one seed, trained without a run folder: what comes of it is one record.

The test set is read once, when all is over. A run that fails (a value that is not finite, no memory left) is a result,
too.
"""

import os
import platform
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from glassformer.data.dataset import Dataset
from glassformer.errors import DataError, FileError, GlassformerError
from glassformer.lab.mechanism import mechanism
from glassformer.lab.record import Record
from glassformer.train.engines import choose
from glassformer.train.loop import split
from glassformer.train.nan_report import all_finite
from glassformer.train.recipe import Recipe
from glassformer.train.resolve import load_for, resolved
from glassformer.train.rng import make_order
from glassformer.train.warm_start import warm_start

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
    engine = choose(recipe, train, lambda _: None)
    order = make_order(recipe.engine.rng, recipe.training.seed)
    state = engine.start(warm_start(recipe, order.init(recipe.model)))
    losses: list[float] = []
    validation: list[float] = []
    failed = ""
    for epoch in range(1, recipe.training.epochs + 1):
        batches = engine.batches([order.shuffled(epoch, engine.total)[: engine.count]], epoch)
        state, steps = engine.run(state, batches, 0, engine.steps)
        if not (np.isfinite(steps).all() and all_finite(state.params)):
            failed = f"not finite in epoch {epoch}"
            break
        losses.append(float(steps.mean()))
        if held_out is not None:
            validation.append(engine.score(state.params, held_out).accuracy)
    return Record(
        key=key,
        seed=recipe.training.seed,
        failed=failed,
        loss=tuple(losses),
        validation=tuple(validation),
        test=None if failed else engine.score(state.params, data.test).accuracy,
        steps=engine.steps * len(losses),
        seconds=time.monotonic() - start,
        parameters=sum(leaf.size for leaf in jax.tree.leaves(state.params)),
        engine=engine.name,
        machine=machine(),
        inside={} if failed else mechanism(recipe, state.params, train if held_out is None else held_out),
    )


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
