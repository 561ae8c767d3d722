"""The first weights of a run, the very ones that `glassformer train` draws.

A study draws them hundreds of times for the same few models. Compiling the draw takes half a second, which is longer
than many a run: it is done once for each model, not once for each seed.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax

from glassformer.models.model import Network
from glassformer.train.recipe import Recipe
from glassformer.train.rng import Order, Threefry
from glassformer.train.starting import starting


def first_weights(recipe: Recipe, order: Order) -> Any:
    if isinstance(order, Threefry):
        return starting(recipe, draw_of(recipe.model)(jax.random.key(order.seed)))
    return starting(recipe, order.init(recipe.model))


@cache
def draw_of(model: Network) -> Callable[[Any], Any]:
    """As Threefry.init has it."""
    quickly = {"xla_backend_optimization_level": 0} if jax.default_backend() == "cpu" else None
    return jax.jit(model.init, compiler_options=quickly)
