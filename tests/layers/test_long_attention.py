"""Banded and linear attention against the quadratic formulas they save memory on."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest

from glassformer.check import gradient_error
from glassformer.errors import SettingError, ShapeError
from glassformer.layers import Attention, BandedAttention, LinearAttention, Mask
from glassformer.layers.attention import Inputs


def normal(*lengths: int, heads: int = 3, width: int = 4) -> list[jax.Array]:
    keys = jax.random.split(jax.random.key(0), len(lengths))
    return [jax.random.normal(key, (2, length, heads, width)) for key, length in zip(keys, lengths, strict=True)]


@partial(jax.jit, static_argnums=0)
def both_ways(layer, x, dz: jax.Array, **keywords):
    z, cache = layer.forward(None, x, **keywords)
    dx, _ = layer.backward(None, cache, dz)
    return z, dx.q, dx.k, dx.v


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tokens", [3, 20])  # fewer than a window, and more; blocks of 5 come out even, others do not
@pytest.mark.parametrize(("window", "global_tokens"), [(1, 0), (5, 0), (3, 2), (2, 6), (30, 1), (5, 40)])
def test_banded_attention_is_attention_with_the_window_as_a_dense_mask(
    tokens: int, window: int, global_tokens: int, causal: bool
) -> None:
    with jax.enable_x64(True):
        q, k, v, dz = normal(*[tokens] * 4)
        keep = jnp.ones((2, tokens), bool).at[0, 1:3].set(False).at[1, tokens // 2 :].set(False)
        t, s = jnp.arange(tokens)[:, None], jnp.arange(tokens)
        near = (jnp.abs(t - s) < window) | (t < global_tokens) | (s < global_tokens)
        dense = (near & ((s <= t) | (not causal)))[None, None] & keep[:, None, None]
        plain = both_ways(Attention(scale=0.7), Inputs(q, k, v), dz, mask=dense)
        mask = Mask(keep=keep, causal=causal, window=window, global_tokens=global_tokens)
        ours = both_ways(BandedAttention(scale=0.7), Inputs(q, k, v), dz, mask=mask)
        assert gradient_error(ours, plain) < 1e-14


def linear_attention_by_the_formula(q, k, v, mask):
    def features(x):
        return jax.nn.elu(x) + 1

    weight = jnp.einsum("bthd,bshd->bhts", features(q), features(k)) * mask
    total = weight.sum(-1, keepdims=True)
    return jnp.einsum("bhts,bshd->bthd", weight / jnp.where(total == 0, 1, total), v)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("tokens", "sources", "block"), [(12, 17, 4), (17, 12, 5), (13, 13, 64), (6, 6, 1)])
def test_linear_attention_is_the_quadratic_formula(tokens: int, sources: int, block: int, causal: bool) -> None:
    with jax.enable_x64(True):
        q, k, v, dz = normal(tokens, sources, sources, tokens)
        keep = jnp.ones((2, sources), bool).at[0, :3].set(False).at[1, 2:5].set(False)
        mask = Mask(keep=keep, causal=causal)
        whole = mask.whole(tokens, sources)
        z, vjp = jax.vjp(lambda q, k, v: linear_attention_by_the_formula(q, k, v, whole), q, k, v)
        ours = both_ways(LinearAttention(block), Inputs(q, k, v), dz, mask=mask)
        assert gradient_error(ours, (z, *vjp(dz))) < 1e-13
        assert not causal or not ours[0][0, :3].any()  # these queries may look nowhere


@pytest.mark.parametrize(
    ("layer", "mask"),
    [
        (BandedAttention(), Mask(window=64, global_tokens=2)),
        (BandedAttention(), Mask(window=64, causal=True)),
        (LinearAttention(), Mask()),
        (LinearAttention(), Mask(causal=True)),
    ],
    ids=["banded", "banded causal", "linear", "linear causal"],
)
def test_memory_grows_with_the_length_not_with_its_square(layer, mask: Mask) -> None:
    def extra_bytes(tokens: int) -> int:
        q, k, v, dz = jax.eval_shape(lambda: normal(*[tokens] * 4))
        run = jax.jit(lambda q, k, v, dz: both_ways(layer, Inputs(q, k, v), dz, mask=mask))
        memory = run.lower(q, k, v, dz).compile().memory_analysis()
        assert memory is not None
        return memory.temp_size_in_bytes

    assert extra_bytes(4096) <= 2.2 * extra_bytes(2048)


def test_what_does_not_fit_is_refused() -> None:
    q, k, v, longer = normal(5, 5, 5, 9)
    x, short, dense = Inputs(q, k, v), jnp.ones((2, 4), bool), jnp.ones((1, 1, 5, 5), bool)
    with pytest.raises(ShapeError, match=r"banded attention: keep of shape \(2, 4\) came, expected \(2, 5\)"):
        BandedAttention().forward(None, x, mask=Mask(keep=short, window=2))
    with pytest.raises(ShapeError, match=r"linear attention: keep of shape \(2, 4\) came, expected \(2, 5\)"):
        LinearAttention().forward(None, x, mask=Mask(keep=short))
    with pytest.raises(ShapeError, match="banded attention: number of queries is 9, expected 5; it is self-attention"):
        BandedAttention().forward(None, x._replace(q=longer), mask=Mask(window=2))
    with pytest.raises(SettingError, match="banded attention: it has no window to keep to; set window, or attend ="):
        BandedAttention().forward(None, x)
    with pytest.raises(SettingError, match=r"banded attention: a mask of \(B, H, T, S\) came, which it cannot honour"):
        BandedAttention().forward(None, x, mask=Mask(dense=dense, window=2))
    with pytest.raises(SettingError, match="linear attention: a window came, which it cannot honour; set attend"):
        LinearAttention().forward(None, x, mask=Mask(window=2))
    with pytest.raises(SettingError, match="linear attention: a bias on the scores came, which it cannot honour"):
        LinearAttention().forward(None, x._replace(bias=jnp.zeros((1, 1, 5, 5))))
    with pytest.raises(SettingError, match="linear attention: block is 0, expected 1 or more"):
        LinearAttention(block=0)
