"""Runs that differ in numbers alone are one program: a GPU trains a hundred small models as fast as one.

What the runs of a program may have of their own, as arrays that it is given: the seed and the first weights (with them
how positions start), the learning rate of every step (with it the schedule), momentum, b1, b2, weight decay, clipping
and label smoothing. And how long they go on: those that are over leave it when they are half of it, or more.
"""

import contextlib
import copy
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from glassformer.lab.compile_time import compile_seconds
from glassformer.lab.one_run import Cells, Outcome
from glassformer.lab.scoring import Scoring
from glassformer.layers.contract import param_shapes
from glassformer.losses import LabelSmoothing
from glassformer.native.engine import rates_of
from glassformer.train.jax_engine import Batches, JaxEngine, State, take_block, take_step
from glassformer.train.nan_report import finite_runs
from glassformer.train.optimiser import PRESETS, Schedule
from glassformer.train.recipe import Recipe
from glassformer.train.rng import platform_here, quickly
from glassformer.train.score import parts_of
from glassformer.train.warm_start import warm_start

ALIKE = {"sgd": "momentum", "adam": "adamw"}  # without momentum, and without weight decay


class Numbers(NamedTuple):
    """What a program takes from each of its runs."""

    rate: Any  # of each step
    momentum: Any
    b1: Any
    b2: Any
    weight_decay: Any
    clip: Any
    smoothing: Any


def shape_of(recipe: Recipe) -> Recipe:
    """The same for recipes that one program can train."""
    model: Any = recipe.model
    for setting in fields(model):
        model = replace(model, start=setting.default) if setting.name == "start" else model
    optimiser, training = recipe.optimiser, replace(recipe.training, seed=0)
    training = replace(training, label_smoothing=0.5 if training.label_smoothing else 0.0)
    if optimiser.name in PRESETS:  # nobody knows how another one uses its numbers
        optimiser = replace(
            optimiser,
            name=ALIKE.get(optimiser.name, optimiser.name),
            lr=1.0,
            momentum=0.5,
            b1=0.5,
            b2=0.5,
            weight_decay=0.5,
            clip=1.0 if optimiser.clip else 0.0,
            schedule=Schedule(),
        )
        training = replace(training, epochs=1)
    return replace(recipe, model=model, optimiser=optimiser, training=training)


def numbers_of(recipe: Recipe, steps: int) -> Numbers:
    optimiser = recipe.optimiser
    return Numbers(
        rate=rates_of(recipe, steps),
        momentum=0.0 if optimiser.name == "sgd" else optimiser.momentum,
        b1=optimiser.b1,
        b2=optimiser.b2,
        weight_decay=optimiser.weight_decay,
        clip=optimiser.clip,
        smoothing=recipe.training.label_smoothing,
    )


@contextlib.contextmanager
def on_cpu() -> Iterator[None]:
    """What is small is computed there: compiled in no time, and while the GPU trains."""
    try:
        (device, *_) = jax.local_devices(backend="cpu")
    except RuntimeError:  # left out by JAX_PLATFORMS
        yield
        return
    with jax.default_device(device):
        yield


