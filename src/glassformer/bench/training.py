"""A training step of ours beside the same step in PyTorch: same weights, samples, loss and optimiser, on the CPU.

Ours is the jax engine as `glassformer train` runs it: from bytes, which it gathers, scales and cuts into patches in
each step. PyTorch is given patches that are scaled and cut beforehand. Only random shifts and the schedule of the
learning rate are left out of the recipe, for both.
"""

import dataclasses
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from glassformer.bench import peers
from glassformer.bench.measure import Turns
from glassformer.data.dataset import Samples
from glassformer.errors import UnknownNameError
from glassformer.names import nearest
from glassformer.train.jax_engine import JaxEngine
from glassformer.train.optimiser import Schedule
from glassformer.train.presets import preset
from glassformer.train.recipe import Recipe

PRESETS = ("attention-pool", "attention-pool-64", "vit-pico", "vit-nano", "vit-micro", "vit-tiny")
OURS = "ours"
UNSTEADY = 2.0  # a spread above this means a busy machine, where threads that wait for each other lose most: PyTorch's


@dataclass(frozen=True)
class Result:
    preset: str
    batch: int
    ours_ms: float  # per step
    peers_ms: dict[str, float]  # of each mode of PyTorch; empty where it is not installed
    compile_s: dict[str, float]  # what the first turn took longer
    spread: float  # slowest turn over fastest, of the least steady side

    @property
    def best(self) -> str | None:
        """PyTorch's fastest mode."""
        return min(self.peers_ms, key=self.peers_ms.__getitem__, default=None)

    @property
    def ratio(self) -> float | None:
        """Above 1: ours is faster than PyTorch's best."""
        return None if self.best is None else self.peers_ms[self.best] / self.ours_ms

    def plain(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"best": self.best, "ratio": self.ratio}


class Contest:
    """One preset: ours and every mode of PyTorch that runs here, ready to take turns of `steps` steps."""

    def __init__(self, name: str, steps: int) -> None:
        self.name, self.steps, self.recipe = name, steps, comparable(preset(name))
        with on_cpu():
            params = self.recipe.model.init(jax.random.key(0))
            samples = random_samples(self.recipe, steps)
            theirs = {mode: peers.training(self.recipe, samples, params, mode) for mode in modes()}
            self.turns = Turns({OURS: ours(self.recipe, samples, params), **theirs})

    def run(self, rounds: int) -> Iterator[int]:
        """Measure; yields after each round, the first of which compiles."""
        with on_cpu():
            yield from self.turns.run(rounds)

    def result(self) -> Result:
        step_ms = {name: seconds / self.steps * 1e3 for name, seconds in self.turns.medians().items()}
        ours_ms = step_ms.pop(OURS)
        return Result(
            preset=self.name,
            batch=self.recipe.training.batch,
            ours_ms=ours_ms,
            peers_ms=step_ms,
            compile_s=self.turns.compiling(),
            spread=self.turns.spread(),
        )


def check_names(names: list[str]) -> None:
    for name in names:
        if name not in PRESETS:
            raise UnknownNameError(
                f"bench train: {name!r} is not compared{nearest(name, list(PRESETS))}; known: {', '.join(PRESETS)}"
            )


def comparable(recipe: Recipe) -> Recipe:
    """The recipe without what PyTorch's side leaves out: random shifts, and a learning rate that changes."""
    return dataclasses.replace(
        recipe,
        training=dataclasses.replace(recipe.training, shift=0),
        optimiser=dataclasses.replace(recipe.optimiser, schedule=Schedule()),
    )


def random_samples(recipe: Recipe, steps: int) -> Samples:
    draw, count, images = np.random.default_rng(0), steps * recipe.training.batch, recipe.model.images
    return Samples(
        images=draw.integers(256, size=(count, *images.shape), dtype=np.uint8),
        labels=draw.integers(images.classes, size=count, dtype=np.int32),
    )


def ours(recipe: Recipe, samples: Samples, params: Any) -> Callable[[], np.ndarray]:
    """A call that trains on the samples once, in their order, and returns the loss of each step."""
    engine = JaxEngine(recipe, samples, seeds=(0,))
    batches = engine.batches([np.arange(engine.count)], epoch=1)
    state = engine.start(params)

    def train() -> np.ndarray:
        nonlocal state
        state, losses = engine.run(state, batches, 0, engine.steps)
        return losses

    return train


def modes() -> tuple[str, ...]:
    """The modes of PyTorch that run here: none without it, and no compiled one without a C++ compiler."""
    if torch_version() is None:
        return ()
    return peers.MODES if has_compiler() else peers.MODES[:-1]


def torch_version() -> str | None:
    try:
        import torch
    except ImportError:
        return None
    return torch.__version__


def has_compiler() -> bool:
    return any(map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++")))


def on_cpu() -> Any:
    """Ours too stays on the CPU where there is a GPU: PyTorch is measured there."""
    return jax.default_device(jax.devices("cpu")[0])
