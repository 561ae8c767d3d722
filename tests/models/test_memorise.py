"""One batch learned by heart: whatever a model is, it can at least remember sixteen images of noise."""

import jax
import numpy as np
import optax
import pytest

from ..programs import forward
from .curves import MODELS, by_backward, train

STEPS = 200


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "vit_mean_pool" else ()) for name in MODELS]
)
def test_one_batch_is_learned_by_heart(name):
    model, draw = MODELS[name], np.random.default_rng(0)
    images = draw.integers(256, size=(16, *model.images.shape), dtype=np.uint8)
    labels = draw.integers(model.images.classes, size=16)
    every_step = (np.broadcast_to(a, (STEPS, *a.shape)) for a in (images, labels))
    losses, params = train(by_backward(model), optax.adamw(3e-3), model.init(jax.random.key(0)), *every_step)
    logits = forward(model, params, images)
    assert losses[0] > 2  # knows nothing: the logarithm of ten classes is 2.3
    assert losses[-1] < 0.05
    assert np.array_equal(np.argmax(logits, axis=-1), labels)
