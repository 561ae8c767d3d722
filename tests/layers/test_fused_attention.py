"""Fused attention where its kernel is not to be had: blockwise stands in and is said to. On a GPU: its referee."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer.errors import SettingError
from glassformer.layers import Attention, FusedAttention, Mask
from glassformer.layers.attention import Inputs

ON_GPU = jax.default_backend() == "gpu"


def drawn(dtype: type = jnp.bfloat16) -> Inputs:
    keys = jax.random.split(jax.random.key(0), 3)
    q, k, v = (jax.random.normal(key, (2, 128, 4, 64), dtype) for key in keys)
    return Inputs(q=q, k=k, v=v)


@pytest.mark.parametrize("mask", [None, Mask(causal=True), Mask(keep=jnp.arange(128) < jnp.array([[100], [128]]))])
def test_the_numbers_are_those_of_plain_attention(mask: Mask | None) -> None:
    x, dz = drawn(), jax.random.normal(jax.random.key(1), (2, 128, 4, 64), jnp.bfloat16)
    z, cache = FusedAttention().forward(None, x, mask=mask)
    d, _ = FusedAttention().backward(None, cache, dz)
    wide = Inputs(*(leaf.astype(jnp.float32) for leaf in x[:3]))
    expected, plain = Attention().forward(None, wide, mask=mask)
    wanted, _ = Attention().backward(None, plain, dz.astype(jnp.float32))
    np.testing.assert_allclose(z.astype(jnp.float32), expected, atol=0.02)
    for name in ("q", "k", "v"):
        largest = float(jnp.abs(getattr(wanted, name)).max())
        found = getattr(d, name).astype(jnp.float32)
        np.testing.assert_allclose(found, getattr(wanted, name), atol=0.02 * largest, err_msg=name)


@pytest.mark.skipif(ON_GPU, reason="here the kernel is to be had")
def test_what_stands_in_is_said() -> None:
    on_cpu = "fused attention is for GPUs; on this CPU blockwise attention stands in"
    assert FusedAttention().instead(jnp.bfloat16) == on_cpu
    assert Attention().instead(jnp.float32) == ""


def test_what_it_cannot_honour_is_refused() -> None:
    with pytest.raises(SettingError, match="fused attention: a window came, which it cannot honour"):
        FusedAttention().forward(None, drawn(), mask=Mask(window=4))
