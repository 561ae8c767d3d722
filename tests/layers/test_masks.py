"""Masks: who may look at whom, how they combine, and what is said of one that does not fit."""

import jax
import jax.numpy as jnp
import pytest

from glassformer.errors import SettingError, ShapeError
from glassformer.layers import (
    Attention,
    CausalSelfAttention,
    FeedForward,
    LayerNorm,
    Mask,
    MultiHeadAttention,
    PostNormBlock,
    PreNorm,
    PreNormBlock,
    Residual,
    SelfAttention,
    attention,
    masks,
)

KEY = jax.random.key(0)
HEADS = MultiHeadAttention(6, heads=3)


def test_causal_mask_is_a_triangle_that_an_offset_shifts() -> None:
    causal = Mask(causal=True)
    whole = causal.whole(7, 7)
    assert whole is not None
    assert jnp.array_equal(whole, jnp.tril(jnp.ones((1, 1, 7, 7), bool)))
    shifted = jax.jit(lambda at: Mask(causal=True, offset=at).whole(2, 7))
    assert jnp.array_equal(shifted(4), whole[:, :, 4:6])
    each = shifted(jnp.array([4, 0]))  # every row at a place of its own
    assert jnp.array_equal(each[:, 0], jnp.stack([whole[0, 0, 4:6], whole[0, 0, :2]]))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("window", "first"), [(1, 0), (3, 0), (2, 2), (9, 1)])
def test_a_window_counts_the_token_itself(window: int, first: int, causal: bool) -> None:
    mask = Mask(causal=causal, window=window, global_tokens=first).whole(6, 6)
    assert mask is not None
    for t in range(6):
        for s in range(6):
            near = abs(t - s) < window or t < first or s < first
            assert mask[0, 0, t, s] == (near and (s <= t or not causal))


def test_padding_mask_keeps_the_first_tokens_of_each_row() -> None:
    keep = masks.within(jnp.array([1, 3, 0]), 4)
    assert keep.tolist() == [[True, False, False, False], [True, True, True, False], [False] * 4]
    for given in (keep, keep.astype(jnp.int32)):
        whole = Mask(keep=given).whole(5, 4)
        assert whole is not None
        assert jnp.array_equal(whole, keep[:, None, None])  # of all queries alike: no T x S


def test_a_mask_allows_what_all_of_it_allows() -> None:
    keep = masks.within(jnp.array([1, 3]), 3)
    both = Mask(keep=keep, causal=True).whole(3, 3)
    assert both is not None
    assert both[0, 0].tolist() == [[True, False, False]] * 3
    assert jnp.array_equal(both[1, 0], jnp.tril(jnp.ones((3, 3), bool)))
    assert Mask().whole(3, 3) is None
    dense = jnp.ones((1, 1, 3, 3), bool)
    assert Mask(dense=dense).whole(3, 3) is dense
    assert masks.as_mask(dense).dense is dense
    assert masks.and_causal(None) == Mask(causal=True)


def test_masks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"masks: \(2, 1, 1, 4\) and \(1, 1, 3, 3\) do not fit together; each is \(B,"):
        Mask(dense=jnp.ones((2, 1, 1, 4), bool), causal=True).whole(3, 3)
    with pytest.raises(ShapeError, match="masks: number of axes of the mask is 2, expected 4"):
        Mask(dense=jnp.ones((3, 3), bool)).whole(3, 3)
    with pytest.raises(ShapeError, match=r"padding mask: number of axes is 1, expected 2; \(B, S\)"):
        Mask(keep=jnp.ones(3, bool)).whole(3, 3)
    with pytest.raises(ShapeError, match="number of axes of the lengths is 2, expected 1"):
        masks.within(jnp.ones((2, 3), int), 3)
    x = attention.Inputs(*[jnp.zeros((1, 3, 2, 4))] * 3)
    with pytest.raises(ShapeError, match=r"mask of shape \(5, 1, 1, 3\) came for scores of \(1, 2, 3, 3\)"):
        Attention().forward(None, x, mask=jnp.ones((5, 1, 1, 3), bool))
    with pytest.raises(ShapeError, match="the mask holds float32, expected bool: True where a query may look"):
        Attention().forward(None, x, mask=jnp.zeros((1, 1, 3, 3)))
    with pytest.raises(SettingError, match="attention: window is 0, expected 1 or more"):
        Mask(window=0)
    with pytest.raises(SettingError, match="2 global tokens came without a window, where every token sees all; se"):
        Mask(global_tokens=2)


def test_causal_self_attention_is_self_attention_with_both_masks() -> None:
    layer, x = CausalSelfAttention(HEADS), jax.random.normal(KEY, (2, 5, 6))
    params, keep = layer.init(KEY), masks.within(jnp.array([5, 2]), 5)
    dense = jnp.tril(jnp.ones((1, 1, 5, 5), bool))
    turned = dense[..., ::-1]
    for given, same in ((None, dense), (Mask(keep=keep), dense & keep[:, None, None]), (turned, dense & turned)):
        y, cache = layer.forward(params, x, mask=given)
        expected, other = SelfAttention(HEADS).forward(params, x, mask=same)
        assert jnp.array_equal(y, expected)
        assert jnp.array_equal(cache.unscoped.pattern, other.unscoped.pattern)
        assert not jnp.triu(cache.unscoped.pattern, 1).any()


@pytest.mark.parametrize(
    "layer",
    [
        Residual(SelfAttention(HEADS)),
        PreNorm(LayerNorm(6), Residual(SelfAttention(HEADS))),
        PreNormBlock(LayerNorm(6), SelfAttention(HEADS), FeedForward(6, 7)),
        PostNormBlock(LayerNorm(6), SelfAttention(HEADS), FeedForward(6, 7)),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_a_mask_is_passed_on(layer) -> None:
    params, x = layer.init(KEY), jax.random.normal(KEY, (2, 5, 6))
    before, _ = layer.forward(params, x, mask=Mask(causal=True))
    after, _ = layer.forward(params, x.at[:, 3:].set(9.0), mask=Mask(causal=True))
    assert jnp.array_equal(before[:, :3], after[:, :3])
    assert not jnp.allclose(before[:, :3], layer.forward(params, x)[0][:, :3])
