"""GPT and BERT beyond their gradients: who sees whom, what learns, how weights start, and what is refused."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from glassformer.errors import ShapeError
from glassformer.layers import Rotary
from glassformer.losses import CrossEntropy
from glassformer.models import BERT, GPT, BERTFor, Llama, MaskedHead, Text
from glassformer.train import loss_and_gradient

from ..programs import forward
from .curves import by_backward, train

WORDS = Text(vocabulary=11, context=9)
WRITERS = {
    "learned": GPT(WORDS, width=12, hidden=20, heads=2, depth=2),
    "rotary": GPT(WORDS, width=12, hidden=20, heads=2, depth=2, rotary=Rotary(), tied=False),
    "llama": Llama(WORDS, width=12, hidden=14, heads=6, key_heads=2, depth=2),
}
READER = BERTFor(BERT(WORDS, width=12, hidden=20, heads=2, depth=2), MaskedHead(12, 11))


def drawn(model, seed=0):
    """Weights of a spread at which what a token sees makes a difference."""
    return jax.tree.map(lambda leaf: leaf * 10 if leaf.ndim == 2 else leaf, model.init(jax.random.key(seed)))


def changed(model, place: int, **keywords) -> np.ndarray:
    """At which places the logits change when the token at `place` does."""
    params, ids = drawn(model), np.arange(8)[None] % 5
    other = ids.copy()
    other[0, place] = 7
    logits, logits_other = (forward(model, params, jnp.asarray(x), **keywords) for x in (ids, other))
    return np.abs(logits - logits_other).max(axis=-1)[0] > 1e-6


@pytest.mark.parametrize("name", WRITERS)
def test_gpt_sees_the_past_only(name: str) -> None:
    assert changed(WRITERS[name], 3).tolist() == [False] * 3 + [True] * 5


def test_bert_sees_everything_but_padding() -> None:
    assert changed(READER, 3).all()
    hidden = jnp.arange(8)[None] != 3
    assert changed(READER, 3, keep=hidden).tolist() == [False] * 3 + [True] + [False] * 4


@pytest.mark.parametrize("name", WRITERS)
def test_order_matters(name: str) -> None:
    model, params = WRITERS[name], drawn(WRITERS[name])
    one, other = (forward(model, params, jnp.asarray([ids]))[0, -1] for ids in ([1, 2, 3, 4], [2, 1, 3, 4]))
    assert not np.allclose(one, other, atol=1e-3)


@pytest.mark.parametrize("model", [*WRITERS.values(), READER], ids=[*WRITERS, "bert"])
def test_one_batch_is_learned_by_heart(model) -> None:
    draw = np.random.default_rng(0)
    ids, labels = draw.integers(11, size=(2, 3, 7))
    every_step = (np.broadcast_to(a, (200, *a.shape)) for a in (ids, labels))
    losses, _ = train(by_backward(model), optax.adamw(1e-2), model.init(jax.random.key(0)), *every_step)
    assert losses[0] == pytest.approx(np.log(11), abs=0.2)  # knows nothing
    assert losses[-1] < 0.1


def test_weights_start_as_those_of_gpt_2() -> None:
    params = GPT(WORDS, width=64, hidden=256, heads=2, depth=8).init(jax.random.key(0))
    block = params.blocks[0]
    assert np.std(block.ff.w_up) == pytest.approx(0.02, rel=0.05)
    assert np.std(block.ff.w_down) == pytest.approx(0.02 / 4, rel=0.05)  # the square root of 2 * 8
    assert np.std(block.attn.w_o) == pytest.approx(0.02 / 4, rel=0.05)
    assert (block.norm1.gain == 1).all()
    assert (block.ff.b_up == 0).all()


def test_a_tied_table_has_one_gradient_for_both_of_its_uses() -> None:
    model = WRITERS["learned"]
    params, ids = drawn(model), jnp.asarray([[1, 2, 3]])
    own = replace(model, tied=False)
    apart = params._replace(head=params.embed)
    weights = {"labels": jnp.asarray([[2, 3, 4]])}
    _, together = loss_and_gradient(model, CrossEntropy(), params, ids, **weights)
    _, split = loss_and_gradient(own, CrossEntropy(), apart, ids, **weights)
    assert np.allclose(together.embed.emb, split.embed.emb + split.head.emb, atol=1e-6)


@pytest.mark.parametrize("model", [WRITERS["learned"], READER], ids=["GPT", "BERT"])
@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (
            jnp.zeros((2, 10), int),
            "10 tokens came, the context is 9; cut the text, or make the model with a context of",
        ),
        (jnp.zeros(5, int), r"int32 of shape \(5,\) came, expected integers \(batch, tokens\): .* ids\[None\]"),
        (jnp.zeros((2, 5)), r"float32 of shape \(2, 5\) came, expected integers"),
    ],
    ids=["too long", "no batch", "floats"],
)
def test_what_is_no_batch_of_ids_is_refused(model, ids, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        model.forward(model.init(jax.random.key(0)), ids)


def test_models_have_a_table() -> None:
    assert "blocks.1.attn" in str(WRITERS["learned"])
    assert "head.decoder" in str(READER)
