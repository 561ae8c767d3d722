"""A layer of somebody else's in C: registered, found by the plan, compiled with ours, and right."""

from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest

import glassformer
from glassformer import registry
from glassformer.errors import EngineError
from glassformer.native import build, kernels, register_kernel
from glassformer.native.kernels import KERNELS
from glassformer.native.lower import plan_for
from glassformer.train.jax_engine import JaxEngine

from .own_kernel import Scale, Scaled, register, scale
from .test_models import (
    curves,
    error,
    gradient_of,
    native,
    params_for,
    recipe_for,
    samples_for,
    true_gradient,
)

HERE = Path(__file__).with_name("own_kernel")


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register()
    yield
    KERNELS.pop(Scale, None)


def test_its_gradients_are_those_of_jax() -> None:
    recipe = recipe_for(Scaled())
    (loss, gradient), (true_loss, truth) = gradient_of(recipe, 2), true_gradient(recipe, 2)
    assert loss == pytest.approx(true_loss, rel=1e-5)
    assert error(gradient, truth) <= 1e-5


def test_its_own_backward_is_that_of_autodiff() -> None:
    """It is the referee of the test above."""
    model, params, images = Scaled(), params_for(Scaled()), samples_for(Scaled()).images
    y, cache = model.forward(params, images)
    dy = jax.random.normal(jax.random.key(1), y.shape)
    _, vjp = jax.vjp(lambda params: model.forward(params, images)[0], params)
    assert error(model.backward(params, cache, dy)[1], vjp(dy)[0]) <= 1e-5


def test_it_trains_and_scores() -> None:
    recipe, samples = recipe_for(Scaled(), 2), samples_for(Scaled())
    curve, truth = curves(recipe)
    np.testing.assert_allclose(curve, truth, rtol=2e-5)
    ours, theirs = (
        engine.score(params_for(recipe.model), samples) for engine in (native(recipe), JaxEngine(recipe, samples, (1,)))
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_what_is_not_registered_is_named() -> None:
    KERNELS.pop(Scale)
    with pytest.raises(EngineError, match=r"the native engine has no Scale yet \(scale\)"):
        plan_for(Scaled(), 1)


def test_it_is_found_in_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an installed package has its entry point: asked for when a layer has no C yet."""
    KERNELS.pop(Scale)
    monkeypatch.setattr(kernels, "ASKED", set())
    monkeypatch.setitem(registry._registered, "kernel", {})
    glassformer.register.kernel("scale")(register)
    assert Scale not in KERNELS
    assert [call.kernel for call in plan_for(Scaled(), 1).forward].count("scale_forward") == 2


def test_the_header_decides_what_is_built(tmp_path: Path) -> None:
    """Its folder goes to the compiler, and another header makes another library."""
    plan = plan_for(Scaled(), 1)
    assert plan.folders == [HERE]
    (tmp_path / "scale.h").write_text((HERE / "scale.h").read_text() + "/* changed */\n")
    fingerprints = {build.fingerprint("", folders) for folders in ((), (HERE,), (tmp_path,))}
    assert len(fingerprints) == 3


def test_a_header_that_another_folder_has(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"no header \(\*\.h\) lies in"):
        register_kernel(Scale, scale, include=tmp_path)
    (tmp_path / "linear.h").write_text("")
    with pytest.raises(EngineError, match=r"linear\.h lies in .* and in .*; rename the new one"):
        register_kernel(Scale, scale, include=tmp_path)
