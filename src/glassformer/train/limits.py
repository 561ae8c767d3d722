"""Whether a training run fits in memory, told before anything of it is built.

An accelerator has memory of its own, and says itself when it is full.
"""

from typing import Any

import jax
import jax.numpy as jnp

from glassformer.errors import SettingError
from glassformer.layers.contract import param_shapes
from glassformer.memory import must_fit
from glassformer.models.model import Network
from glassformer.models.summary import cache_bytes
from glassformer.train.recipe import Recipe


def weights_must_fit(model: Network) -> None:
    """With their gradient, which every optimiser needs."""
    name = type(model).__name__
    try:
        params = param_shapes(model)
    except OverflowError:
        raise SettingError(f"{name}: its sizes multiply to more than can be counted; make it smaller") from None
    if jax.default_backend() == "cpu":
        count = sum(leaf.size for leaf in jax.tree.leaves(params))
        what = f"{name} has {count:,} parameters, which with their gradient"
        must_fit(2 * bytes_of(params), what, "make it smaller: model.width, model.depth", SettingError)


def batch_must_fit(recipe: Recipe, samples: Any, start: Any, seeds: int) -> None:
    """What a step of the jax engine keeps: the state, a gradient, and of the batch what backward reads."""
    if jax.default_backend() != "cpu":
        return
    count = recipe.training.batch
    params, network = param_shapes(recipe.network), recipe.network
    batch = jax.eval_shape(
        lambda samples, key: recipe.task.drawn(samples, jnp.zeros(count, jnp.int32), key), samples, jax.random.key(0)
    )

    def forward(params: Any, x: Any, keywords: Any) -> Any:
        return network.forward(params, x, **keywords)

    traced, (_, cache) = jax.make_jaxpr(forward, return_shape=True)(params, batch.x, batch.keywords)
    kept = sum(bytes for _, bytes in cache_bytes(cache, traced.jaxpr))
    gradients = 2 if recipe.training.accumulate > 1 else 1  # and their sum
    needed = seeds * (bytes_of(jax.eval_shape(start, params)) + gradients * bytes_of(params) + kept)
    what = f"training: a batch of {count:,}" + (f" for each of {seeds} seeds" if seeds > 1 else "")
    must_fit(needed, what, "make it smaller, or the model: --batch, model.width, model.depth", SettingError)


def bytes_of(tree: Any) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
