"""How fast training is: samples or tokens a second, and the share of what the machine could do at most (MFU).

The work of a sample is that of its matrix products: those of forward, and twice as many in backward (Chowdhery et al.,
2022, count alike). What is computed again, to save memory, is no work.
"""

from typing import Any

import jax

from glassformer.data.dataset import TEXTS
from glassformer.layers.contract import param_shapes
from glassformer.models.summary import multiply_adds
from glassformer.train.recipe import Recipe

PEAK = {  # multiply-adds a second of dense matrix products in bfloat16, as the vendors give them
    "H200": 494.5e12,
    "H100": 494.5e12,
    "A100": 156e12,
    "L4": 60.5e12,
    "TPU v4": 137.5e12,
    "TPU v5e": 98.5e12,
    "TPU v5p": 229.5e12,
}


class Throughput:
    def __init__(self, recipe: Recipe) -> None:
        text: Any = recipe.model.input
        in_tokens = text.reads == TEXTS and recipe.task.by_steps
        self.unit, self.of_sample = ("tokens", text.context) if in_tokens else ("samples", 1)
        self.peak = peak_of(devices_of(recipe)) if jax.default_backend() != "cpu" else None
        self.work = work_of_sample(recipe) if self.peak else 0

    def shown(self, samples_per_second: float) -> str:
        """12,345 tokens/s (34 % of the peak)"""
        speed = f"{samples_per_second * self.of_sample:,.0f} {self.unit}/s"
        return speed if not self.peak else f"{speed} ({100 * self.share(samples_per_second):.0f} % of the peak)"

    def share(self, samples_per_second: float) -> float:
        """Model FLOPs utilisation."""
        return samples_per_second * self.work / (self.peak or float("inf"))


def work_of_sample(recipe: Recipe) -> int:
    """Multiply-adds that training on one sample takes."""
    traced = jax.make_jaxpr(recipe.model.forward)(param_shapes(recipe.model), recipe.model.example(1))
    return 3 * sum(count for _, count in multiply_adds(traced.jaxpr))


def devices_of(recipe: Recipe) -> list[Any]:
    """Those that a run trains on."""
    placement = recipe.placement
    return jax.devices()[:1] if placement is None or placement.mesh is None else [*placement.mesh.devices.flat]


def peak_of(devices: list[Any]) -> float | None:
    """Of all devices together; None where it is not known."""
    kind = devices[0].device_kind
    found = [peak for name, peak in PEAK.items() if name in kind]
    return len(devices) * found[0] if found else None
