"""Fused attention where its kernel is not to be had: blockwise stands in and is said to. On a GPU: its referee."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer.errors import SettingError
from glassformer.layers import Attention, FusedAttention, GroupedQueryAttention, Mask, multi_head
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
    assert FusedAttention().instead(jnp.bfloat16, 64) == on_cpu
    assert Attention().instead(jnp.float32, 64) == ""


@dataclass
class Device:
    compute_capability: str


@pytest.mark.parametrize(
    ("capability", "dtype", "head_width", "said"),
    [
        ("8.0", jnp.bfloat16, 64, ""),
        ("8.0", jnp.bfloat16, 128, ""),
        ("9.0", jnp.float16, 256, ""),
        ("9.0", jnp.float32, 64, "in float32 blockwise attention stands in"),
        ("9.0", jnp.bfloat16, 20, "heads of a multiple of 8, up to 128 wide; at 20 blockwise attention stands in"),
        ("8.6", jnp.bfloat16, 136, "up to 128 wide; at 136 blockwise attention stands in"),
        ("10.3", jnp.bfloat16, 264, "up to 256 wide; at 264 blockwise attention stands in"),
    ],
)
def test_what_the_kernel_does_not_take_is_said(
    capability: str, dtype: type, head_width: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "local_devices", lambda: [Device(capability)])
    found = FusedAttention().instead(dtype, head_width)
    assert found.endswith(said)
    assert bool(found) == bool(said)


def test_heads_that_share_keys_use_it() -> None:
    """Grouped queries: each head of k and v is given to the kernel once for every head of its group."""
    fused = GroupedQueryAttention(width=64, heads=4, key_heads=2, attend=FusedAttention())
    plain = replace(fused, attend=Attention())
    params = plain.init(jax.random.key(0))
    x, dy = jax.random.normal(jax.random.key(1), (2, 2, 128, 64))
    given = multi_head.Inputs(query=x, memory=x)
    (y, cache), (expected, kept) = (one.forward(params, given, mask=Mask(causal=True)) for one in (fused, plain))
    np.testing.assert_allclose(y, expected, atol=1e-5)
    found, wanted = fused.backward(params, cache, dy), plain.backward(params, kept, dy)
    for one, other in zip(*map(jax.tree.leaves, (found, wanted)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_what_it_cannot_honour_is_refused() -> None:
    with pytest.raises(SettingError, match="fused attention: a window came, which it cannot honour"):
        FusedAttention().forward(None, drawn(), mask=Mask(window=4))
