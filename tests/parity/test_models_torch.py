"""Ten steps of training give the losses of the PyTorch twin, from the same start and on the same bytes."""

from typing import Any

import jax
import numpy as np
import optax
import pytest

pytest.importorskip("torch")
import torch
from torch import nn

from ..models.curves import MODELS, batches, by_backward, train
from .twins import twin_of

OPTIMISERS: dict[str, Any] = {  # betas and eps are the same by default: 0.9, 0.999 and 1e-8
    "sgd": (optax.sgd(0.1), lambda weights: torch.optim.SGD(weights, lr=0.1)),
    "adamw": (
        optax.adamw(1e-3, weight_decay=0.05),
        lambda weights: torch.optim.AdamW(weights, lr=1e-3, weight_decay=0.05),
    ),
}
# TODO reason
TOLERANCE = {np.float32: 1e-5, np.float64: 1e-10}


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("rule", OPTIMISERS)
@pytest.mark.parametrize("name", MODELS)
def test_ten_losses_match_the_twin(name, rule, precision):
    model, (optimiser, optimiser_of_twin) = MODELS[name], OPTIMISERS[rule]
    images, labels = batches(model)
    with jax.enable_x64(precision is np.float64):
        params = model.init(jax.random.key(0))
        ours, _ = train(by_backward(model), optimiser, params, images, labels)
    twin = twin_of(model, params)
    theirs = train_twin(twin, optimiser_of_twin(twin.parameters()), images, labels)
    assert ours.dtype == theirs.dtype == precision
    assert np.abs(ours - theirs).max() < TOLERANCE[precision]
    assert ours[-1] < ours[0]


def train_twin(twin: nn.Module, optimiser: torch.optim.Optimizer, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    precision = next(twin.parameters()).dtype
    losses = []
    for batch, label in zip(torch.tensor(images).to(precision), torch.tensor(labels), strict=True):
        loss = nn.functional.cross_entropy(twin(batch), label)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses).numpy()
