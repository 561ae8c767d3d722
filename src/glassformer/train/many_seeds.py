"""Several seeds of one recipe as one compiled program: everything is batched over the seeds by `vmap`."""

import dataclasses
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.data.dataset import Dataset, digest
from glassformer.errors import TrainingError
from glassformer.train.engines import settled
from glassformer.train.jax_engine import JaxEngine, State
from glassformer.train.loop import InterruptedRunError, Listener, after_epoch, rate_of, result, split
from glassformer.train.nan_report import all_finite
from glassformer.train.recipe import Recipe
from glassformer.train.rng import make_order
from glassformer.train.run_folder import Progress, Row, RunFolder
from glassformer.train.score import Score
from glassformer.train.warm_start import warm_start


def train_seeds(
    recipe: Recipe, data: Dataset, path: Path, seeds: tuple[int, ...], listener: Listener
) -> list[dict[str, Any]]:
    """Train all seeds side by side; each gets a run folder `path/seed-N`. Their results, in the order of the seeds."""
    train, validation = split(recipe, data)
    engine = JaxEngine(recipe, train, seeds)
    recipes = [with_seed(settled(recipe, engine), seed) for seed in seeds]
    folders = [RunFolder(path / f"seed-{seed}") for seed in seeds]
    orders = [make_order(recipe.engine.rng, seed) for seed in seeds]
    first = [warm_start(recipe, order.init(recipe.model)) for order in orders]
    state = engine.start(jax.tree.map(lambda *leaves: jnp.stack(leaves), *first))
    progress = [Progress(data_digest=digest(data.train))] * len(seeds)
    for i, own in enumerate(recipes):
        folders[i].create(own)
        if data.tokeniser is not None:
            folders[i].save_tokeniser(data.tokeniser)
        folders[i].save_state(one_of(state, i), orders[i].state(), progress[i])
    for epoch in range(1, recipe.training.epochs + 1):
        start = time.monotonic()
        batches = engine.batches([order.shuffled(epoch, engine.total)[: engine.count] for order in orders], epoch)
        state, losses = engine.run(state, batches, 0, engine.steps)
        seconds = time.monotonic() - start
        here = jax.device_get(state)  # once for all seeds, not leaf by leaf
        must_be_finite(here, losses, seeds, epoch, path)
        means = losses @ np.asarray(batches.weights).sum(axis=1) / engine.count
        tests = engine.score(state.params, data.test)
        held_out = None if validation is None else engine.score(state.params, validation)
        for i, own in enumerate(recipes):
            if progress[i].done:
                continue
            share = seconds / len(seeds)  # of the one program that trains them all
            row = row_of(epoch, float(means[i]), share, one_of(tests, i), one_of(held_out, i))
            row = dataclasses.replace(row, lr=rate_of(recipe, engine, epoch))
            progress[i] = after_epoch(recipe, progress[i], row)
            if progress[i].best_epoch == epoch:
                folders[i].save_model(own, one_of(here, i).params, data.classes, epoch)
            folders[i].save_state(one_of(here, i), orders[i].state(), progress[i])
        together = [None if score is None else Score(*map(np.mean, score)) for score in (tests, held_out)]
        listener.epoch(row_of(epoch, float(means.mean()), seconds, *together))
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


def one_of(tree: Any, i: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[i], tree)


def row_of(epoch: int, loss: float, seconds: float, test: Any, held_out: Any) -> Row:
    return Row(
        epoch=epoch,
        loss=loss,
        time=seconds,
        test_accuracy=float(test.accuracy),
        val_accuracy=None if held_out is None else float(held_out.accuracy),
        lr=0.0,
        test_loss=float(test.loss),
        val_loss=None if held_out is None else float(held_out.loss),
    )


def with_seed(recipe: Recipe, seed: int) -> Recipe:
    return dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, seed=seed))
