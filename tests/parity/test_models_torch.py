"""Ten steps of training give the losses of the PyTorch twin, from the same start and on the same bytes."""

import jax
import numpy as np
import pytest

pytest.importorskip("torch")
import torch
from torch import nn

from ..models.curves import MODELS, batches, ten_steps
from .twins import twin_of

OPTIMISERS = {  # as in curves.py; betas and eps are the same by default: 0.9, 0.999 and 1e-8
    "sgd": lambda weights: torch.optim.SGD(weights, lr=0.1),
    "adamw": lambda weights: torch.optim.AdamW(weights, lr=1e-3, weight_decay=0.05),
}
# In float32 the distance is optax's: it takes 1 - 0.999^t in float32, where the first is wrong by 1.3e-5 of itself.
TOLERANCE = {"float32": 1e-5, "float64": 1e-10}


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("name", MODELS)
def test_ten_losses_match_the_twin(name, optimiser, precision):
    ours, _ = ten_steps(name, optimiser, precision)
    with jax.enable_x64(precision == "float64"):
        twin = twin_of(MODELS[name], MODELS[name].init(jax.random.key(0)))
    theirs = train_twin(twin, OPTIMISERS[optimiser](twin.parameters()), *batches(MODELS[name]))
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
