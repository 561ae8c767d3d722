"""What the tests of training share: data that is learned in a moment, small recipes, and a comparison of two runs."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.data import Dataset, Samples, make_dataset
from glassformer.models import MLP, PatchAttention, ViT
from glassformer.train import fit
from glassformer.train.loop import InterruptedRunError, Listener
from glassformer.train.optimiser import Optimiser, Schedule
from glassformer.train.recipe import Engine, Recipe, Training, Validation
from glassformer.train.resolve import resolved
from glassformer.train.weights import load_arrays

MNIST = Path(os.environ.get("GLASSFORMER_MNIST", Path(__file__).parents[3] / "shared/data/mnist"))
needs_mnist = pytest.mark.skipif(
    not MNIST.is_dir(), reason=f"no MNIST in {MNIST}; name its folder in GLASSFORMER_MNIST"
)

MADE = ("adamw", "momentum", "sgd", "vit", "xorshift")


def small_samples(count: int, seed: int) -> Samples:
    """Grey images of 8x8 in three classes: each has a bright band of its own, in noise."""
    rng = np.random.default_rng(seed)
    labels = np.resize(np.arange(3), count).astype(np.int32)
    noise = rng.integers(0, 120, (count, 8, 8, 1))
    row = np.arange(8) - 2 * labels[:, None]
    images = noise + 90 * ((row >= 0) & (row < 3))[:, :, None, None]
    return Samples(images=images.astype(np.uint8), labels=labels)


def small_data(count: int = 103, tests: int = 37, name: str = "small") -> Dataset:
    return make_dataset(name, small_samples(count, 1), small_samples(tests, 2))


def write_npz(path: Path, data: Dataset) -> Path:
    np.savez(
        path,
        train_images=data.train.images,
        train_labels=data.train.labels,
        test_images=data.test.images,
        test_labels=data.test.labels,
    )
    return path


def small_recipe(kind: str = "sgd", *, epochs: int = 2, data: str = "small", **training: Any) -> Recipe:
    """Each kind remembers something else from step to step: nothing, momenta, keys for dropout and shifts, an order.

    sgd and adamw train on the jax engine, the others on the native one where there is a compiler.
    """
    recipes = {
        "sgd": Recipe(model=MLP(hidden=(7,)), optimiser=Optimiser(lr=0.2), engine=Engine(name="jax")),
        "momentum": Recipe(
            model=MLP(hidden=(7,)),
            training=Training(shift=1),
            validation=Validation(share=0.0),
            optimiser=Optimiser(name="momentum", lr=0.05, clip=1.0, schedule=Schedule(kind="step")),
        ),
        "adamw": Recipe(
            model=ViT(width=6, hidden=10, heads=2, dropout=0.2),
            training=Training(shift=1, label_smoothing=0.1),
            optimiser=Optimiser(name="adamw", lr=0.02, weight_decay=0.1, schedule=Schedule(kind="warmup-cosine")),
        ),
        "vit": Recipe(
            model=ViT(width=6, hidden=10, heads=2, with_class_token=True),
            optimiser=Optimiser(name="adam", lr=0.02, schedule=Schedule(kind="cosine")),
            engine=Engine(threads=2),
        ),
        "xorshift": Recipe(
            model=PatchAttention(width=6, hidden=10), optimiser=Optimiser(lr=0.2), engine=Engine(rng="xorshift")
        ),
    }
    chosen = recipes[kind]
    settings = replace(chosen.training, **{"epochs": epochs, "batch": 10, **training})
    return resolved(replace(chosen, data=data, training=settings), small_data())


def without_validation(recipe: Recipe) -> Recipe:
    return replace(recipe, validation=Validation(share=0.0))


class Stop(Listener):
    """Asks for a stop after so many chunks."""

    def __init__(self, after: int) -> None:
        self.left = after

    def chunk(self, epoch: int, step: int, steps: int, loss: float, samples_per_second: float) -> None:
        self.left -= 1

    def interrupted(self) -> bool:
        return self.left <= 0


def whole_and_cut(recipe: Recipe, seeds: tuple[int, ...], folder: Path) -> list[tuple[Path, Path]]:
    """Two runs of the same, or of each seed: one trained at once, one cut and resumed. Nothing differs."""

    def train(name: str, listener: Listener) -> None:
        if seeds:
            fit.train_many(recipe, small_data(), folder / name, seeds, listener)
        else:
            fit.train(recipe, small_data(), folder / name, listener)

    train("whole", Listener())
    with pytest.raises(InterruptedRunError):
        train("cut", Stop(after=1))
    fit.resume(folder / "cut")
    parts = [f"seed-{seed}" for seed in seeds] or ["."]
    pairs = [(folder / "whole" / part, folder / "cut" / part) for part in parts]
    for pair in pairs:
        assert_same_run(*pair)
    return pairs


def assert_same_run(one: Path, other: Path) -> None:
    """Bit for bit, but for the time it took and the place where it lies."""
    for name in ("model.safetensors", "state.safetensors"):
        (arrays, about), (other_arrays, other_about) = load_arrays(one / name), load_arrays(other / name)
        assert arrays.keys() == other_arrays.keys()
        for key, array in arrays.items():
            assert array.dtype == other_arrays[key].dtype
            assert array.tobytes() == other_arrays[key].tobytes(), f"{name}: {key}"
        assert untimed(about) == untimed(other_about)
    for name in ("recipe.toml", "log.csv", "metrics.json"):
        assert comparable(one / name) == comparable(other / name)


def untimed(about: dict[str, Any]) -> dict[str, Any]:
    """What a file says about itself, less every measured time."""
    plain = json.loads(json.dumps(about))
    for row in plain.get("progress", {}).get("rows", []):
        del row["time"]
    return plain


def comparable(path: Path) -> Any:
    if path.name == "metrics.json":
        return {
            name: value for name, value in json.loads(path.read_text()).items() if name not in ("train_seconds", "run")
        }
    lines = path.read_text().splitlines()
    return [line.split(",")[:2] + line.split(",")[3:] for line in lines] if path.name == "log.csv" else lines
