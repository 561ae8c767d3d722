"""What do written-out gradients cost? One training step with our backward beside the same step by `jax.value_and_grad`.

Same forward, same loss, same update, both jitted and run many steps under one `lax.scan`; random data.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from glassformer.bench.measure import interleaved
from glassformer.losses import CrossEntropy
from glassformer.models import MLP, Network, PatchAttention, ViT
from glassformer.train import loss_and_gradient

CONTESTS: dict[str, tuple[Network, int]] = {  # name: model, batch
    "mlp": (MLP(), 32),
    "attention-pool": (PatchAttention(), 32),
    "attention-pool-64": (PatchAttention(width=64, hidden=128), 32),
    "vit-pico": (ViT(width=16, hidden=32, heads=1), 32),
    "vit-nano": (ViT(), 64),
    "vit-micro": (ViT(depth=2), 64),
    "vit-nano, class token": (ViT(with_class_token=True), 64),
}
Gradient = Callable[[Network, Any, Any, Any], tuple[Any, Any]]  # model, params, images, labels -> loss, dparams


@dataclass(frozen=True)
class Result:
    model: str
    batch: int
    explicit_ms: float
    autodiff_ms: float

    @property
    def ratio(self) -> float:
        """Above 1: the written-out gradient is faster."""
        return self.autodiff_ms / self.explicit_ms


def explicit(model: Network, params: Any, images: Any, labels: Any) -> tuple[Any, Any]:
    return loss_and_gradient(model, CrossEntropy(), params, images, labels=labels)


def autodiff(model: Network, params: Any, images: Any, labels: Any) -> tuple[Any, Any]:
    def loss(params: Any) -> Any:
        return CrossEntropy().forward(None, model.forward(params, images)[0], labels=labels)[0]

    return jax.value_and_grad(loss)(params)


def steps(gradient: Gradient, model: Network, batch: int, count: int) -> Callable[[], Any]:
    """`count` steps of SGD on random images, as one compiled function."""
    key_params, key_images, key_labels = jax.random.split(jax.random.key(0), 3)
    params = model.init(key_params)
    images = jax.random.randint(key_images, (count, batch, *model.example(1).shape[1:]), 0, 256).astype(jnp.uint8)
    labels = jax.random.randint(key_labels, (count, batch), 0, model.input.classes)

    def step(params: Any, data: tuple[Any, Any]) -> tuple[Any, Any]:
        loss, dparams = gradient(model, params, *data)
        return jax.tree.map(lambda p, d: p - 0.01 * d, params, dparams), loss

    run = jax.jit(lambda params, images, labels: lax.scan(step, params, (images, labels)))
    return lambda: run(params, images, labels)


def compare(count: int = 20, rounds: int = 15) -> Iterator[Result]:
    for name, (model, batch) in CONTESTS.items():
        contestants = {
            "explicit": steps(explicit, model, batch, count),
            "autodiff": steps(autodiff, model, batch, count),
        }
        seconds = interleaved(contestants, rounds)
        yield Result(name, batch, *(seconds[way] / count * 1e3 for way in ("explicit", "autodiff")))