class SharedEngine(JaxEngine):
    """One program for all runs of a shape. `of` some runs, it is their engine."""

    epoch_keys: np.ndarray  # (runs, epochs, …)
    numbers: Numbers  # of each run; rates of all its steps
    take_steps: Any
    tally: Any

    def __init__(self, shape: Recipe, train: Any, runs: int) -> None:
        super().__init__(shape, train, (0,) * runs)
        self.compiling = threading.Lock()

    @property
    def optimiser(self) -> optax.GradientTransformation:
        if self.recipe.optimiser.name not in PRESETS:
            return super().optimiser
        return self.recipe.learning.with_numbers(lambda times: times, self.recipe.optimiser)

    def stepping(self, step: Any) -> Any:
        own = Batches(samples=None, order=0, weights=None, key=0, numbers=0)  # pyright: ignore[reportArgumentType]
        step = partial(take_own_step, self.recipe, step)

        def take_epoch(state: State, batches: Batches) -> tuple[State, Any]:
            batches = batches._replace(key=jax.random.wrap_key_data(batches.key))
            return take_block(step, self.steps, state, batches, 0)

        return self.compiled(jax.vmap(take_epoch, in_axes=(0, own)), donate_argnums=0)

    def of(self, recipes: Sequence[Recipe]) -> "SharedEngine":
        """The engine of these runs: the same programs, with their seeds and numbers."""
        engine = copy.copy(self)
        engine.seeds = tuple(recipe.training.seed for recipe in recipes)
        epochs = max(recipe.training.epochs for recipe in recipes)
        with on_cpu():
            keys = keys_of_epochs(np.stack([key_of(seed) for seed in engine.seeds]), epochs)
            numbers = [numbers_of(recipe, self.steps) for recipe in recipes]
        engine.epoch_keys = np.asarray(keys)
        # a run that is over and has not left yet goes on with a rate of 0
        rates = [np.pad(one.rate, (0, epochs * self.steps - len(one.rate))) for one in numbers]
        numbers = [one._replace(rate=rate) for one, rate in zip(numbers, rates, strict=True)]
        engine.numbers = Numbers(*(np.asarray(values, np.float32) for values in zip(*numbers, strict=True)))
        return engine

    def only(self, runs: np.ndarray) -> "SharedEngine":
        """Some of them."""
        engine = copy.copy(self)
        engine.seeds = tuple(self.seeds[i] for i in runs)
        engine.epoch_keys, engine.numbers = jax.tree.map(lambda leaf: leaf[runs], (self.epoch_keys, self.numbers))
        return engine

    def batches(self, orders: list[np.ndarray], epoch: int) -> Batches:
        rates = self.numbers.rate[:, (epoch - 1) * self.steps : epoch * self.steps]
        return super().batches(orders, epoch)._replace(numbers=self.numbers._replace(rate=rates))

    def keys(self, epoch: int) -> Any:
        return self.epoch_keys[:, epoch - 1]

    def run(self, state: State, batches: Batches, first: int, last: int) -> tuple[State, np.ndarray]:
        state, losses = self.take_steps(state, batches)
        return state, np.asarray(losses, np.float64)

    def compile(self, runs: int, scored: Sequence[Any]) -> None:
        """All that so many runs take, before it is needed; once."""
        params = param_shapes(self.recipe.network)
        state = jax.eval_shape(self.start, jax.tree.map(lambda leaf: with_runs(leaf, runs), params))
        like = self.of([self.recipe]).batches([np.zeros(self.count, np.int32)], 1)
        order = with_runs(like.order, runs)  # of a single run it has no axis of runs
        key, numbers = jax.tree.map(lambda leaf: with_runs(leaf[0], runs), (like.key, like.numbers))
        with self.compiling:
            self.take_steps.lower(state, like._replace(order=order, key=key, numbers=numbers)).compile()
            for samples in scored:
                self.tally.lower(state.params, samples, *next(parts_of(self.recipe.task, samples))).compile()
            finite_runs.lower(state.params).compile()


