"""Training, epoch by epoch, without what is kept of it.

Several runs may be one compiled program: every array of their state then has a leading axis of runs.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.train.engines import Engine
from glassformer.train.jax_engine import State
from glassformer.train.nan_report import all_finite, finite_runs
from glassformer.train.recipe import Recipe
from glassformer.train.rng import make_order
from glassformer.train.warm_start import warm_start


class Trainer:
    """The epochs of one run, or of several that one program trains.

    A subclass says what is kept of them, and when they are done: run folders (Loop), or records (the lab).
    """

    state: State
    done: bool

    def __init__(self, recipes: Sequence[Recipe], engine: Engine) -> None:
        self.recipes, self.engine = recipes, engine
        self.orders = [make_order(recipe.engine.rng, recipe.training.seed) for recipe in recipes]
        self.epoch, self.step = 0, 0  # finished epochs, and finished steps of the epoch under way

    def start(self) -> None:
        """From fresh weights, or from those of the run that a recipe names."""
        runs = zip(self.recipes, self.orders, strict=True)
        self.state = self.engine.start(
            stacked([warm_start(recipe, order.init(recipe.network)) for recipe, order in runs])
        )

    def run(self) -> None:
        while not self.done:
            self.run_epoch()

    def run_epoch(self) -> None:
        epoch = self.epoch + 1
        batches = self.batches_of(epoch)
        while self.step < self.engine.steps:
            self.run_chunk(batches)
        self.epoch, self.step = epoch, 0
        self.end_epoch()

    def batches_of(self, epoch: int) -> Any:
        total = self.engine.total
        orders = [order.current(epoch, total) if self.step else order.shuffled(epoch, total) for order in self.orders]
        return self.engine.batches([order[: self.engine.count] for order in orders], epoch)

    def run_chunk(self, batches: Any) -> None:
        """Take some steps, and keep what comes of them."""
        raise NotImplementedError

    def end_epoch(self) -> None:
        raise NotImplementedError

    def take_steps(self, batches: Any, last: int) -> np.ndarray:
        """Up to `last` (not included): the losses of each run, (runs, steps)."""
        self.state, losses = self.engine.run(self.state, batches, self.step, last)
        self.step = last
        return np.atleast_2d(losses)

    def finite(self, losses: np.ndarray) -> np.ndarray:
        """Of each run: whether its losses are finite, and its weights."""
        params = self.state.params
        weights = np.asarray(finite_runs(params)) if self.recipes[1:] else all_finite(params)
        return np.logical_and(np.isfinite(losses).all(axis=1), weights)

    def one(self, tree: Any, i: int) -> Any:
        """What belongs to one of the runs."""
        return jax.tree.map(lambda leaf: leaf[i], tree) if self.recipes[1:] else tree


def stacked(runs: list[Any]) -> Any:
    """The arrays of several runs with a leading axis of runs; those of one as they are."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *runs) if runs[1:] else runs[0]
