"""Training in bfloat16: weights that lie close to 1 are not rounded, and losses stay with those of float32."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.layers.contract import narrowed
from glassformer.models import GPT, Text
from glassformer.names import named_leaves
from glassformer.shapes import Static
from glassformer.train.jax_engine import JaxEngine
from glassformer.train.optimiser import Optimiser
from glassformer.train.recipe import Engine, Recipe, Training
from glassformer.train.tasks import NextToken
from glassformer.train.tasks.next_token import Stream

MODEL = GPT(Text(vocabulary=11, context=16), width=16, hidden=32, heads=2, depth=2)


def test_gains_stay_wide() -> None:
    leaves = named_leaves(narrowed(MODEL.init(jax.random.key(0)), jnp.bfloat16))
    wide = {name for name, leaf in leaves.items() if leaf.dtype == jnp.float32}
    assert wide == {name for name in leaves if name.endswith((".gain", ".bias"))}
    assert {leaf.dtype for name, leaf in leaves.items() if name not in wide} == {jnp.dtype(jnp.bfloat16)}


def test_losses_stay_with_those_of_float32() -> None:
    ids = np.random.default_rng(0).integers(0, 11, 2000).cumsum() % 11
    recipe = Recipe(
        model=MODEL,
        task=NextToken(),
        training=Training(batch=8, samples=80),
        optimiser=Optimiser(name="adamw", lr=1e-3),
        engine=Engine(name="jax"),
    )

    def losses(precision: str) -> np.ndarray:
        engine = JaxEngine(
            replace(recipe, engine=replace(recipe.engine, precision=precision)),  # pyright: ignore[reportArgumentType]
            Stream(ids.astype(np.int32), Static(16)),
            (1,),
        )
        state = engine.start(MODEL.init(jax.random.key(0)))
        return engine.run(state, engine.batches([np.arange(engine.count)], 1), 0, engine.steps)[1]

    assert np.abs(losses("bf16") - losses("float32")).max() < 1e-3
