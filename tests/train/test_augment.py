"""Augmentation against SciPy's affine map, its draws, and what it must leave as it was."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import ndimage

from glassformer.errors import SettingError
from glassformer.names import named_leaves
from glassformer.train import fit
from glassformer.train.augment import (
    ASPECT,
    LARGEST,
    SMALLEST,
    Augment,
    Draws,
    augmented,
    draw,
    inverse_map,
    shifted,
    warped,
)
from glassformer.train.jax_engine import JaxEngine, loss_of_step
from glassformer.train.loop import InterruptedRunError, Listener, with_seed
from glassformer.train.recipe import Recipe, Training
from glassformer.train.resolve import load_for, resolved
from glassformer.train.rng import Threefry
from glassformer.train.settings import from_plain, to_plain, with_changes

from .small import Stop, assert_same_run, small_data, small_recipe, without_validation
from .small_texts import ready, small_text_recipe

ALL = Augment(rotate=40, scale=0.3, shear=0.3, erase=0.5)
KEY = jax.random.key(3)
ROWS, COLUMNS, CHANNELS = 9, 13, 3


def images(count: int = 20, dtype: Any = np.uint8) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (count, ROWS, COLUMNS, CHANNELS)).astype(dtype)


def by_scipy(images: np.ndarray, affine: np.ndarray, mode: str) -> np.ndarray:
    """Each channel by itself."""
    found = np.empty(images.shape)
    for i, image in enumerate(images):
        for k in range(image.shape[-1]):
            offset: Any = affine[i, :, 2]
            found[i, ..., k] = ndimage.affine_transform(
                image[..., k].astype(float), affine[i, :, :2], offset, order=1, mode=mode
            )
    return found


def whole(draws: Draws) -> Draws:
    """Nothing erased."""
    return draws._replace(erased=jnp.zeros_like(draws.erased))


def test_floats_are_those_of_scipy() -> None:
    """Colours, more columns than rows. Beyond the border lies black, and pixels there are blended with it."""
    draws, given = whole(draw(KEY, 20, (ROWS, COLUMNS), ALL, 3)), images(dtype=np.float32) / 255
    found, affine = warped(jnp.asarray(given), draws), np.asarray(draws.affine, float)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, by_scipy(given, affine, "grid-constant"), atol=1e-4)
    given[:, [0, -1]] = given[:, :, [0, -1]] = 0  # where the border is black itself, SciPy's other mode says the same
    np.testing.assert_allclose(warped(jnp.asarray(given), draws), by_scipy(given, affine, "constant"), atol=1e-4)


def test_bytes_are_the_nearest_of_what_scipy_finds() -> None:
    draws, given = whole(draw(KEY, 20, (ROWS, COLUMNS), ALL, 3)), images()
    found = warped(jnp.asarray(given), draws)
    assert found.dtype == jnp.uint8
    truth = by_scipy(given, np.asarray(draws.affine, float), "grid-constant")
    assert np.abs(np.asarray(found) - truth).max() <= 0.5 + 1e-2
    assert np.asarray(found).max() > 200


def test_the_inverse_map_undoes_scaling_shearing_rotating_and_moving() -> None:
    """By the matrices themselves, in the order of the docstring."""
    angle, scale, shear, move = 0.4, (1.3, 0.8), 0.25, (2, -3)
    ones = jnp.ones(1)
    affine = inverse_map(angle * ones, (scale[0] * ones, scale[1] * ones), shear * ones, jnp.array([move]), (9, 13))
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    old, centre = np.array([1.0, 11.0]), np.array([4.0, 6.0])
    new = turn @ np.array([[1, 0], [shear, 1]]) @ np.diag(scale) @ (old - centre) + centre + move
    np.testing.assert_allclose(affine[0] @ np.append(new, 1), old, atol=1e-5)


def test_a_setting_alone_does_what_it_is_called() -> None:
    count, identity = 2000, np.eye(2)
    linear = {
        name: np.asarray(draw(KEY, count, (28, 28), Augment(**{name: value}), 0).affine[:, :, :2])
        for name, value in {"rotate": 12, "scale": 0.12, "shear": 0.12, "erase": 0.2}.items()
    }
    degrees = np.degrees(np.arctan2(linear["rotate"][:, 0, 1], linear["rotate"][:, 0, 0]))
    np.testing.assert_allclose(linear["rotate"] @ linear["rotate"].transpose(0, 2, 1), [identity] * count, atol=1e-6)
    np.testing.assert_allclose([degrees.min(), degrees.max(), degrees.mean()], [-12, 12, 0], atol=0.4)
    factors: Any = 1 / linear["scale"][:, [0, 1], [0, 1]]
    np.testing.assert_allclose([*factors.min(0), *factors.max(0)], [0.88, 0.88, 1.12, 1.12], atol=1e-3)
    assert abs(np.asarray(np.corrcoef(factors.T))[0, 1]) < 0.1  # each axis by itself
    slides = linear["shear"][:, 1, 0]
    np.testing.assert_allclose([slides.min(), slides.max()], [-0.12, 0.12], atol=1e-3)
    assert (linear["shear"][:, [0, 0, 1], [0, 1, 1]] == [1, 0, 1]).all()
    assert (linear["erase"] == identity).all()


def test_erased_rectangles_lie_inside_and_have_the_promised_sizes() -> None:
    count, size = 3000, (28, 40)
    top, left, below, beside = np.asarray(draw(KEY, count, size, Augment(erase=0.3), 0).erased).T
    height, width = below - top, beside - left
    some = height > 0
    assert abs(some.mean() - 0.3) < 0.03
    assert not np.stack([top, left, below, beside])[:, ~some].any()
    assert min(top.min(), left.min()) >= 0
    assert below.max() == 28
    assert beside.max() == 40
    area = (height * width)[some] / (28 * 40)
    assert SMALLEST * 0.7 < area.min() < 0.03
    assert 0.18 < area.max() < LARGEST * 1.1
    ratio = (height / np.maximum(width, 1))[some]
    assert 1 / ASPECT / 1.3 < ratio.min() < 0.5
    assert 2 < ratio.max() < ASPECT * 1.3
    given = jnp.full((count, *size, 1), 200, jnp.uint8)
    seen = np.asarray(jax.jit(augmented, static_argnums=(2, 3))(KEY, given, Augment(erase=0.3), 0))
    assert ((seen == 0).sum((1, 2, 3)) == height * width).all()
    assert set(np.unique(seen)) == {0, 200}


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_moves_are_those_without_augmentation_to_the_bit(dtype: Any) -> None:
    """Pixels are interpolated once, and not at all where they only move."""
    given = jnp.asarray(images(dtype=dtype))
    moved = augmented(KEY, given, Augment(), 3)
    assert (moved == shifted(KEY, given, 3)).all()
    only_moved = warped(given, whole(draw(KEY, 20, (ROWS, COLUMNS), Augment(erase=1), 3)))
    assert only_moved.dtype == moved.dtype
    assert (only_moved == moved).all()
    assert augmented(KEY, given, Augment(), 0) is given


def test_one_setting_more_leaves_the_others_draws() -> None:
    few, many = (draw(KEY, 5, (8, 8), Augment(rotate=10, erase=erase), 2) for erase in (0.0, 1.0))
    assert (few.affine == many.affine).all()
    assert (draw(jax.random.key(4), 5, (8, 8), ALL, 2).affine != draw(KEY, 5, (8, 8), ALL, 2).affine).any()


def with_all(recipe: Recipe, **training: Any) -> Recipe:
    return replace(recipe, training=replace(recipe.training, augment=ALL, **training))


def test_a_batch_is_trained_on_as_its_draws_have_it() -> None:
    """Bytes in, bytes out: the model sees one scale."""
    recipe = with_all(small_recipe(), shift=1)
    engine, plain = (JaxEngine(each, small_data().train, (1,)) for each in (recipe, small_recipe()))
    params, order = Threefry(0).init(recipe.model), [np.arange(103)]
    batches = engine.batches(order, 1)
    key = jax.random.split(jax.random.fold_in(batches.key, 2))[0]
    changed = np.array(small_data().train.images)
    changed[20:30] = augmented(key, jnp.asarray(changed[20:30]), ALL, 1)
    same = plain.batches(order, 1)._replace(samples=plain.samples._replace(images=jnp.asarray(changed)))
    losses = [loss_of_step(each, params, batch, 2)[0] for each, batch in ((recipe, batches), (small_recipe(), same))]
    assert losses[0] == pytest.approx(float(losses[1]), abs=1e-6)
    assert losses[0] != loss_of_step(small_recipe(), params, plain.batches(order, 1), 2)[0]


def test_cut_in_the_middle_it_resumes_to_the_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accumulated, with averaged weights: every batch has draws of its own."""
    monkeypatch.setattr(fit, "load_for", lambda recipe, name, tokeniser: small_data(400))
    recipe = with_all(small_recipe(), batch=5, accumulate=3, ema=0.9, shift=1)
    fit.train(recipe, small_data(400), tmp_path / "whole", Listener())
    with pytest.raises(InterruptedRunError, match="stopped in epoch 1"):
        fit.train(recipe, small_data(400), tmp_path / "cut", Stop(after=1))
    fit.resume(tmp_path / "cut")
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_several_seeds_at_once_are_the_runs_of_each() -> None:
    recipe = without_validation(with_all(small_recipe(), shift=1))
    seeds = (2, 5)
    starts = [Threefry(seed).init(recipe.model) for seed in seeds]
    orders = [np.random.default_rng(seed).permutation(103) for seed in seeds]
    engine = JaxEngine(recipe, small_data().train, seeds)
    together, losses = engine.run(
        engine.start(jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)), engine.batches(orders, 1), 0, 11
    )
    for i, seed in enumerate(seeds):
        alone = JaxEngine(with_seed(recipe, seed), small_data().train, (seed,))
        state, own = alone.run(alone.start(Threefry(seed).init(recipe.model)), alone.batches([orders[i]], 1), 0, 11)
        np.testing.assert_allclose(losses[i], own, atol=1e-5)
        for name, leaf in named_leaves(state.params).items():
            np.testing.assert_allclose(named_leaves(together.params)[name][i], leaf, atol=1e-5, err_msg=name)


