"""Ten steps of training by the backward written by hand are ten steps of training by autodiff."""

import jax
import numpy as np
import pytest

from glassformer.names import named_leaves

from .curves import MODELS, OPTIMISERS, batches, by_autodiff, ten_steps, train


@pytest.mark.parametrize("optimiser", ["sgd", pytest.param("adamw", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MODELS)
def test_ten_steps_match_autodiff(name, optimiser):
    model, rule = MODELS[name], OPTIMISERS[optimiser]
    ours, params_ours = ten_steps(name, optimiser, "float64")
    with jax.enable_x64(True):
        theirs, params_theirs = train(by_autodiff(model), rule, model.init(jax.random.key(0)), *batches(model))
    assert ours.dtype == np.float64
    assert np.abs(ours - theirs).max() < 1e-10
    assert ours[-1] < ours[0]
    if optimiser == "adamw":
        return  # it would divide the key bias's gradient, which is zero but for rounding, by its own size
    expected = named_leaves(params_theirs)
    for leaf, value in named_leaves(params_ours).items():
        assert np.abs(np.asarray(value) - np.asarray(expected[leaf])).max() < 1e-10, leaf
