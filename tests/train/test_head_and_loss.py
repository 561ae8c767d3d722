"""Head and loss in pieces are the head and the loss."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer.layers import TiedHead
from glassformer.layers.tied_head import Inputs
from glassformer.losses import CrossEntropy, HeadAndLoss
from glassformer.models import GPT, Text
from glassformer.names import named_leaves
from glassformer.train import gradient


def drawn(dtype: type = np.float64) -> tuple[Inputs, jax.Array, jax.Array]:
    rng = np.random.default_rng(0)
    inputs = Inputs(x=jnp.asarray(rng.normal(size=(3, 7, 4)), dtype), emb=jnp.asarray(rng.normal(size=(11, 4)), dtype))
    weights = jnp.asarray(rng.random((3, 7)) * (rng.random((3, 7)) > 0.2), dtype)
    return inputs, jnp.asarray(rng.integers(0, 11, (3, 7))), weights


@pytest.mark.parametrize("piece", [1, 4, 21, 100])
def test_any_pieces_are_head_and_cross_entropy(piece: int) -> None:
    with jax.enable_x64(True):
        inputs, labels, weights = drawn()
        logits, head = TiedHead(11).forward(None, inputs)
        expected, cache = CrossEntropy().forward(None, logits, labels=labels, weights=weights)
        dlogits, _ = CrossEntropy().backward(None, cache, jnp.asarray(0.7))
        wanted, _ = TiedHead(11).backward(None, head, dlogits)
        loss, kept = HeadAndLoss(piece).forward(None, inputs, labels=labels, weights=weights)
        found, _ = HeadAndLoss(piece).backward(None, kept, jnp.asarray(0.7))
        np.testing.assert_allclose(loss, expected, rtol=1e-12)
        np.testing.assert_allclose(found.x, wanted.x, atol=1e-14)
        np.testing.assert_allclose(found.emb, wanted.emb, atol=1e-14)


def test_the_gradient_is_that_of_autodiff() -> None:
    with jax.enable_x64(True):
        inputs, labels, weights = drawn()

        def loss(inputs: Inputs) -> jax.Array:
            log_p = jax.nn.log_softmax(inputs.x @ inputs.emb.T)
            picked = jnp.take_along_axis(log_p, labels[..., None], axis=-1)[..., 0]
            return -jnp.sum(weights * picked) / jnp.sum(weights)

        expected = jax.grad(loss)(inputs)
        value, kept = HeadAndLoss(5).forward(None, inputs, labels=labels, weights=weights)
        found, _ = HeadAndLoss(5).backward(None, kept, jnp.ones(()))
        np.testing.assert_allclose(value, loss(inputs), rtol=1e-12)
        np.testing.assert_allclose(found.x, expected.x, atol=1e-14)
        np.testing.assert_allclose(found.emb, expected.emb, atol=1e-14)


def test_a_label_that_is_no_symbol_shows() -> None:
    inputs, labels, _ = drawn(np.float32)
    loss, _ = HeadAndLoss(4).forward(None, inputs, labels=labels.at[0, 0].set(11))
    assert jnp.isnan(loss)


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_with_many_symbols_trains_in_pieces(tied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = GPT(Text(vocabulary=23, context=8), width=8, hidden=16, heads=2, depth=2, tied=tied)
    params = model.init(jax.random.key(0))
    x = jax.random.randint(jax.random.key(1), (3, 8), 0, 23)
    weights = jnp.ones(x.shape).at[0, :5].set(0)

    def both() -> tuple[jax.Array, dict[str, jax.Array]]:
        loss, dparams = gradient.loss_and_gradient(
            model, CrossEntropy(), params, x, labels=jnp.roll(x, -1, 1), weights=weights
        )
        return loss, named_leaves(dparams)

    whole, dwhole = both()
    monkeypatch.setattr(gradient, "LARGE", 0)
    monkeypatch.setattr(GPT, "forward", None)  # it is not asked
    pieces, dpieces = both()
    np.testing.assert_allclose(pieces, whole, rtol=1e-6)
    assert dwhole.keys() == dpieces.keys()
    for name, leaf in dwhole.items():
        np.testing.assert_allclose(dpieces[name], leaf, atol=1e-6, err_msg=name)
