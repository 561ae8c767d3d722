"""Checkpoint: the gradients of the layer inside, from a smaller cache, also after compilation."""

import jax
import jax.numpy as jnp
import pytest

from glassformer.check import CASES, gradient_error
from glassformer.layers import (
    Checkpoint,
    FeedForward,
    LayerNorm,
    MultiHeadAttention,
    PreNormBlock,
    SelfAttention,
)

BLOCK = PreNormBlock(LayerNorm(16), SelfAttention(MultiHeadAttention(16, heads=2)), FeedForward(16, 32))


def both_ways(layer, params, x, dy, **keywords):
    y, cache = layer.forward(params, x, **keywords)
    return y, *layer.backward(params, cache, dy)


@pytest.mark.parametrize(
    "name", ["multi-head attention (mask, bias)", "pre-norm block (mask, dropout)", "embedding", "lstm"]
)
def test_same_result_and_same_gradients(name: str) -> None:
    case = CASES[name]
    drawn = case.draw(1, jnp.float32)
    dy = case.draw_dy(1, drawn)
    plain = both_ways(case.layer, drawn.params, drawn.x, dy, **drawn.keywords)
    again = both_ways(Checkpoint(case.layer), drawn.params, drawn.x, dy, **drawn.keywords)
    assert gradient_error(again, plain) == 0


def test_the_cache_is_what_was_given() -> None:
    x, mask, key = jnp.ones((2, 5, 16)), jnp.ones((1, 1, 5, 5), bool), jax.random.key(3)
    layer = Checkpoint(BLOCK)
    _, cache = layer.forward(layer.init(key), x, mask=mask, key=key)
    assert [id(leaf) for leaf in jax.tree.leaves(cache)] == [id(x), id(mask), id(key)]


def test_compiled_memory_of_a_stack_of_blocks_is_smaller() -> None:
    def extra_bytes(block) -> int:
        def run(params, x, dy):
            caches = []
            for one in params:
                x, cache = block.forward(one, x)
                caches.append(cache)
            dparams = []
            for one, cache in zip(reversed(params), reversed(caches), strict=True):
                dy, dparam = block.backward(one, cache, dy)
                dparams.append(dparam)
            return dy, dparams

        params = (jax.eval_shape(block.init, jax.random.key(0)),) * 8
        x = jax.ShapeDtypeStruct((4, 128, 16), jnp.float32)
        memory = jax.jit(run).lower(params, x, x).compile().memory_analysis()
        assert memory is not None
        return memory.temp_size_in_bytes

    assert extra_bytes(Checkpoint(BLOCK)) < extra_bytes(BLOCK) / 3
