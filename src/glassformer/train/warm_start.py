"""The first weights of a run that starts from another: whatever both models have, and fresh weights for the rest."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import CheckpointError
from glassformer.models.model import Network
from glassformer.names import named_leaves, with_leaves
from glassformer.structure import structure
from glassformer.train.recipe import Recipe
from glassformer.train.run_folder import RunFolder
from glassformer.train.tune import Full


def recipe_from(start: str | Path) -> Recipe:
    """The recipe of a run, to start from its weights: without the head that a task has put on its model."""
    recipe = RunFolder(Path(start)).recipe()
    native = recipe.engine.name == "native"  # it need not be able to do what is asked for now
    return dataclasses.replace(
        recipe,
        model=recipe.model.backbone,
        start=str(Path(start).absolute()),
        tune=Full(),
        engine=dataclasses.replace(recipe.engine, name="auto") if native else recipe.engine,
    )


def tokeniser_from(start: str | Path) -> Tokeniser | None:
    return RunFolder(Path(start)).tokeniser()


def warm_start(recipe: Recipe, fresh: Any) -> Any:
    """`fresh`, with the weights of the run that the recipe starts from."""
    if not recipe.start:
        return fresh
    return recipe.tune.with_base(fresh, with_learned(recipe, recipe.tune.base(fresh)))


def with_learned(recipe: Recipe, fresh: Any) -> Any:
    """The params of the recipe's model."""
    folder = RunFolder(Path(recipe.start))
    before = folder.recipe()
    learned, _ = folder.load_model(before)
    of_task = tuple(f"{part}." for part in recipe.model.task_parts)  # taken over only where the task is the same
    moved = partial(moved_name, backbone_name(before.model), backbone_name(recipe.model))
    have = {moved(name): leaf for name, leaf in named_leaves(learned).items()}
    want = named_leaves(fresh)
    kept = {}
    for name, leaf in want.items():
        there = name in have and have[name].shape == leaf.shape
        if there:
            kept[name] = have[name]
        elif not name.startswith(of_task):
            came = f"has shape {have[name].shape} there" if name in have else "is not there"
            raise CheckpointError(
                f"{recipe.start}: {name!r} {came}, and this model needs {leaf.shape}; start from a run of the same "
                f"model: {type(before.model).__name__} with the same sizes and the same tokeniser"
            )
    left = [name for name in have if name not in want and not name.startswith(of_task)]
    if left:
        raise CheckpointError(
            f"{recipe.start}: {left[0]!r} has no place in this model; start from one of the same depth"
        )
    if not same_head(before, recipe):
        kept = {name: leaf for name, leaf in kept.items() if not name.startswith(of_task)}
    return with_leaves(fresh, kept)


def same_head(before: Recipe, now: Recipe) -> bool:
    """Whether the head means the same in both: the task is the same, or both give the symbols of a text."""
    return type(before.task) is type(now.task) or before.output_axis == now.output_axis == "symbols"


def backbone_name(model: Network) -> str:
    """Where the model without its head stands in the model; nothing where it is the model itself."""
    if model.backbone is model:
        return ""
    return next(node.name for node in structure(model).walk() if node.layer == model.backbone)


def moved_name(before: str, now: str, name: str) -> str:
    """An encoder that was trained or imported without a head is a part of the model that has one."""
    return f"{now}.{name}" if now and not before else name
