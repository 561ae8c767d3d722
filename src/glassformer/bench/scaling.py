"""How the cost of a training step grows with width, tokens, batch and depth, and with which exponent.

One setting of a small vision transformer changes at a time, the others stay where BASE has them. All sizes of a sweep
take turns. The exponent is the slope of log(milliseconds) over log(size), fitted by least squares to the upper half of
the sizes, where what does not grow has become small; beside it stands that of the multiply-adds alone.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from glassformer.bench import peak
from glassformer.bench.measure import Turns
from glassformer.bench.training import JAX, jax_training, native_training, on_cpu, random_samples, steps_for
from glassformer.models import Images, ViT
from glassformer.train.optimiser import Optimiser
from glassformer.train.recipe import Recipe, Training

TURN = 0.05  # seconds a turn lasts at least
HEAD = 16  # width of a head, at every width
PATCH = 4
MODEL = ViT(width=64, hidden=128, heads=4, depth=1, patch_size=PATCH)  # 49 tokens
BASE = Recipe(
    model=MODEL,
    training=Training(batch=32),
    optimiser=Optimiser(name="adamw", lr=1e-3),
)


@dataclass(frozen=True)
class Sweep:
    """One setting and the sizes it takes."""

    name: str
    letter: str  # of the axis, as in shapes.py
    sizes: tuple[int, ...]
    recipe: Callable[[int], Recipe]


def with_width(width: int) -> Recipe:
    return with_model(width=width, hidden=2 * width, heads=max(1, width // HEAD))


def with_tokens(tokens: int) -> Recipe:
    """Square images of so many patches."""
    side = PATCH * math.isqrt(tokens)
    return with_model(images=Images(shape=(side, side, 1)))


def with_depth(depth: int) -> Recipe:
    return with_model(depth=depth)


def with_batch(batch: int) -> Recipe:
    return dataclasses.replace(BASE, training=dataclasses.replace(BASE.training, batch=batch))


def with_model(**settings: Any) -> Recipe:
    return dataclasses.replace(BASE, model=dataclasses.replace(MODEL, **settings))


SWEEPS = (
    Sweep("width", "C", (16, 32, 48, 64, 96, 128, 192, 256), with_width),
    Sweep("tokens", "T", (4, 9, 16, 36, 64, 144, 256, 576), with_tokens),
    Sweep("batch", "B", (1, 2, 4, 8, 16, 32, 64, 128), with_batch),
    Sweep("depth", "L", (1, 2, 3, 4, 6, 8, 12, 16), with_depth),
)


@dataclass(frozen=True)
class Fit:
    """y = factor * x^exponent."""

    exponent: float
    error: float | None  # standard error of the exponent; None where two points leave none
    factor: float
    start: float  # the smallest x that was fitted

    def __call__(self, x: float) -> float:
        return self.factor * x**self.exponent


@dataclass(frozen=True)
class Result:
    sweep: str
    letter: str
    sizes: tuple[int, ...]
    step_ms: tuple[float, ...]
    multiply_adds: tuple[int, ...]  # of a step (see peak.py)
    spread: float

    @property
    def fit(self) -> Fit:
        return fitted(self.sizes, self.step_ms)

    @property
    def counted(self) -> Fit:
        """The growth of the multiply-adds alone, over the same sizes."""
        return fitted(self.sizes, self.multiply_adds)

    def plain(self) -> dict[str, Any]:
        fits = {"fit": dataclasses.asdict(self.fit), "multiply_adds_fit": dataclasses.asdict(self.counted)}
        return dataclasses.asdict(self) | fits


class Contest:
    """One sweep: all its sizes, ready to take turns."""

    def __init__(self, sweep: Sweep, engine: str, threads: int = 0, least: float = TURN) -> None:
        self.sweep = sweep
        recipes = {str(size): sweep.recipe(size) for size in sweep.sizes}
        self.multiply_adds = {
            size: recipe.training.batch * peak.multiply_adds(recipe.model) for size, recipe in recipes.items()
        }
        self.steps = {size: steps_for(count) for size, count in self.multiply_adds.items()}  # in one call
        with on_cpu():
            contestants = {
                size: contestant(recipe, engine, threads, self.steps[size]) for size, recipe in recipes.items()
            }
        self.turns = Turns(contestants, least)

    def run(self, rounds: int) -> Iterator[int]:
        """Measure; yields after each round, the first of which compiles."""
        with on_cpu():
            yield from self.turns.run(rounds)

    def result(self) -> Result:
        seconds = self.turns.medians()
        return Result(
            sweep=self.sweep.name,
            letter=self.sweep.letter,
            sizes=self.sweep.sizes,
            step_ms=tuple(seconds[size] / steps * 1e3 for size, steps in self.steps.items()),
            multiply_adds=tuple(self.multiply_adds.values()),
            spread=self.turns.spread(),
        )


def contestant(recipe: Recipe, engine: str, threads: int, steps: int) -> Callable[[], np.ndarray]:
    params, samples = recipe.model.init(jax.random.key(0)), random_samples(recipe, steps)
    if engine == JAX:
        return jax_training(recipe, samples, params)
    return native_training(recipe, samples, params, threads)


def fitted(sizes: Sequence[float], values: Sequence[float]) -> Fit:
    """Least squares in logarithms over the upper half of the sizes, at least two."""
    half = len(sizes) - max(2, (len(sizes) + 1) // 2)
    x, y = np.log(sizes[half:]), np.log(values[half:])
    spread = x - x.mean()
    slope = float(spread @ y / (spread @ spread))
    left = y - y.mean() - slope * spread
    freedom = len(x) - 2
    error = math.sqrt(left @ left / freedom / (spread @ spread)) if freedom else None
    return Fit(slope, error, math.exp(y.mean() - slope * x.mean()), sizes[half])
