"""Ten steps of training by the backward written by hand are ten steps of training by autodiff."""

import jax
import numpy as np
import optax
import pytest

from glassformer.names import named_leaves

from .curves import MODELS, batches, by_autodiff, by_backward, train


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
@pytest.mark.parametrize("name", MODELS)
def test_ten_steps_match_autodiff(name, optimiser):
    model, rule = MODELS[name], {"sgd": optax.sgd(0.1), "adamw": optax.adamw(1e-3, weight_decay=0.05)}[optimiser]
    with jax.enable_x64(True):
        params, data = model.init(jax.random.key(0)), batches(model)
        ours, params_ours = train(by_backward(model), rule, params, *data)
        theirs, params_theirs = train(by_autodiff(model), rule, params, *data)
    assert ours.dtype == np.float64
    assert np.abs(ours - theirs).max() < 1e-10
    assert ours[-1] < ours[0]
    if optimiser == "adamw":
        return  # it would divide the key bias's gradient, which is zero but for rounding, by its own size
    expected = named_leaves(params_theirs)
    for leaf, value in named_leaves(params_ours).items():
        assert np.abs(np.asarray(value) - np.asarray(expected[leaf])).max() < 1e-10, leaf
