"""Gradients accumulated over several batches are those of one large batch, and an update is a step."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer.data import Dataset
from glassformer.errors import EngineError, SettingError, TrainingError
from glassformer.names import named_leaves
from glassformer.train import fit
from glassformer.train.engines import choose
from glassformer.train.jax_engine import JaxEngine, State
from glassformer.train.loop import InterruptedRunError, Listener, Loop, rate_of
from glassformer.train.optimiser import Optimiser, Schedule
from glassformer.train.recipe import Recipe, Training
from glassformer.train.resolve import resolved
from glassformer.train.rng import Threefry
from glassformer.train.run_folder import RunFolder

from .small import Stop, assert_same_run, small_data, small_recipe
from .small_texts import ready, small_text_recipe


def with_batch(recipe: Recipe, batch: int, accumulate: int) -> Recipe:
    return replace(recipe, training=replace(recipe.training, batch=batch, accumulate=accumulate))


def epoch(recipe: Recipe, data: Dataset, seeds: tuple[int, ...] = (1,)) -> tuple[State, np.ndarray]:
    engine = JaxEngine(recipe, data.train, seeds)
    orders = [np.random.default_rng(seed).permutation(engine.total) for seed in seeds]
    runs = [Threefry(seed).init(recipe.model) for seed in seeds]
    params = jax.tree.map(lambda *leaves: jnp.stack(leaves), *runs) if seeds[1:] else runs[0]
    return engine.run(engine.start(params), engine.batches(orders, 1), 0, engine.steps)


def assert_close(one: Any, other: Any, atol: float = 1e-6) -> None:
    for name, leaf in named_leaves(one).items():
        np.testing.assert_allclose(leaf, named_leaves(other)[name], atol=atol, err_msg=name)


@pytest.mark.parametrize("seeds", [(1,), (1, 4)])
def test_four_batches_of_eight_are_one_of_thirty_two(seeds: tuple[int, ...]) -> None:
    """103 samples: the last update has seven, in one batch, and its other batches do not count."""
    optimiser = Optimiser(name="momentum", lr=0.05, clip=1.0, schedule=Schedule(kind="cosine"))
    recipe = replace(small_recipe(), optimiser=optimiser)
    state, losses = epoch(with_batch(recipe, 8, 4), small_data(), seeds)
    whole, expected = epoch(with_batch(recipe, 32, 1), small_data(), seeds)
    assert losses.shape[-1] == 4
    np.testing.assert_allclose(losses, expected, atol=1e-6)
    assert_close(state, whole)


def test_every_label_weighs_the_same_where_batches_have_more_and_fewer() -> None:
    """Of texts that are longer and shorter."""
    recipe, data = ready(replace(small_text_recipe("tag", dropout=0.0), optimiser=Optimiser(lr=0.1)))
    state, losses = epoch(with_batch(recipe, 3, 5), data)
    whole, expected = epoch(with_batch(recipe, 15, 1), data)
    np.testing.assert_allclose(losses, expected, atol=1e-6)
    assert_close(state.params, whole.params)


def test_the_run_counts_updates(tmp_path: Path) -> None:
    recipe = replace(small_recipe(epochs=3), optimiser=Optimiser(lr=0.2, schedule=Schedule(kind="cosine")))
    few, one = with_batch(recipe, 8, 4), with_batch(recipe, 32, 1)
    results = [fit.train(run, small_data(), tmp_path / f"{run.training.batch}", Listener()) for run in (few, one)]
    for name in ("loss", "test_loss", "val_loss"):
        assert results[0][name] == pytest.approx(results[1][name], abs=1e-5)
    engines = [JaxEngine(run, small_data().train, (1,)) for run in (few, one)]
    assert rate_of(few, engines[0], 2) == rate_of(one, engines[1], 2)


def test_cut_in_the_middle_it_resumes_to_the_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With dropout and shifts: every batch has draws of its own."""
    monkeypatch.setattr(fit, "load_for", lambda recipe, name, tokeniser: small_data(400))
    recipe = with_batch(small_recipe("adamw"), 5, 3)
    fit.train(recipe, small_data(400), tmp_path / "whole", Listener())
    with pytest.raises(InterruptedRunError, match="stopped in epoch 1"):
        fit.train(recipe, small_data(400), tmp_path / "cut", Stop(after=1))
    fit.resume(tmp_path / "cut")
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_the_batch_that_is_not_finite_is_found(tmp_path: Path) -> None:
    loop = Loop(with_batch(small_recipe(), 5, 2), small_data(), RunFolder(tmp_path), Listener())
    loop.begin()
    assert isinstance(loop.engine, JaxEngine)
    order = loop.orders[0].shuffled(1, loop.engine.count)
    images = loop.engine.samples.images.astype(jnp.float32).at[order[57]].set(jnp.inf)  # the second batch of step 6
    loop.engine.samples = loop.engine.samples._replace(images=images)
    with pytest.raises(TrainingError, match=r"at step 6 of epoch 1 the loss is not finite; .* value is prepare\."):
        loop.run()


def test_no_more_batches_than_an_epoch_has() -> None:
    recipe = resolved(with_batch(small_recipe(), 10, 500), small_data())
    assert (recipe.training.batch, recipe.training.accumulate) == (10, 10)  # of 93 samples


def test_what_is_no_number_of_batches_is_refused() -> None:
    with pytest.raises(SettingError, match="training: accumulate is 0, expected"):
        Training(accumulate=0)
    with pytest.raises(SettingError, match=r"training: batch is 65,536, 65,536 times, expected less than 2\^31"):
        Training(batch=1 << 16, accumulate=1 << 16)


def test_of_images_only_jax_accumulates() -> None:
    recipe, heard = with_batch(small_recipe("vit"), 5, 2), []
    assert choose(recipe, small_data().train, heard.append).name == "jax"
    assert heard == ["engine jax: the native engine accumulates gradients of texts only (training.accumulate)"]
    native = replace(recipe, engine=replace(recipe.engine, name="native"))
    with pytest.raises(EngineError, match="accumulates gradients of texts only"):
        choose(native, small_data().train, print)
