"""Cells of equal shape, with all their seeds, as one program: a GPU trains a hundred small models as fast as one.

What may differ between runs of one program: the seed, how positions start, and the learning rate. Every optimiser here
is proportional to its rate, so the program takes steps of rate 1 and multiplies each run's by its own.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from glassformer.data.dataset import Dataset
from glassformer.lab.mechanism import mechanism
from glassformer.lab.one_run import machine
from glassformer.lab.record import Record
from glassformer.train.jax_engine import JaxEngine
from glassformer.train.loop import split
from glassformer.train.many_seeds import one_of
from glassformer.train.optimiser import PRESETS
from glassformer.train.recipe import Recipe
from glassformer.train.rng import make_order
from glassformer.train.warm_start import warm_start


class OwnRate(NamedTuple):
    """The state of the last part of the optimiser: the run's learning rate, beside the seeds' other arrays."""

    rate: Any


def by_own_rate() -> optax.GradientTransformation:
    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        return jax.tree.map(lambda u: state.rate * u, updates), state

    return optax.GradientTransformation(lambda params: OwnRate(jnp.ones(())), update)


def shape_of(recipe: Recipe) -> Recipe:
    """The same for recipes that one program can train."""
    model: Any = recipe.model
    if hasattr(model, "start"):
        model = replace(model, start=type(model)().start)
    optimiser = replace(recipe.optimiser, lr=1.0) if recipe.optimiser.name in PRESETS else recipe.optimiser
    return replace(recipe, model=model, optimiser=optimiser, training=replace(recipe.training, seed=0))


def train_vmapped(keys: Sequence[str], recipes: Sequence[Recipe], data: Dataset) -> list[Record]:
    """One record for each recipe, in their order. They are resolved, of one shape, and at least two."""
    start = time.monotonic()
    common = shape_of(recipes[0])
    train, held_out = split(common, data)
    seeds = tuple(recipe.training.seed for recipe in recipes)
    rates = [recipe.optimiser.lr / common.optimiser.lr for recipe in recipes]
    engine = JaxEngine(common, train, seeds, last=by_own_rate())
    orders = [make_order(recipe.engine.rng, recipe.training.seed) for recipe in recipes]
    first = [warm_start(recipe, order.init(recipe.model)) for recipe, order in zip(recipes, orders, strict=True)]
    state = engine.start(jax.tree.map(lambda *leaves: jnp.stack(leaves), *first))
    state = state._replace(optimiser=(*state.optimiser[:-1], OwnRate(jnp.asarray(rates, jnp.float32))))
    losses: list[np.ndarray] = []
    whole: list[np.ndarray] = []
    validation: list[np.ndarray] = []
    for epoch in range(1, common.training.epochs + 1):
        batches = engine.batches([order.shuffled(epoch, engine.total)[: engine.count] for order in orders], epoch)
        state, steps = engine.run(state, batches, 0, engine.steps)
        losses.append(steps.mean(axis=1))
        whole.append(np.isfinite(steps).all(axis=1) & np.asarray(finite(state.params)))
        if held_out is not None:
            validation.append(np.asarray(engine.score(state.params, held_out).accuracy))
    test = np.asarray(engine.score(state.params, data.test).accuracy)
    here = jax.device_get(state.params)
    seconds = (time.monotonic() - start) / len(recipes)
    records = []
    for i, (key, recipe) in enumerate(zip(keys, recipes, strict=True)):
        own = one_of(here, i)
        done = next((epoch for epoch, one in enumerate(whole) if not one[i]), len(losses))
        failed = "" if done == len(losses) else f"not finite in epoch {done + 1}"
        records.append(
            Record(
                key=key,
                seed=recipe.training.seed,
                failed=failed,
                loss=tuple(float(loss[i]) for loss in losses[:done]),
                validation=tuple(float(score[i]) for score in validation[:done]),
                test=None if failed else float(test[i]),
                steps=engine.steps * done,
                seconds=seconds,
                parameters=sum(leaf.size for leaf in jax.tree.leaves(own)),
                engine="jax",
                machine=machine(),
                inside={} if failed else mechanism(recipe, own, train if held_out is None else held_out),
            )
        )
    return records


@jax.jit
def finite(params: Any) -> Any:
    """Of each run: whether all its weights are."""
    leaves = [jnp.isfinite(leaf).reshape(len(leaf), -1).all(axis=1) for leaf in jax.tree.leaves(params)]
    return jnp.stack(leaves).all(axis=0)
