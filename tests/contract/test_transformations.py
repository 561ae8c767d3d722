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
from glassformer.losses import HeadAndLoss, Loss
from glassformer.models.model import Network
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


# What is float32 where bfloat16 comes in: sums of many numbers. All else has the type that comes in.
WIDE = (".std_inv", ".rms_inv", ".norm_inv", ".lse", ".log_p", ".share", ".d", ".slope_emb", "dx.emb", ".frequency")


def everything(case: Case, drawn, dy):
    y, cache = case.layer.forward(drawn.params, drawn.x, **drawn.keywords)
    dx, dparams = case.layer.backward(drawn.params, cache, dy)
    return {"y": y, "cache": cache, "dx": dx, "dparams": dparams}


def is_wide(case: Case, name: str) -> bool:
    """The gradients of weights, what a loss gives, and the cached values above."""
    part = name.partition(".")[0]
    of_loss = {Loss: ("y", "dx"), HeadAndLoss: ("y",)}
    parts = [part for kind, parts in of_loss.items() if isinstance(case.layer, kind) for part in parts]
    return part == "dparams" or name.endswith(WIDE) or part in parts


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_precision_is_kept(case: Case, dtype) -> None:
    """Also while float64 is allowed: no constant of a layer may lift the precision of its input."""
    with jax.enable_x64(True):
        drawn = case.draw(1, dtype)
        dy = cast(case.draw_dy(1, drawn), dtype)
        results = named_leaves(jax.eval_shape(partial(everything, case), drawn, dy))
    expected = {name: jnp.float32 if is_wide(case, name) else dtype for name in results}
    wrong = {name: leaf.dtype for name, leaf in results.items() if is_float(leaf) and leaf.dtype != expected[name]}
    assert wrong == {}


@pytest.mark.slow
def test_bfloat16_is_close_to_float64(case: Case) -> None:
    """Of the very same numbers. Rounding adds up along the layers of a model."""
    most = 0.15 if isinstance(case.layer, Network) else 0.03
    with jax.enable_x64(True):
        drawn = case.draw(1, jnp.bfloat16)
        dy = cast(case.draw_dy(1, drawn), jnp.bfloat16)
        narrow = everything(case, drawn, dy)
        exact = everything(case, cast(drawn, jnp.float64), cast(dy, jnp.float64))
        for part in ("y", "dx", "dparams"):
            assert gradient_error(cast(narrow[part], jnp.float64), exact[part]) < most, part
