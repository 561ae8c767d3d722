"""Settings of the vision transformer that no other test would miss."""

from typing import Any

import jax
import jax.numpy as jnp

from glassformer.models import ViT

from ..programs import forward


def test_eps_reaches_every_norm() -> None:
    model = ViT(width=8, hidden=12, heads=2, eps=0.5)
    assert model.norm.eps == 0.5
    block: Any = model.block
    assert block.norm == model.norm
    params, images = model.init(jax.random.key(0)), jax.random.normal(jax.random.key(1), (2, 28, 28, 1))
    logits, cache = jax.jit(model.forward)(params, images)
    assert cache.norm.std_inv.max() <= 0.5**-0.5
    assert not jnp.allclose(logits, forward(ViT(width=8, hidden=12, heads=2), params, images))
