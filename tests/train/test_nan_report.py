"""A run that leaves the finite numbers stops, says at which step and in which layer, and keeps what was good."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer.errors import TrainingError
from glassformer.names import named_leaves, with_leaves
from glassformer.predict.run import load
from glassformer.train import fit
from glassformer.train.jax_engine import JaxEngine
from glassformer.train.loop import Listener, Loop
from glassformer.train.optimiser import Optimiser
from glassformer.train.recipe import Recipe
from glassformer.train.run_folder import Row, RunFolder

from .small import small_data, small_recipe, without_validation


class Poison(Listener):
    """Sets one parameter to a value when an epoch is over."""

    def __init__(self, name: str, value: float) -> None:
        self.name, self.value = name, value
        self.loop: Loop

    def epoch(self, row: Row) -> None:
        self.poison()

    def poison(self) -> None:
        bad = jnp.full_like(named_leaves(self.loop.state.params)[self.name], self.value)
        self.loop.state = self.loop.state._replace(params=with_leaves(self.loop.state.params, {self.name: bad}))


def poisoned(recipe: Recipe, path: Path, name: str, value: float) -> Poison:
    listener = Poison(name, value)
    listener.loop = Loop(recipe, small_data(), RunFolder(path), listener)
    listener.loop.begin()
    return listener


def assert_last_epoch_is_kept(path: Path, epoch: int) -> None:
    assert all(np.isfinite(leaf).all() for leaf in named_leaves(load(path).params).values())
    loop = Loop(RunFolder(path).recipe(), small_data(), RunFolder(path), Listener())
    loop.resume()
    assert loop.epoch == epoch
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(loop.state))


def test_an_absurd_learning_rate(tmp_path: Path) -> None:
    recipe = replace(small_recipe(), optimiser=Optimiser(lr=1e30))
    with pytest.raises(TrainingError) as error:
        fit.train(recipe, small_data(), tmp_path, Listener())
    assert "at step 2 of epoch 1 the loss is not finite; the first such value is layers." in str(error.value)
    assert f"The last good checkpoint is kept in {tmp_path}; try a lower learning rate (--lr)" in str(error.value)
    assert not (tmp_path / "model.safetensors").exists()


def test_a_nan_among_the_first_weights(tmp_path: Path) -> None:
    listener = poisoned(small_recipe(), tmp_path, "layers.1.w", np.nan)
    listener.poison()
    with pytest.raises(TrainingError, match=r"after step 0 of epoch 1 the parameter layers\.1\.w is not finite"):
        listener.loop.run()


def test_a_nan_that_comes_after_an_epoch_leaves_that_epoch(tmp_path: Path) -> None:
    listener = poisoned(small_recipe(epochs=3), tmp_path, "layers.0.b", np.nan)
    with pytest.raises(TrainingError, match=r"after step 0 of epoch 2 the parameter layers\.0\.b is not finite"):
        listener.loop.run()
    assert_last_epoch_is_kept(tmp_path, epoch=1)


@pytest.mark.parametrize(("name", "first"), [("layers.0.w", "layers.0.y"), ("layers.0.b", "layers.1.y")])
def test_the_layer_where_it_begins_is_named(name: str, first: str, tmp_path: Path) -> None:
    """With shifts: the step is repeated with its own draws."""
    listener = poisoned(small_recipe("momentum", epochs=3), tmp_path, name, 3e38)
    with pytest.raises(TrainingError, match=rf"at step 1 of epoch 2 the loss is not finite; .* value is {first}\."):
        listener.loop.run()
    assert_last_epoch_is_kept(tmp_path, epoch=1)


def test_the_step_is_found_in_the_middle_of_a_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One image of 93 has a pixel that no float holds; the step that takes it is the one that is named."""
    recipe = small_recipe()
    loop = Loop(recipe, small_data(), RunFolder(tmp_path), Listener())
    loop.begin()
    order = loop.orders[0].shuffled(1, loop.engine.count)
    assert isinstance(loop.engine, JaxEngine)
    images = loop.engine.samples.images.astype(jnp.float32).at[order[53]].set(jnp.inf)
    loop.engine.samples = loop.engine.samples._replace(images=images)
    with pytest.raises(TrainingError, match=r"at step 6 of epoch 1 the loss is not finite; .* value is prepare\."):
        loop.run()


def test_the_last_update_of_an_epoch_is_looked_at_too(tmp_path: Path) -> None:
    """One step an epoch: its loss is fine, what it makes of the weights is not, and nothing of it is saved."""
    optimiser = Optimiser(name="adamw", lr=3e38, weight_decay=100.0)
    recipe = replace(without_validation(small_recipe(batch=1000)), optimiser=optimiser)
    with pytest.raises(TrainingError, match=r"after step 1 of epoch 1 the parameter layers\.0\.w is not finite"):
        fit.train(recipe, small_data(), tmp_path, Listener())
    assert not (tmp_path / "model.safetensors").exists()
    loop = Loop(recipe, small_data(), RunFolder(tmp_path), Listener())
    loop.resume()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(loop.state))
