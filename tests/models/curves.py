"""What the tests of whole models share: small models, batches that can be learned, and a few steps of training."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np
import optax
from jax import lax

from glassformer.losses import CrossEntropy
from glassformer.models import MLP, Network, PatchAttention, ViT
from glassformer.train import loss_and_gradient

MODELS: dict[str, Any] = {
    "mlp": MLP(hidden=(512,)),
    "patch_attention": PatchAttention(width=16, hidden=32),
    "vit_mean_pool": ViT(width=16, hidden=32, heads=2, depth=2),
    "vit_class_token": ViT(width=16, hidden=32, heads=2, depth=2, with_class_token=True),
}

OPTIMISERS = {"sgd": optax.sgd(0.1), "adamw": optax.adamw(1e-3, weight_decay=0.05)}

Gradient = Callable[[Any, Any, Any], tuple[Any, Any]]  # (params, images, labels) -> (loss, dparams)


def batches(model: Network, steps: int = 10, batch: int = 16, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """`steps` batches of bytes and labels, with a way down: half of each pixel is its class's own, half is noise, and
    only three of the classes come up."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(3, size=(steps, batch))
    own = draw.integers(128, size=(3, *model.example(1).shape[1:]), dtype=np.uint8)
    noise = draw.integers(128, size=(steps, batch, *model.example(1).shape[1:]), dtype=np.uint8)
    return own[labels] + noise, labels


def by_backward(model: Any) -> Gradient:
    """Loss and gradient as glassformer trains: forward, then the backward written by hand."""

    def gradient(params: Any, images: Any, labels: Any) -> tuple[Any, Any]:
        return loss_and_gradient(model, CrossEntropy(), params, images, labels=labels)

    return gradient


def by_autodiff(model: Any) -> Gradient:
    """The same two, derived by JAX."""

    def loss(params: Any, images: Any, labels: Any) -> Any:
        return CrossEntropy().forward(None, model.forward(params, images)[0], labels=labels)[0]

    return jax.value_and_grad(loss)


def train(
    gradient: Gradient, optimiser: optax.GradientTransformation, params: Any, images: Any, labels: Any
) -> tuple[np.ndarray, Any]:
    """One step per batch, compiled as one scan: the losses before each step, and the parameters after the last."""

    def step(state: Any, batch: Any) -> tuple[Any, Any]:
        params, memory = state
        loss, dparams = gradient(params, *batch)
        updates, memory = optimiser.update(dparams, memory, params)
        return (optax.apply_updates(params, updates), memory), loss

    scan = jax.jit(lambda state, data: lax.scan(step, state, data))
    (params, _), losses = scan((params, optimiser.init(params)), (images, labels))
    return np.asarray(losses), params


@cache  # compiled once for every test that compares it with something
def ten_steps(name: str, optimiser: str, precision: str) -> tuple[np.ndarray, Any]:
    """Ten steps as glassformer trains, of one of MODELS with one of OPTIMISERS."""
    model = MODELS[name]
    with jax.enable_x64(precision == "float64"):
        return train(by_backward(model), OPTIMISERS[optimiser], model.init(jax.random.key(0)), *batches(model))
