"""Masks: who may look at whom, how they combine, and what is said of one that does not fit."""

import jax
import jax.numpy as jnp
import pytest

from glassformer.errors import ShapeError
from glassformer.layers import (
    Attention,
    CausalSelfAttention,
    Chain,
    FeedForward,
    LayerNorm,
    Linear,
    MultiHeadAttention,
    PostNormBlock,
    PreNormBlock,
    Residual,
    SelfAttention,
    attention,
    masks,
)

KEY = jax.random.key(0)
HEADS = MultiHeadAttention(6, heads=3)


def test_causal_mask_is_a_triangle_that_an_offset_shifts() -> None:
    assert jnp.array_equal(masks.causal(5), jnp.tril(jnp.ones((1, 1, 5, 5), bool)))
    whole = masks.causal(7)
    assert jnp.array_equal(masks.causal(2, 7, offset=4), whole[:, :, 4:6])
    assert jnp.array_equal(jax.jit(lambda at: masks.causal(2, 7, offset=at))(4), whole[:, :, 4:6])


def test_padding_mask_keeps_the_first_tokens_of_each_row() -> None:
    keep = masks.within(jnp.array([1, 3, 0]), 4)
    assert keep.tolist() == [[True, False, False, False], [True, True, True, False], [False] * 4]
    assert masks.padding(keep).shape == (3, 1, 1, 4)
    assert jnp.array_equal(masks.padding(keep.astype(jnp.int32)), masks.padding(keep))


def test_combined_allows_what_all_allow() -> None:
    padding, causal = masks.padding(masks.within(jnp.array([1, 3]), 3)), masks.causal(3)
    both = masks.combined(causal, None, padding)
    assert both is not None
    assert both[0, 0].tolist() == [[True, False, False]] * 3
    assert jnp.array_equal(both[1], causal[0])
    assert masks.combined(causal) is causal
    assert masks.combined(None) is masks.combined() is None


def test_masks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"masks: \(1, 1, 3, 3\) and \(2, 1, 1, 4\) do not fit together; each is \(B,"):
        masks.combined(masks.causal(3), jnp.ones((2, 1, 1, 4), bool))
    with pytest.raises(ShapeError, match="masks: number of axes is 2, expected 4"):
        masks.combined(jnp.ones((3, 3), bool))
    with pytest.raises(ShapeError, match=r"padding mask: number of axes is 1, expected 2; \(B, S\)"):
        masks.padding(jnp.ones(3, bool))
    with pytest.raises(ShapeError, match="number of axes of the lengths is 2, expected 1"):
        masks.within(jnp.ones((2, 3), int), 3)
    x = attention.Inputs(*[jnp.zeros((1, 3, 2, 4))] * 3)
    with pytest.raises(ShapeError, match=r"mask of shape \(5, 1, 1, 3\) came for scores of \(1, 2, 3, 3\)"):
        Attention().forward(None, x, mask=jnp.ones((5, 1, 1, 3), bool))
    with pytest.raises(ShapeError, match="the mask holds float32, expected bool: True where a query may look"):
        Attention().forward(None, x, mask=jnp.zeros((1, 1, 3, 3)))


def test_causal_self_attention_is_self_attention_with_both_masks() -> None:
    layer, x = CausalSelfAttention(HEADS), jax.random.normal(KEY, (2, 5, 6))
    params, padding = layer.init(KEY), masks.padding(masks.within(jnp.array([5, 2]), 5))
    for given in (None, padding):
        y, cache = layer.forward(params, x, mask=given)
        expected, same = SelfAttention(HEADS).forward(params, x, mask=masks.combined(masks.causal(5), given))
        assert jnp.array_equal(y, expected)
        assert jnp.array_equal(cache.pattern, same.pattern)
    assert not cache.pattern[1, :, :, 2:].any()
    assert not jnp.triu(cache.pattern, 1).any()


@pytest.mark.parametrize(
    "layer",
    [
        Residual(SelfAttention(HEADS)),
        Chain((Linear(6, 6), Residual(Chain((SelfAttention(HEADS),))))),
        PreNormBlock(LayerNorm(6), SelfAttention(HEADS), FeedForward(6, 7)),
        PostNormBlock(LayerNorm(6), SelfAttention(HEADS), FeedForward(6, 7)),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_a_mask_is_passed_on(layer) -> None:
    params, x = layer.init(KEY), jax.random.normal(KEY, (2, 5, 6))
    before, _ = layer.forward(params, x, mask=masks.causal(5))
    after, _ = layer.forward(params, x.at[:, 3:].set(9.0), mask=masks.causal(5))
    assert jnp.array_equal(before[:, :3], after[:, :3])
    assert not jnp.allclose(before[:, :3], layer.forward(params, x)[0][:, :3])
