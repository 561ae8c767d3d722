"""Backward against autodiff, against finite differences, and against JAX's own checker; shapes and tags on the way."""

import jax
import jax.numpy as jnp
import pytest
from jax.flatten_util import ravel_pytree
from jax.test_util import check_vjp

from glassformer import layers, losses, models
from glassformer.check import CASES, Case, check


def test_everything_agrees_with_both_referees(case: Case) -> None:
    report = check(case)
    assert report.problems == ()
    assert report.notes == ()  # every cache field is tagged under its own name
    assert report.against_autodiff <= 1e-9
    assert report.against_differences <= 1e-6


def test_another_draw_agrees_too() -> None:
    report = check(CASES["pre-norm block (mask, dropout)"], seed=7)
    assert report.ok, report.problems


@pytest.mark.parametrize(
    "name",
    [
        "linear",
        "layer norm",
        "attention (mask, bias, scale)",
        "cross-entropy",
        pytest.param("vit", marks=pytest.mark.slow),
    ],
)
def test_jax_own_checker_accepts_our_pair(name: str) -> None:
    case = CASES[name]
    with jax.enable_x64(True):
        drawn = case.draw(3, jnp.float64)
        vector, rebuild = ravel_pytree((drawn.params, drawn.x))

        def output(vector):
            return case.layer.forward(*rebuild(vector), **drawn.keywords)[0]

        def output_and_vjp(vector):
            params, x = rebuild(vector)
            y, cache = case.layer.forward(params, x, **drawn.keywords)

            def vjp(dy):
                dx, dparams = case.layer.backward(params, cache, dy)
                return (ravel_pytree((dparams, dx))[0],)

            return y, vjp

        check_vjp(jax.jit(output), output_and_vjp, (vector,), atol=1e-6, rtol=1e-6, eps=1e-5)


def test_no_layer_is_forgotten() -> None:
    public = {
        value
        for module in (layers, losses, models)
        for value in vars(module).values()
        if isinstance(value, type)
        and hasattr(value, "backward")
        and value not in (layers.Layer, losses.Loss, models.Network)
    }
    checked = {type(case.layer) for case in CASES.values()}
    assert public == checked