def test_settings_are_named_one_by_one_and_read_back() -> None:
    recipe = with_changes(Recipe(), ["training.augment.rotate=12", "training.augment.erase=0.2"])
    assert recipe.training.augment == Augment(rotate=12, erase=0.2)
    assert from_plain(Recipe, to_plain(recipe)) == recipe
    inline = with_changes(Recipe(), ["training.augment={rotate = 12.0, erase = 0.2}"])
    assert inline == recipe


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("rotate=-5", "training.augment: rotate is -5.*, expected degrees, which count each way: 0 to 180"),
        ("rotate=181", "training.augment: rotate is 181.*, expected degrees"),
        ("scale=1", "training.augment: scale is 1.*, expected a share .* 0 to below 1, such as 0.12"),
        ("scale=-0.1", "training.augment: scale is -0.1, expected a share"),
        ("shear=2", "training.augment: shear is 2.*, expected columns to a row: 0 to 1"),
        ("erase=1.5", "training.augment: erase is 1.5, expected a share of the images: 0 to 1"),
        ("erase=nan", "training.augment: erase is nan, expected a share of the images"),
        ("rotate=much", "training.augment.rotate: 'much' came; input should be a valid number"),
        ("rotat=5", "training.augment.rotat: Augment has no setting 'rotat' .did you mean 'rotate'"),
    ],
)
def test_what_makes_no_sense_is_refused(change: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        with_changes(Recipe(), [f"training.augment.{change}"])


def test_there_must_be_images() -> None:
    with pytest.raises(SettingError, match=r"training: augment changes images, .*leave training\.augment out"):
        ready(small_text_recipe("gpt", augment=Augment(rotate=5)))
    columns = from_plain(Recipe, {"model": {"kind": "tiny_iris"}, "data": "iris"})
    with pytest.raises(SettingError, match="training: augment changes images, and this model reads none"):
        resolved(replace(columns, training=Training(augment=Augment(erase=0.1))), load_for(columns, "iris"))
