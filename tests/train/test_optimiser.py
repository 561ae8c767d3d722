"""Schedules against their formulas; optimisers by name; clipping."""

from math import cos, pi
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from glassformer.errors import SettingError
from glassformer.train.optimiser import PRESETS, Optimiser, Schedule, known_names
from glassformer.train.recipe import Recipe
from glassformer.train.resolve import resolved

from .small import small_data

STEPS, EPOCHS = 10, 8  # 80 steps in all


def rates(at: list[int], peak: float = 0.4, **settings: Any) -> list[float]:
    rate = Schedule(**settings).rate(peak, STEPS, EPOCHS)
    return [float(np.asarray(rate(step))) for step in at]


def updates(gradient: Any, params: Any = None, steps: int = 1, **settings: Any) -> Any:
    """What the last of so many equal steps adds to the parameters."""
    transformation = Optimiser(**settings).transformation(STEPS, EPOCHS)
    params = gradient if params is None else params
    memory, update = transformation.init(params), None
    for _ in range(steps):
        update, memory = transformation.update(gradient, memory, params)
    return update


def test_constant() -> None:
    assert rates([0, 79], kind="constant") == pytest.approx([0.4, 0.4])


def test_step_falls_between_epochs() -> None:
    """0.01, then half of it after epoch 3: what the first investigation proposed."""
    at = rates([0, 29, 30, 59, 60], peak=0.01, kind="step", every=3, factor=0.5)
    assert at == pytest.approx([0.01, 0.01, 0.005, 0.005, 0.0025])


def test_exponential_falls_at_every_step() -> None:
    at = [0, 1, 10, 25]
    expected = [0.4 * 0.25 ** (step / 20) for step in at]
    assert rates(at, kind="exponential", every=2, factor=0.25) == pytest.approx(expected)


def test_cosine() -> None:
    at = [0, 20, 40, 79, 80]
    expected = [0.4 * (0.1 + 0.9 * (1 + cos(pi * step / 80)) / 2) for step in at]
    assert rates(at, kind="cosine", final=0.1) == pytest.approx(expected)


def test_warmup_rises_in_a_line_then_falls_as_a_cosine() -> None:
    """A quarter of 80 steps rises; the other 60 fall."""
    expected = [0.4 * step / 20 for step in (0, 5, 19)] + [
        0.4 * (0.1 + 0.9 * (1 + cos(pi * (step - 20) / 60)) / 2) for step in (20, 35, 50, 79, 80)
    ]
    at = rates([0, 5, 19, 20, 35, 50, 79, 80], kind="warmup-cosine", warmup=0.25, final=0.1)
    assert at == pytest.approx(expected)


def test_a_run_of_one_step_has_a_schedule_too() -> None:
    rate = Schedule(kind="warmup-cosine").rate(0.4, 1, 1)
    assert np.isfinite([float(np.asarray(rate(step))) for step in (0, 1)]).all()


def test_clipping_shortens_long_gradients_and_leaves_short_ones() -> None:
    long, short = {"a": jnp.array([30.0, 0.0]), "b": jnp.array(40.0)}, {"a": jnp.array([0.3, 0.0]), "b": jnp.array(0.4)}
    clipped = updates(long, lr=0.1, clip=2.0)  # of norm 50
    np.testing.assert_allclose(clipped["a"], [-0.1 * 30 / 25, 0], rtol=1e-6)
    np.testing.assert_allclose(clipped["b"], -0.1 * 40 / 25, rtol=1e-6)
    np.testing.assert_allclose(updates(short, lr=0.1, clip=2.0)["b"], -0.04, rtol=1e-6)
    np.testing.assert_allclose(updates(long, lr=0.1)["b"], -4.0, rtol=1e-6)