def with_runs(leaf: Any, runs: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((runs, *leaf.shape), leaf.dtype)


@partial(jax.jit, static_argnums=1)
def keys_of_epochs(keys: Any, epochs: int) -> Any:
    """(runs, epochs, …): what the jax engine draws from in each, as plain numbers."""
    of_run = jax.vmap(jax.random.fold_in, in_axes=(None, 0))
    of_all = jax.vmap(of_run, in_axes=(0, None))(jax.random.wrap_key_data(keys), jnp.arange(1, epochs + 1))
    return jax.random.key_data(of_all)


def key_of(seed: int) -> np.ndarray:
    return np.asarray(jax.random.key_data(jax.random.key(seed)))


def take_own_step(shape: Recipe, step: Any, state: State, batches: Batches, i: Any) -> tuple[State, Any]:
    """A step by the run's own numbers."""
    numbers = batches.numbers
    if shape.training.label_smoothing:
        training = replace(shape.training, loss=LabelSmoothing(numbers.smoothing), label_smoothing=0.0)
        shape = replace(shape, training=training)
    if shape.optimiser.name not in PRESETS:
        return step(state, batches, i)
    optimiser = shape.learning.with_numbers(lambda times: times * numbers.rate[i], numbers)
    return take_step(shape, optimiser, state, batches, i)


class Runs(Cells):
    """Runs of one program, from their first weights to their outcomes."""

    def __init__(
        self,
        keys: Sequence[str],
        recipes: Sequence[Recipe],
        shared: SharedEngine,
        held_out: Any,
        scoring: Scoring = Scoring(),
    ) -> None:
        super().__init__(recipes, shared.of(recipes), held_out, scoring)
        self.engine: SharedEngine
        self.keys = list(keys)
        self.seconds = np.zeros(len(keys))
        self.compiling = np.zeros(len(keys))  # of them
        self.over = np.zeros(len(keys), bool)
        self.prepared: dict[int, Future[Any]] = {}  # batches of the next epoch

    def start(self) -> None:
        runs = zip(self.recipes, self.orders, strict=True)
        with on_cpu():
            first = [jax.device_get(warm_start(recipe, order.init(recipe.network))) for recipe, order in runs]
            stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *first)
            self.state = jax.device_get(jax.jit(self.engine.start, compiler_options=quickly(platform_here()))(stacked))

    def sizes(self) -> list[int]:
        """Of how many runs programs are needed."""
        sizes, epochs = [len(self.recipes)], sorted(recipe.training.epochs for recipe in self.recipes)
        for epoch in sorted(set(epochs)):
            if can_leave(sizes[-1], rest := sum(one > epoch for one in epochs)):
                sizes.append(rest)
        return sizes

    def batches_of(self, epoch: int) -> Any:
        """Put in order while the epoch before is trained, where the same runs are still there."""
        batches = self.prepared.pop(epoch).result() if epoch in self.prepared else self.ordered(epoch)
        if all(recipe.training.epochs > epoch for recipe in self.recipes):
            self.prepared[epoch + 1] = self.helper.submit(self.ordered, epoch + 1)
        return batches

    def ordered(self, epoch: int) -> Any:
        orders = [order.shuffled(epoch, self.engine.total)[: self.engine.count] for order in self.orders]
        return self.engine.batches(orders, epoch)

    def finish(self, test: Any) -> Iterator[list[Outcome]]:
        """Train; outcomes as runs are over."""
        self.state = jax.device_put(self.state)
        with ThreadPoolExecutor(1) as self.helper:
            while not self.done:
                start, before = time.monotonic(), compile_seconds()
                self.run_epoch()
                self.seconds += (time.monotonic() - start) / np.sum(~self.over) * ~self.over
                self.compiling += (compile_seconds() - before) / np.sum(~self.over) * ~self.over
                ends = [self.done or recipe.training.epochs <= self.epoch for recipe in self.recipes] & ~self.over
                if ends.any():
                    times = self.seconds.tolist(), self.compiling.tolist()
                    yield self.outcomes(self.keys, np.flatnonzero(ends).tolist(), test, *times)
                    self.over |= ends
                    if not self.done and can_leave(len(self.over), np.sum(~self.over)):
                        self.stay(np.flatnonzero(~self.over))

    def stay(self, runs: np.ndarray) -> None:
        """These alone."""
        self.state = jax.device_put(jax.tree.map(lambda leaf: leaf[runs], jax.device_get(self.state)))
        self.recipes, self.keys = [self.recipes[i] for i in runs], [self.keys[i] for i in runs]
        self.orders = [self.orders[i] for i in runs]
        self.losses, self.scores = jax.tree.map(lambda one: one[runs], (self.losses, self.scores))
        self.failed_in, self.seconds, self.over = self.failed_in[runs], self.seconds[runs], self.over[runs]
        self.compiling = self.compiling[runs]
        self.engine = self.engine.only(runs)


def can_leave(runs: int, rest: int) -> bool:
    """Whether the rest goes on in a smaller program. A few that are over cost less than another program does."""
    return 1 < rest <= runs // 2
