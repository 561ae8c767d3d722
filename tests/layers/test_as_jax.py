"""A layer inside anyone's `jax.grad` code: its gradient there is its own backward."""

import jax
import jax.numpy as jnp
import pytest

from glassformer.check import CASES, gradient_error
from glassformer.layers import Dropout, Embedding, Linear, as_jax


class Marked(Linear):
    """A backward that can be told from autodiff."""

    def backward(self, params, cache, dy):
        dx, dparams = super().backward(params, cache, dy)
        return 7 * dx, dparams


@pytest.mark.parametrize("name", ["attention (mask, bias, scale)", "pre-norm block (mask, dropout)", "cross-entropy"])
def test_gradient_through_the_bridge_is_that_of_plain_jax(name: str) -> None:
    case = CASES[name]
    drawn = case.draw(1, jnp.float32)
    dy = case.draw_dy(1, drawn)

    def gradients(apply):
        def weighted(params, x):
            return sum(jnp.sum(a * b) for a, b in zip(*map(jax.tree.leaves, (apply(params, x), dy)), strict=True))

        return jax.jit(jax.grad(weighted, argnums=(0, 1)))(drawn.params, drawn.x)

    ours = gradients(lambda params, x: as_jax(case.layer)(params, x, **drawn.keywords))
    plain = gradients(lambda params, x: case.layer.forward(params, x, **drawn.keywords)[0])
    assert gradient_error(ours, plain) < 1e-5


def test_it_is_the_layers_own_backward_that_runs() -> None:
    params, x = Linear(3, 2).init(jax.random.key(0)), jnp.ones((4, 3))
    marked = jax.grad(lambda x: as_jax(Marked(3, 2))(params, x).sum())(x)
    plain = jax.grad(lambda x: as_jax(Linear(3, 2))(params, x).sum())(x)
    assert jnp.allclose(marked, 7 * plain)


def test_integers_and_keys_pass_through() -> None:
    embedding = Embedding(5, 3)
    params = embedding.init(jax.random.key(0))
    ids = jnp.array([[1, 1, 4]])
    d = jax.grad(lambda params: as_jax(embedding)(params, ids).sum())(params)
    assert d.emb[:, 0].tolist() == [0, 2, 0, 0, 1]
    dropped = as_jax(Dropout(0.5))
    d = jax.grad(lambda x: dropped(None, x, key=jax.random.key(3)).sum())(jnp.ones(100))
    assert set(d.tolist()) == {0.0, 2.0}


def test_vmap_over_seeds() -> None:
    layer = Linear(3, 2)
    params = jax.vmap(layer.init)(jax.random.split(jax.random.key(0), 5))
    y = jax.vmap(as_jax(layer), in_axes=(0, None))(params, jnp.ones((4, 3)))
    assert y.shape == (5, 4, 2)
