"""How many multiply-adds a recipe's model takes for a sample, as `glassformer info` counts them; counted once."""

from typing import Any

import jax
import jax.numpy as jnp

from glassformer.layers.contract import param_shapes
from glassformer.models.summary import multiply_adds as products
from glassformer.train.recipe import Recipe

_counted: dict[Any, int] = {}


def multiply_adds(recipe: Recipe, samples: Any) -> int:
    """Of the forward pass of one sample; the recipe has met its data."""

    def forward(params: Any, samples: Any) -> Any:
        batch = recipe.task.batch(samples, jnp.arange(1))
        return recipe.model.forward(params, batch.x, **batch.keywords)[0]  # pyright: ignore[reportCallIssue]

    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), samples)
    form = recipe.model, recipe.task, tuple(leaf.shape for leaf in jax.tree.leaves(shapes))
    if form not in _counted:
        traced = jax.make_jaxpr(forward)(param_shapes(recipe.model), shapes)
        _counted[form] = sum(amount for _, amount in products(traced.jaxpr))
    return _counted[form]
