"""The same result compiled and uncompiled, one by one and batched by vmap; precision is kept.

Errors are counted as for gradients: the largest difference, over the largest value among all results.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer.check import Case, gradient_error
from glassformer.check.draw import cast, is_float
from glassformer.names import named_leaves


def forward_and_backward(case: Case, drawn, dy):
    y, cache = case.layer.forward(drawn.params, drawn.x, **drawn.keywords)
    dx, dparams = case.layer.backward(drawn.params, cache, dy)
    return y, dx, dparams


@partial(jax.jit, static_argnums=0)
def compiled(case: Case, drawn, dy):
    return forward_and_backward(case, drawn, dy)


@partial(jax.jit, static_argnums=0)
def batched(case: Case, draws, dys):
    return jax.vmap(forward_and_backward, in_axes=(None, 0, 0))(case, stack(draws, jnp), stack(dys, jnp))


def stack(trees, numpy=np):
    return jax.tree.map(lambda *leaves: numpy.stack(leaves), *trees)


def test_same_under_jit_and_vmap(case: Case) -> None:
    seeds = (1, 2, 3)
    draws = [case.draw(seed, jnp.float32) for seed in seeds]
    dys = [case.draw_dy(seed, drawn) for seed, drawn in zip(seeds, draws, strict=True)]
    one_by_one = [compiled(case, drawn, dy) for drawn, dy in zip(draws, dys, strict=True)]
    assert gradient_error(one_by_one[0], forward_and_backward(case, draws[0], dys[0])) < 1e-5
    assert gradient_error(batched(case, draws, dys), stack(one_by_one)) < 1e-5


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_precision_is_kept(case: Case, dtype) -> None:
    """Also while float64 is allowed: no constant of a layer may lift the precision of its input."""
    with jax.enable_x64(True):
        drawn = case.draw(1, dtype)

        def everything(drawn, dy):
            y, cache = case.layer.forward(drawn.params, drawn.x, **drawn.keywords)
            return y, cache, case.layer.backward(drawn.params, cache, dy)

        dy = cast(case.draw_dy(1, drawn), dtype)
        results = named_leaves(jax.eval_shape(everything, drawn, dy))
    wrong = {name: leaf.dtype for name, leaf in results.items() if is_float(leaf) and leaf.dtype != dtype}
    assert wrong == {}
