"""Cells of equal shape, with all their seeds, as one program: a GPU trains a hundred small models as fast as one.

What may differ between runs of one program: the seed, how positions start, and the learning rate. Every optimiser here
is proportional to its rate, so the program takes steps of rate 1 and multiplies each run's by its own.
"""

import time
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from glassformer.data.dataset import Dataset
from glassformer.lab.one_run import Cells
from glassformer.lab.record import Record
from glassformer.train.jax_engine import JaxEngine
from glassformer.train.loop import split
from glassformer.train.optimiser import PRESETS
from glassformer.train.recipe import Recipe


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
    for setting in fields(model):
        model = replace(model, start=setting.default) if setting.name == "start" else model
    optimiser = replace(recipe.optimiser, lr=1.0) if recipe.optimiser.name in PRESETS else recipe.optimiser
    return replace(recipe, model=model, optimiser=optimiser, training=replace(recipe.training, seed=0))


def train_vmapped(keys: Sequence[str], recipes: Sequence[Recipe], data: Dataset) -> list[Record]:
    """One record for each recipe, in their order. They are resolved, of one shape, and at least two."""
    start = time.monotonic()
    common = shape_of(recipes[0])
    train, held_out = split(common, data)
    seeds = tuple(recipe.training.seed for recipe in recipes)
    rates = [recipe.optimiser.lr / common.optimiser.lr for recipe in recipes]
    cells = Cells(recipes, JaxEngine(common, train, seeds, last=by_own_rate()), held_out)
    cells.start()
    rate = OwnRate(jnp.asarray(rates, jnp.float32))
    cells.state = cells.state._replace(optimiser=(*cells.state.optimiser[:-1], rate))
    return cells.records(keys, train, data.test, start)
