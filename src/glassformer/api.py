"""`glassformer.fit`: train from Python, and go on with the run."""

from pathlib import Path
from typing import Any

from glassformer.predict.run import Run, load
from glassformer.train.fit import Data, run_recipe, with_all
from glassformer.train.listener import Listener
from glassformer.train.presets import DEFAULT
from glassformer.train.recipe import Recipe


def fit(
    recipe: str | Path | Recipe = DEFAULT,
    data: Data = "",
    *,
    out: str | Path = "",
    seed: int | None = None,
    start: str | Path = "",
    listener: Listener | None = None,
    **settings: Any,
) -> Run:
    """Train, and give back the run.

    recipe      the name of a preset, a recipe file (a Path), or a Recipe
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
    if seed is not None:
        changes["training.seed"] = seed
    result = run_recipe(recipe, data, lambda it: with_all(it, changes), out=out, start=start, listener=listener)
    return load(result["run"])
