"""Settings of the vision transformer that no other test would miss."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from glassformer.errors import SettingError, ShapeError
from glassformer.layers import DistilledHead, Standardise, StandardiseChannels
from glassformer.models import Images, ViT

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


def test_a_distillation_token_follows_a_class_token() -> None:
    with pytest.raises(SettingError, match=r"distillation is 'token', and there is no class token .* with_class_token"):
        ViT(distillation="token")
    model = ViT(width=8, hidden=12, heads=2, with_class_token=True, distillation="head")
    assert model.positions.tokens == model.patches.tokens + 2
    with pytest.raises(ShapeError, match="distilled head: 1 token came, expected a class and a distillation token"):
        DistilledHead(8, 3).forward(DistilledHead(8, 3).init(jax.random.key(0)), jnp.ones((2, 1, 8)))


def test_channels_are_spread_by_their_own_numbers() -> None:
    """One number stays what it was; several are one for each channel."""
    assert Images(mean=0.5, std=0.2).prepare == Standardise(0.5, 0.2)
    images = Images((2, 2, 3), mean=(0.1, 0.2, 0.3), std=0.5)
    assert images.prepare == StandardiseChannels((0.1, 0.2, 0.3), (0.5, 0.5, 0.5))
    y, _ = images.prepare.forward(None, jnp.full((1, 2, 2, 3), 255, jnp.uint8))
    assert jnp.allclose(y[0, 0, 0], jnp.array([1.8, 1.6, 1.4]))
    with pytest.raises(
        SettingError, match="images: std has 2 numbers and the images have 3 channels; give one for each"
    ):
        Images((2, 2, 3), std=(0.1, 0.2))
    with pytest.raises(SettingError, match=r"standardise channels: std \(0.1, 0.0\) and divisor 255.0 must be above 0"):
        StandardiseChannels((0.0, 0.0), (0.1, 0.0))
