"""Training on the native engine, from recipe to run folder: as the jax engine does it, and what only this one has."""

import dataclasses
from pathlib import Path

import jax
import numpy as np
import pytest

from glassformer.data import Dataset, load
from glassformer.errors import EngineError, TrainingError
from glassformer.models import PatchAttention, ViT
from glassformer.train import fit
from glassformer.train.engines import choose
from glassformer.train.loop import Listener
from glassformer.train.optimiser import Optimiser, Schedule
from glassformer.train.presets import preset
from glassformer.train.recipe import Engine, Recipe, Training, Validation
from glassformer.train.resolve import resolved

SEEDS = (1, 2, 3, 4, 5)


class Notices(Listener):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def notice(self, text: str) -> None:
        self.heard.append(text)


def on(recipe: Recipe, name: str, threads: int = 0) -> Recipe:
    return dataclasses.replace(recipe, engine=dataclasses.replace(recipe.engine, name=name, threads=threads))  # pyright: ignore


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load("mnist-mini")


@pytest.fixture(scope="module")
def few_digits(digits: Dataset) -> Dataset:
    train = digits.train._replace(images=digits.train.images[:300], labels=digits.train.labels[:300])
    return digits._replace(train=train)


@pytest.mark.slow
def test_full_trainings_agree_with_the_jax_engine_within_noise(digits: Dataset, tmp_path: Path) -> None:
    """Same seeds: same first weights, same order. Rounding drives single runs apart, but not their mean."""
    small = resolved(dataclasses.replace(preset("vit-pico"), training=Training(epochs=6, batch=32)), digits)
    results = {
        name: fit.train_many(on(small, name), digits, tmp_path / name, SEEDS, Listener()) for name in ("native", "jax")
    }
    scores = {name: np.array([run["test_accuracy"] for run in result["runs"]]) for name, result in results.items()}
    gaps = scores["native"] - scores["jax"]
    noise = scores["jax"].std(ddof=1)
    assert min(scores["native"].min(), scores["jax"].min()) > 0.8
    assert abs(gaps.mean()) < 3 * noise / len(SEEDS) ** 0.5 + 0.002
    assert results["native"]["engine"] == "native"


def test_auto_takes_the_native_engine_and_the_recipe_remembers(few_digits: Dataset, tmp_path: Path) -> None:
    recipe = resolved(dataclasses.replace(preset("attention-pool"), training=Training(epochs=1)), few_digits)
    result = fit.train(recipe, few_digits, tmp_path, Listener())
    assert result["engine"] == "native"
    kept = fit.RunFolder(tmp_path).recipe().engine
    assert (kept.name, kept.threads) == ("native", 0)


def test_what_is_not_covered_runs_on_jax_with_one_line(few_digits: Dataset) -> None:
    recipe = resolved(Recipe(model=ViT(width=8, heads=2, hidden=8, dropout=0.1)), few_digits)
    listener = Notices()
    engine = choose(recipe, few_digits.train, listener.notice)
    assert engine.name == "jax"
    assert listener.heard == ["engine jax: the native engine has Dropout in models of texts only (blocks.0.drop1)"]


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (Recipe(model=ViT(dropout=0.1)), r"has Dropout in models of texts only \(blocks\.0\.drop1\)"),
        (Recipe(optimiser=Optimiser(name="lion")), r"no optimiser lion \(it has sgd, momentum, adam, adamw\)"),
    ],
)
def test_asked_for_by_name_it_refuses_and_names_the_part(recipe: Recipe, message: str, few_digits: Dataset) -> None:
    with pytest.raises(EngineError, match=message):
        choose(on(recipe, "native"), few_digits.train, print)


def test_several_seeds_take_turns(few_digits: Dataset, tmp_path: Path) -> None:
    recipe = resolved(Recipe(model=PatchAttention(), training=Training(epochs=1)), few_digits)
    listener = Notices()
    result = fit.train_many(on(recipe, "native"), few_digits, tmp_path, (3, 8), listener)
    assert [run["seed"] for run in result["runs"]] == [3, 8]
    assert [text for text in listener.heard if text.startswith("seed")] == ["seed 3", "seed 8"]
    assert (tmp_path / "seed-8" / "model.safetensors").is_file()


def test_a_loss_that_is_not_finite_is_explained(few_digits: Dataset, tmp_path: Path) -> None:
    recipe = Recipe(model=PatchAttention(), training=Training(epochs=2), optimiser=Optimiser(lr=1e20))
    with pytest.raises(TrainingError, match=r"at step \d+ of epoch 1 the loss is not finite; the first such value is"):
        fit.train(on(resolved(recipe, few_digits), "native"), few_digits, tmp_path, Listener())


def test_early_stopping_and_schedules_are_the_loops_own(few_digits: Dataset, tmp_path: Path) -> None:
    """The learning rates of a warm-up and a cosine, and a stop after two epochs without improvement."""
    recipe = Recipe(
        model=PatchAttention(),
        training=Training(epochs=8),
        optimiser=Optimiser(name="adamw", lr=1e-6, schedule=Schedule(kind="warmup-cosine")),
        validation=Validation(share=0.2, patience=2, min_delta=50.0),
    )
    result = fit.train(on(resolved(recipe, few_digits), "native"), few_digits, tmp_path, Listener())
    assert result["epochs"] == 3
    assert result["best_epoch"] == 1


def test_a_run_goes_on_with_the_other_engine(few_digits: Dataset, tmp_path: Path) -> None:
    """Both keep the same state, so it can be taken over; then it agrees to rounding, no longer to the bit."""
    recipe = resolved(
        Recipe(model=PatchAttention(), training=Training(epochs=1), optimiser=Optimiser(name="adamw", lr=1e-3)),
        few_digits,
    )
    native, other = (choose(on(recipe, name), few_digits.train, print) for name in ("native", "jax"))
    order = np.random.default_rng(0).permutation(300).astype(np.int32)
    params = recipe.model.init(jax.random.key(0))
    halfway, _ = native.run(native.start(params), native.batches([order], 1), 0, 5)
    _, on_jax = other.run(jax.tree.map(jax.numpy.asarray, halfway), other.batches([order], 1), 5, 10)
    _, on_native = native.run(halfway, native.batches([order], 1), 5, 10)
    np.testing.assert_allclose(on_native, on_jax, rtol=1e-5)


def test_threads_come_from_the_recipe(few_digits: Dataset) -> None:
    recipe = resolved(Recipe(model=PatchAttention(), engine=Engine(name="native", threads=3)), few_digits)
    assert getattr(choose(recipe, few_digits.train, print), "threads", None) == 3
