"""The compiled loop against a plain one: same batches, same steps, same numbers."""

from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from glassformer.data import Samples, hold_out
from glassformer.errors import FileError, TrainingError
from glassformer.names import named_leaves
from glassformer.predict.run import load
from glassformer.train import fit, jax_engine, loss_and_gradient
from glassformer.train.augment import shifted
from glassformer.train.held_out import split
from glassformer.train.jax_engine import JaxEngine
from glassformer.train.listener import InterruptedRunError, Listener
from glassformer.train.optimiser import Optimiser
from glassformer.train.recipe import Engine, Recipe, with_seed
from glassformer.train.rng import Threefry, make_order
from glassformer.train.run_folder import RunFolder
from glassformer.train.score import score_of_logits
from glassformer.train.tasks import Classify
from glassformer.train.trainer import stacked

from .small import Stop, assert_same_run, small_data, small_recipe, without_validation


def engine_for(recipe: Recipe, seeds: tuple[int, ...] = (1,)) -> JaxEngine:
    return JaxEngine(recipe, small_data().train, seeds)


def first_params(recipe: Recipe) -> Any:
    return Threefry(0).init(recipe.model)


def largest_difference(one, other) -> float:
    gaps = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), one, other)
    return max(jax.tree.leaves(gaps))


@pytest.mark.parametrize("kind", ["sgd", "xorshift"])
def test_an_epoch_is_a_plain_loop_over_batches(kind: str) -> None:
    """103 samples, ten at a time: the last batch has three, and they count as a batch."""
    recipe, train = small_recipe(kind), small_data().train
    engine = engine_for(recipe)
    order = make_order("threefry", 1).shuffled(1, engine.count)
    params = first_params(recipe)
    state, losses = engine.run(engine.start(params), engine.batches([order], 1), 0, engine.steps)

    params = first_params(recipe)
    optimiser = recipe.optimiser.transformation(11, recipe.training.epochs)
    memory, expected = optimiser.init(params), []

    @jax.jit
    def step(params, memory, images, labels):
        loss, gradient = loss_and_gradient(recipe.model, recipe.loss, params, images, labels=labels)
        updates, memory = optimiser.update(gradient, memory, params)
        return optax.apply_updates(params, updates), memory, loss

    for start in range(0, 103, 10):
        chosen = order[start : start + 10]
        params, memory, loss = step(params, memory, train.images[chosen], train.labels[chosen])
        expected.append(float(loss))
    assert engine.steps == len(losses) == len(expected) == 11
    np.testing.assert_allclose(losses, expected, atol=1e-6)
    assert largest_difference(state.params, params) < 1e-6


def test_padding_changes_nothing() -> None:
    recipe = small_recipe("momentum")
    engine = engine_for(recipe)
    batches = engine.batches([np.arange(103)], 1)
    assert np.asarray(batches.weights).sum() == 103
    others = jnp.where(batches.weights == 0, 55, batches.order)
    assert (others != batches.order).sum() == 7
    results = [
        engine.run(engine.start(first_params(recipe)), batches._replace(order=order), 10, 11)
        for order in (batches.order, others)
    ]
    assert largest_difference(*[result[0].params for result in results]) == 0
    assert results[0][1] == results[1][1]


def test_fewer_samples_than_a_batch() -> None:
    recipe = small_recipe()
    recipe = replace(recipe, training=replace(recipe.training, batch=1000))  # as runs of before have it
    engine = engine_for(recipe)
    assert engine.steps == 1
    _, losses = engine.run(engine.start(first_params(recipe)), engine.batches([np.arange(103)], 1), 0, 1)
    assert losses.shape == (1,)
    assert np.isfinite(losses).all()


