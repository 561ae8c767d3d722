"""What a run is trained on, and what is held out to choose by."""

from typing import Any

from glassformer.data.dataset import Dataset, cut, hold_out
from glassformer.train.recipe import Recipe


def split(recipe: Recipe, data: Dataset) -> tuple[Any, Any | None]:
    """The training samples, and those that an epoch is judged by; None where a recipe holds out none."""
    share, subset = recipe.validation.share, recipe.training.subset
    train, held_out = hold_out(data.train, share) if share else (data.train, None)
    held_out = None if held_out is None else recipe.task.to_score(held_out)
    return (cut(train, slice(subset)) if subset else train), held_out
