"""Several seeds of one recipe as one compiled program: everything is batched over the seeds by `vmap`."""

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.data.dataset import Dataset, digest
from glassformer.errors import TrainingError
from glassformer.train.engines import settled
from glassformer.train.jax_engine import JaxEngine, State
from glassformer.train.loop import InterruptedRunError, Listener, accuracy, after_epoch, rate_of, result, split
from glassformer.train.not_finite import all_finite
from glassformer.train.recipe import Recipe
from glassformer.train.rng import make_order
from glassformer.train.run_folder import Progress, Row, RunFolder


def train_seeds(
    recipe: Recipe, data: Dataset, path: Path, seeds: tuple[int, ...], listener: Listener
) -> list[dict[str, Any]]:
    """Train all seeds side by side; each gets a run folder `path/seed-N`. Their results, in the order of the seeds."""
    train, validation = split(recipe, data)
    engine = JaxEngine(recipe, train, seeds)
    recipes = [with_seed(settled(recipe, engine), seed) for seed in seeds]
    folders = [RunFolder(path / f"seed-{seed}") for seed in seeds]
    orders = [make_order(recipe.engine.rng, seed) for seed in seeds]
    state = engine.start(jax.tree.map(lambda *leaves: jnp.stack(leaves), *[o.init(recipe.model) for o in orders]))
    progress = [Progress(data_digest=digest(data.train))] * len(seeds)
    for i, own in enumerate(recipes):
        folders[i].create(own)
        folders[i].save_state(one_of(state, i), orders[i].state(), progress[i])
    for epoch in range(1, recipe.training.epochs + 1):
        start = time.monotonic()
        batches = engine.batches([order.shuffled(epoch, engine.count) for order in orders], epoch)
        state, losses = engine.run(state, batches, 0, engine.steps)
        seconds = time.monotonic() - start
        must_be_finite(state, losses, seeds, epoch, path)
        means = losses @ np.asarray(batches.weights).sum(axis=1) / engine.count
        tests = accuracy(engine, state.params, data.test)
        scores = [None] * len(seeds) if validation is None else accuracy(engine, state.params, validation).tolist()
        for i, own in enumerate(recipes):
            if progress[i].done:
                continue
            share = seconds / len(seeds)  # of the one program that trains them all
            row = Row(epoch, float(means[i]), share, float(tests[i]), scores[i], rate_of(recipe, engine, epoch))
            progress[i] = after_epoch(recipe, progress[i], row)
            if progress[i].best_epoch == epoch:
                folders[i].save_model(own, one_of(state, i).params, data.classes, epoch)
            folders[i].save_state(one_of(state, i), orders[i].state(), progress[i])
        listener.epoch(Row(epoch, float(means.mean()), seconds, float(tests.mean()), mean(scores), 0.0))
        if all(p.done for p in progress):
            break
        if listener.interrupted():
            raise InterruptedRunError(
                f"stopped after epoch {epoch} and saved; go on with --resume {folders[0].path}, …"
            )
    results = [result(own, p, f, engine) for own, p, f in zip(recipes, progress, folders, strict=True)]
    for folder, outcome in zip(folders, results, strict=True):
        folder.save_metrics(outcome)
    return results


def must_be_finite(state: State, losses: np.ndarray, seeds: tuple[int, ...], epoch: int, path: Path) -> None:
    for i, seed in enumerate(seeds):
        if not (np.isfinite(losses[i]).all() and all_finite(one_of(state, i).params)):
            raise TrainingError(
                f"seed {seed}: a value is not finite in epoch {epoch}; the last good checkpoints are kept in {path}. "
                f"Train it alone (--seed {seed}) to see the step and the layer, or try a lower learning rate (--lr)"
            )


def one_of(state: State, i: int) -> State:
    return jax.tree.map(lambda leaf: leaf[i], state)


def with_seed(recipe: Recipe, seed: int) -> Recipe:
    return dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, seed=seed))


def mean(scores: Sequence[float | None]) -> float | None:
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else None