def test_the_presets_do_what_their_names_say() -> None:
    gradient, params = jnp.array([3.0, -0.01]), jnp.array([2.0, 1.0])
    np.testing.assert_allclose(updates(gradient, name="sgd", lr=0.1, steps=2), -0.1 * gradient, rtol=1e-6)
    np.testing.assert_allclose(
        updates(gradient, name="momentum", lr=0.1, momentum=0.5, steps=3), -0.1 * 1.75 * gradient, rtol=1e-6
    )
    np.testing.assert_allclose(updates(gradient, name="adam", lr=0.1), -0.1 * np.sign(gradient), rtol=1e-4)
    np.testing.assert_allclose(
        updates(gradient, params, name="adamw", lr=0.1, weight_decay=0.2),
        -0.1 * (np.sign(gradient) + 0.2 * params),
        rtol=1e-4,
    )
    one, other = (updates(gradient, name="adam", lr=0.1, b2=b2, steps=3) for b2 in (0.9, 0.999))
    assert np.allclose(one, other, rtol=1e-4)  # equal steps: the bias correction leaves nothing of b2
    assert list(PRESETS) == known_names()[:4]


@pytest.mark.parametrize("name", [*PRESETS, "lion", "rmsprop", "lamb", "adafactor"])
def test_any_optimiser_of_optax_is_known_by_its_name(name: str) -> None:
    """Five steps down a bowl."""
    transformation = Optimiser(name=name, lr=0.02, schedule=Schedule(kind="cosine")).transformation(200, 1)
    params: Any = jnp.array([1.0, -2.0])
    memory = transformation.init(params)
    for _ in range(5):
        update, memory = transformation.update(2 * params, memory, params)
        params = optax.apply_updates(params, update)
    assert float(jnp.sum(params**2)) < 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "adamm"}, r"optimiser: 'adamm' is not known \(did you mean 'adam"),
        ({"name": "lionn"}, r"'lionn' is not known \(did you mean 'lion'\?\); there are sgd, momentum, adam, adamw"),
        ({"name": "apply_updates"}, "'apply_updates' is not known"),
        ({"name": "lbfgs"}, "optimiser: lbfgs cannot be used here: .*missing 3 required"),
        ({"name": "rprop"}, "optimiser: rprop cannot be used here: "),
        ({"lr": 0}, "optimiser: lr is 0, expected a number above 0"),
        ({"lr": -1.0}, "lr is -1.0, expected a number above 0"),
        ({"lr": float("nan")}, "lr is nan, expected a number above 0"),
        ({"clip": -1.0}, "clip -1.0 and weight_decay 0.0 must not be below 0"),
        ({"weight_decay": -1.0}, "weight_decay -1.0 must not be below 0"),
    ],
)
def test_what_cannot_be_used_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Optimiser(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weight_decay": 0.1}, "sgd does not use weight_decay, which is 0.1; .* --set optimiser.weight_decay=0.0$"),
        ({"name": "momentum", "b1": 0.8}, "momentum does not use b1, which is 0.8; choose an optimiser that does"),
        (
            {"name": "adam", "momentum": 0.5},
            "adam does not use momentum, which is 0.5; .* --set optimiser.momentum=0.9$",
        ),
        ({"name": "adam", "weight_decay": 0.1}, "adam does not use weight_decay"),
        ({"name": "adamw", "momentum": 0.0}, "adamw does not use momentum"),
        (
            {"name": "lion", "b2": 0.9, "weight_decay": 1.0},
            "lion does not use b2, which is 0.9 and weight_decay, which",
        ),
    ],
)
def test_a_setting_without_effect_is_refused(settings: dict[str, Any], message: str) -> None:
    recipe = Recipe(optimiser=Optimiser(**settings))
    with pytest.raises(SettingError, match=f"optimiser: {message}"):
        resolved(recipe, small_data())


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "momentum", "momentum": 0.5},
        {"name": "adam", "b1": 0.5, "b2": 0.5},
        {"name": "adamw", "b1": 0.5, "b2": 0.5, "weight_decay": 1.0},
        {"name": "lion", "clip": 1.0},
    ],
)
def test_a_setting_with_an_effect_is_not(settings: dict[str, Any]) -> None:
    assert resolved(Recipe(optimiser=Optimiser(**settings)), small_data()).optimiser == Optimiser(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"every": 0}, "schedule: every is 0, expected 1 or more"),
        ({"factor": 0.0}, "schedule: factor is 0.0, expected a number above 0"),
        ({"warmup": 1.0}, "schedule: warmup 1.0 and final 0.0 are shares"),
        ({"final": -0.1}, "schedule: warmup 0.1 and final -0.1 are shares"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Schedule(**settings)