@pytest.mark.parametrize("count", [1, 9, 10, 37])
def test_every_image_is_scored_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts of ten, the last filled up: the same as all logits at once."""
    monkeypatch.setattr(Classify, "at_once", 10)
    recipe = small_recipe()
    params, samples = first_params(recipe), Samples(*(array[:count] for array in small_data().test))
    logits, _ = recipe.model.forward(params, jnp.asarray(samples.images))
    expected = score_of_logits(np.asarray(logits), samples.labels)
    np.testing.assert_allclose(engine_for(recipe).score(params, samples), expected, rtol=1e-5)


def test_shifts_move_the_image_and_bring_in_black() -> None:
    image = jnp.arange(1, 21, dtype=jnp.uint8).reshape(1, 4, 5, 1)
    images = jnp.tile(image, (200, 1, 1, 1))
    padded = np.pad(np.asarray(image[0, :, :, 0]), 2)
    places = {padded[row : row + 4, column : column + 5].tobytes() for row in range(5) for column in range(5)}
    assert {np.asarray(moved).tobytes() for moved in shifted(jax.random.key(0), images, 2)} == places
    assert shifted(jax.random.key(0), images, 0) is images


def test_shifts_and_dropout_differ_from_step_to_step_and_from_epoch_to_epoch() -> None:
    recipe = small_recipe("adamw")
    engine = engine_for(recipe)
    params = first_params(recipe)
    same = np.zeros(103, int)  # every batch is ten times the same image: only the draws differ
    loss_of_step = jax.jit(partial(jax_engine.loss_of_step, recipe))
    losses = [loss_of_step(params, engine.batches([same], epoch), step)[0] for epoch in (1, 2) for step in (0, 1)]
    assert len({float(loss) for loss in losses}) == 4


@pytest.mark.parametrize("kind", ["momentum", "xorshift"])
def test_several_seeds_at_once_are_the_runs_of_each(kind: str, tmp_path: Path) -> None:
    seeds = (2, 0, 5)
    recipe = without_validation(small_recipe(kind, epochs=1))
    together = fit.train_many(recipe, small_data(), tmp_path / "many", seeds, Listener())
    assert [run["seed"] for run in together["runs"]] == list(seeds)
    for seed, run in zip(seeds, together["runs"], strict=True):
        alone = fit.train(with_seed(recipe, seed), small_data(), tmp_path / f"{seed}", Listener())
        assert run["loss"] == pytest.approx(alone["loss"], abs=1e-4)
        one, other = load(tmp_path / f"many/seed-{seed}"), load(tmp_path / f"{seed}")
        assert one.recipe == other.recipe
        images = small_data().test.images
        np.testing.assert_allclose(one.probabilities(images), other.probabilities(images), atol=1e-3)
    scores = [run["test_accuracy"] for run in together["runs"]]
    assert together["test_accuracy"] == pytest.approx(np.mean(scores))
    assert together["test_accuracy_std"] == pytest.approx(np.std(scores, ddof=1))
    assert (together["test_accuracy_min"], together["test_accuracy_max"]) == (min(scores), max(scores))


def test_one_of_several_seeds_can_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was trained side by side goes on alone, from the same place."""
    monkeypatch.setattr(fit, "load_for", lambda recipe, name, tokeniser: small_data())
    recipe = replace(small_recipe("momentum", epochs=2), engine=Engine(name="jax"))
    with pytest.raises(InterruptedRunError, match=r"stopped in epoch 1 and saved; go on with --resume .*many$"):
        fit.train_many(recipe, small_data(), tmp_path / "many", (1, 2), Stop(after=0))
    result = fit.resume(tmp_path / "many/seed-2", Listener())
    alone = fit.train(with_seed(recipe, 2), small_data(), tmp_path / "alone", Listener())
    assert result["epochs"] == 2
    assert result["loss"] == pytest.approx(alone["loss"], abs=1e-3)


def test_several_seeds_are_refused_where_a_run_is(tmp_path: Path) -> None:
    recipe = small_recipe(epochs=1)
    fit.train_many(recipe, small_data(), tmp_path, (1, 2), Listener())
    with pytest.raises(FileError, match=rf"{tmp_path}: holds a run already; continue it with --resume {tmp_path}"):
        fit.train_many(recipe, small_data(), tmp_path, (2, 3), Listener())


