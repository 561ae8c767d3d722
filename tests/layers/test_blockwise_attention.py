"""Blockwise attention is plain attention, in a fraction of its memory."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import pytest

from glassformer.check import gradient_error
from glassformer.errors import SettingError, ShapeError
from glassformer.layers import Attention, BlockwiseAttention, Mask
from glassformer.layers.attention import Inputs


def drawn(tokens: int, sources: int, heads: int = 3, width: int = 4) -> tuple[Inputs, jax.Array]:
    q, k, v, dz = (
        jax.random.normal(key, (2, length, heads, width))
        for key, length in zip(jax.random.split(jax.random.key(0), 4), (tokens, sources, sources, tokens), strict=True)
    )
    return Inputs(q=3 * q, k=k, v=v), dz


@partial(jax.jit, static_argnums=0)
def both_ways(layer, x: Inputs, dz: jax.Array, **keywords):
    z, cache = layer.forward(None, x, **keywords)
    return z, layer.backward(None, cache, dz)[0]


@pytest.mark.parametrize("block", [1, 4, 7, 12, 50])  # of 12 queries and 17 keys: some divide them, some do not
@pytest.mark.parametrize(
    "mask",
    [
        Mask(),
        Mask(causal=True),
        Mask(window=3),
        Mask(causal=True, window=5, global_tokens=2),
        Mask(causal=True, offset=5),
    ],
    ids=["all", "causal", "window", "causal window", "offset"],
)
def test_equal_to_plain_attention(block: int, mask: Mask) -> None:
    with jax.enable_x64(True):
        x, dz = drawn(12, 17)
        keep = jnp.ones((2, 17), bool).at[0, :9].set(False).at[1, 13:].set(False)
        mask = replace(mask, keep=keep)
        plain = both_ways(Attention(scale=0.7), x, dz, mask=mask)
        ours = both_ways(BlockwiseAttention(block, scale=0.7), x, dz, mask=mask)
        assert gradient_error(ours, plain) < 1e-14
        nowhere = mask.causal and mask.offset is None  # the first queries of the first row may look nowhere
        assert not nowhere or not ours[0][0, :9].any()


def test_scores_too_large_for_exp() -> None:
    with jax.enable_x64(True):
        x, dz = drawn(5, 9)
        x = x._replace(q=1000 * x.q)  # scores of some thousands, and lse likewise: rounded to 1e-12
        assert gradient_error(both_ways(BlockwiseAttention(2), x, dz), both_ways(Attention(), x, dz)) < 1e-11


@pytest.mark.parametrize("causal", [False, True])
def test_memory_at_4096_tokens_is_a_tenth_at_most(causal: bool) -> None:
    x, dz = jax.eval_shape(lambda: drawn(4096, 4096, heads=1, width=64))

    def extra_bytes(layer, **keywords) -> int:
        run = jax.jit(lambda x, dz: both_ways(layer, x, dz, **keywords))
        memory = run.lower(x, dz).compile().memory_analysis()
        assert memory is not None
        return memory.temp_size_in_bytes

    plain = extra_bytes(Attention())
    assert plain >= 2 * 4 * 4096**2  # a pattern for each of two sequences
    assert extra_bytes(BlockwiseAttention(), mask=Mask(causal=causal)) <= plain / 10


def test_memory_grows_with_the_length_not_with_its_square() -> None:
    x, _ = jax.eval_shape(lambda: drawn(4096, 4096))
    _, cache = jax.eval_shape(lambda x: BlockwiseAttention().forward(None, x), x)
    assert sum(leaf.size for leaf in jax.tree.leaves(cache)) == 2 * 4096 * 3 * (4 * 4 + 1)  # q, k, v, z; lse


def test_what_does_not_fit_is_refused() -> None:
    x, _ = drawn(5, 9)
    with pytest.raises(SettingError, match="blockwise attention: a bias on the scores came, which it cannot honour"):
        BlockwiseAttention().forward(None, x._replace(bias=jnp.zeros((1, 1, 5, 9))))
    with pytest.raises(SettingError, match=r"blockwise attention: a mask of \(B, H, T, S\) came, which it cannot"):
        BlockwiseAttention().forward(None, x, mask=jnp.ones((1, 1, 5, 9), bool))
    with pytest.raises(ShapeError, match=r"keep of shape \(2, 5\) came, expected \(2, 9\)"):
        BlockwiseAttention().forward(None, x, mask=Mask(keep=jnp.ones((2, 5), bool)))
    with pytest.raises(SettingError, match="blockwise attention: block is 0, expected 1 or more"):
        BlockwiseAttention(0)
