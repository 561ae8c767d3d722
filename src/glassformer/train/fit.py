"""Training, from Python and for the command line: a recipe and data in, a run folder out."""

from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data import Dataset
from glassformer.data.texts import Texts
from glassformer.data.tokeniser import Tokeniser
from glassformer.train.engines import choose
from glassformer.train.loop import Listener, Loop, result, split
from glassformer.train.many_seeds import train_seeds, with_seed
from glassformer.train.presets import DEFAULT, preset
from glassformer.train.recipe import Recipe
from glassformer.train.resolve import encoded, from_arrays, lasting_name, load_for, resolved
from glassformer.train.run import Run, load
from glassformer.train.run_folder import RunFolder
from glassformer.train.settings import with_change
from glassformer.train.warm_start import recipe_from, tokeniser_from

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
Data = str | Dataset | Texts | Arrays


def fit(
    recipe: str | Recipe = DEFAULT,
    data: Data = "",
    *,
    out: str | Path = "",
    seed: int | None = None,
    start: str | Path = "",
    listener: Listener | None = None,
    **settings: Any,
) -> Run:
    """Train, and give back the run.

    recipe      the name of a preset, or a Recipe
    data        a name or path as on the command line, a Dataset, Texts, or four arrays: train images, train labels,
                test images, test labels (bytes or floats; for a model of tables rows); nothing: what the recipe names
    out         the run folder; nothing: a new folder under `runs/`
    start       a run to start from: its model, tokeniser and weights, and its recipe but for the settings given here
    settings    any setting of the recipe by keyword, two underscores for a dot: `training__epochs=3`

    >>> run = fit("mlp", training__epochs=1, model__hidden=(16,), out=getfixture("tmp_path") / "run")
    >>> run.metrics["epochs"]
    1
    """
    changes = {name.replace("__", "."): value for name, value in settings.items()}

    def chosen(images: int) -> Recipe:
        if start:
            return recipe_from(start)
        return preset(recipe, images) if isinstance(recipe, str) else recipe

    named = with_all(chosen(0), changes)
    data_set = as_dataset(data or named.data, named, tokeniser_from(start) if start else None)
    whole = with_all(chosen(len(data_set.train[0])), {"data": lasting_name(data_set.name), **changes})
    ready = resolved(whole if seed is None else with_seed(whole, seed), data_set)
    folder = Path(out) if out else new_folder(recipe if isinstance(recipe, str) else "run")
    train(ready, data_set, folder, listener or Listener())
    return load(folder)


def train(recipe: Recipe, data: Dataset, path: Path, listener: Listener) -> dict[str, Any]:
    """One run from the beginning; its result."""
    loop = Loop(recipe, data, RunFolder(path), listener)
    loop.begin()
    return finish(loop)


def resume(path: str | Path, listener: Listener | None = None, data: Data = "") -> dict[str, Any]:
    """The run in a folder, from where it stands to its end; its result. `data` as for `fit`; nothing: the run's."""
    folder = RunFolder(Path(path))
    recipe = folder.recipe()
    data_set = as_dataset(data or recipe.data, recipe, folder.tokeniser())
    loop = Loop(recipe, data_set, folder, listener or Listener())
    loop.resume()
    return finish(loop)


def finish(loop: Loop) -> dict[str, Any]:
    outcome = result(loop.recipe, loop.run(), loop.folder, loop.engine)
    loop.folder.save_metrics(outcome)
    loop.folder.save_curves(loop.progress.rows)
    return outcome


def train_many(recipe: Recipe, data: Dataset, path: Path, seeds: tuple[int, ...], listener: Listener) -> dict[str, Any]:
    """Several seeds; mean, spread and each. The jax engine trains them side by side, the native one in turn."""
    engine = choose(recipe, split(recipe, data)[0], listener.notice)
    if engine.name == "jax":
        runs = train_seeds(recipe, data, path, seeds, listener)
    else:
        runs = [train_in_turn(with_seed(recipe, seed), data, path / f"seed-{seed}", listener) for seed in seeds]
    scores = np.array([run["test_accuracy"] for run in runs])
    losses = np.array([run["test_loss"] for run in runs])
    return {
        "test_accuracy": float(scores.mean()),
        "test_accuracy_std": float(scores.std(ddof=1)),
        "test_accuracy_min": float(scores.min()),
        "test_accuracy_max": float(scores.max()),
        "val_accuracy": None if runs[0]["val_accuracy"] is None else float(np.mean([r["val_accuracy"] for r in runs])),
        "test_loss": float(losses.mean()),
        "test_loss_std": float(losses.std(ddof=1)),
        "train_seconds": sum(run["train_seconds"] for run in runs),
        "epochs": max(run["epochs"] for run in runs),
        "parameters": runs[0]["parameters"],
        "task": runs[0]["task"],
        "engine": runs[0]["engine"],
        "seeds": list(seeds),
        "runs": runs,
        "run": str(path),
    }


def train_in_turn(recipe: Recipe, data: Dataset, path: Path, listener: Listener) -> dict[str, Any]:
    listener.notice(f"seed {recipe.training.seed}")
    return train(recipe, data, path, listener)


def with_all(recipe: Recipe, changes: dict[str, Any]) -> Recipe:
    for name, value in changes.items():
        recipe = with_change(recipe, name, value, name)
    return recipe


def as_dataset(data: Data, recipe: Recipe, tokeniser: Tokeniser | None = None) -> Dataset:
    if isinstance(data, str):
        return load_for(recipe, data, tokeniser)
    if isinstance(data, Texts):
        return encoded(recipe, data, tokeniser)
    if isinstance(data, Dataset):
        return data
    return from_arrays(recipe, data)


def new_folder(name: str) -> Path:
    """`runs/<name>-<n>`, the first number that is free."""
    number = 1
    while (Path("runs") / f"{name}-{number}").exists():
        number += 1
    return Path("runs") / f"{name}-{number}"