def test_a_seed_that_diverges_is_named(tmp_path: Path) -> None:
    recipe = replace(small_recipe(), optimiser=Optimiser(lr=1e38))
    with pytest.raises(TrainingError, match=r"seed 4: a value is not finite in epoch 1; .*Train it alone \(--seed 4\)"):
        fit.train_many(recipe, small_data(), tmp_path, (4, 5), Listener())
    assert not list(tmp_path.rglob("model.safetensors"))
    RunFolder(tmp_path / "seed-4").load_state(jax.eval_shape(engine_for(recipe).start, first_params(recipe)))


def test_the_same_recipe_gives_the_same_run_and_another_seed_another(tmp_path: Path) -> None:
    for name in ("one", "two"):
        fit.train(small_recipe("momentum", epochs=1), small_data(), tmp_path / name, Listener())
    assert_same_run(tmp_path / "one", tmp_path / "two")
    fit.train(small_recipe("momentum", epochs=1, seed=2), small_data(), tmp_path / "three", Listener())
    assert largest_difference(load(tmp_path / "one").params, load(tmp_path / "three").params) > 0.01


def test_validation_is_the_last_tenth() -> None:
    data = small_data(count=200)
    train, held_out = split(small_recipe(), data)
    assert held_out is not None
    np.testing.assert_array_equal(held_out.images, data.train.images[180:])
    np.testing.assert_array_equal(train.labels, data.train.labels[:180])
    np.testing.assert_array_equal(hold_out(data.train)[1].labels, held_out.labels)
    assert split(without_validation(small_recipe()), data) == (data.train, None)


def test_something_is_learned(tmp_path: Path) -> None:
    result = fit.train(small_recipe("momentum", epochs=8), small_data(count=300), tmp_path, Listener())
    assert result["test_accuracy"] > 0.9
    assert result["parameters"] == sum(leaf.size for leaf in named_leaves(load(tmp_path).params).values())


@pytest.mark.parametrize("seeds", [(1,), (1, 2)])
def test_blocks_of_steps_are_the_same_steps(seeds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Eleven steps in blocks of four; cut at the third one, they are finished singly up to the next block."""
    recipe = small_recipe("sgd")
    one = engine_for(recipe, seeds)
    monkeypatch.setattr(JaxEngine, "steps_of_block", lambda engine: 4)
    other = engine_for(recipe, seeds)
    assert (one.block, one.rounding) == (1, 0)
    assert (other.block, other.rounding) == (4, 1)
    orders = [make_order("threefry", seed).shuffled(1, one.count) for seed in seeds]
    results = []
    for engine, cuts in ((one, (0, 11)), (other, (0, 11)), (other, (0, 3, 3, 9, 11))):
        params = [Threefry(seed).init(recipe.model) for seed in seeds]
        state = engine.start(stacked(params))
        losses = []
        for first, last in pairwise(cuts):
            state, taken = engine.run(state, engine.batches(orders, 1), first, last)
            assert taken.shape == ((len(seeds),) if seeds[1:] else ()) + (last - first,)
            losses.append(taken)
        results.append((np.concatenate(losses, axis=-1), state.params))
    for losses, params in results[1:]:
        np.testing.assert_allclose(losses, results[0][0], rtol=1e-6)
        assert largest_difference(params, results[0][1]) < 1e-6


def test_only_a_gpu_takes_its_steps_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of as many as an epoch is a multiple of: it is one program."""
    engine = engine_for(small_recipe("sgd"))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert engine.steps_of_block() == engine.steps == 11
    monkeypatch.setattr(jax_engine, "BLOCK", 10)
    assert engine.steps_of_block() == 1
    monkeypatch.setattr(jax_engine, "BLOCK", 128)
    monkeypatch.setattr(jax_engine, "SMALL", 10)
    assert engine.steps_of_block() == 1  # the model is large, and so is a step
