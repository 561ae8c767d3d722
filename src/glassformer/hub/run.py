"""An imported model as a run folder, from which everything else starts: predict, generate, attend, train --start."""

from pathlib import Path
from typing import Any

from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import CheckpointError, FileError
from glassformer.hub.format import Imported
from glassformer.train.recipe import Engine, Recipe
from glassformer.train.run_folder import RECIPE, SEEDS, STATE, STATES, TOKENISER, WEIGHTS, RunFolder
from glassformer.train.tasks import TASKS
from glassformer.train.weights import load_arrays


def write_run(path: Path, found: Imported) -> None:
    """The recipe comes last: a folder without one is of an import that was killed, and is written anew."""
    folder = RunFolder(path)
    with folder.locked():
        must_be_free(path)
        task, engine = found.task or TASKS[found.model.tasks[0]](), Engine(precision=found.precision)
        recipe = Recipe(model=found.model, task=task, data="", engine=engine)
        if found.tokeniser_json is not None:
            folder.save_tokeniser(Tokeniser.from_json(found.tokeniser_json, TOKENISER, found.chat))
        folder.save_model(recipe, found.params, found.classes, epoch=0)
        folder.save_recipe(recipe)


def write_adapted_run(path: Path, recipe: Recipe, params: Any, classes: tuple[str, ...], onto: RunFolder) -> None:
    """The run `onto` with an adapter, as if it had been tuned: its weights with the adapter merged in."""
    folder, tokeniser = RunFolder(path), onto.tokeniser()
    with folder.locked():
        must_be_free(path)
        if tokeniser is not None:
            folder.save_tokeniser(tokeniser)
        folder.save_tuned(recipe, params, classes, epoch=0)
        folder.save_recipe(recipe)


def must_be_free(path: Path) -> None:
    for name in RECIPE, SEEDS, STATE, STATES, WEIGHTS:
        if (path / name).exists() and not (name == WEIGHTS and was_killed(path / name)):
            raise FileError(f"{path}: holds {name} already; choose another folder with --out, or remove it")


def was_killed(weights: Path) -> bool:
    """Whether an import wrote them, before it was killed: it trains no epoch."""
    try:
        return load_arrays(weights)[1].get("epoch") == 0
    except CheckpointError:
        return False
