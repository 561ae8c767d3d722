"""The outcome of a run: what `--json` prints of it, and metrics.json keeps."""

from typing import Any

import jax

from glassformer.layers.contract import param_shapes
from glassformer.train.engines import Engine
from glassformer.train.limits import bytes_of
from glassformer.train.recipe import Recipe
from glassformer.train.run_folder import Progress, RunFolder

SCORES = ("test_accuracy", "val_accuracy", "test_loss", "val_loss")


def result(recipe: Recipe, progress: Progress, folder: RunFolder, engine: Engine) -> dict[str, Any]:
    """Scores are those of the weights that were kept."""
    params, best = param_shapes(recipe.network), progress.best
    learns = recipe.learning.learns(params)
    learning = sum(leaf.size for leaf, flag in zip(*map(jax.tree.leaves, (params, learns)), strict=True) if flag)
    memory = jax.eval_shape(recipe.learning.transformation(engine.steps, recipe.training.epochs).init, params)
    averaged = best.keeps_average(by_loss=recipe.task.by_loss)

    def scores(weights: str, called: str = "") -> dict[str, float | None]:
        return {called + name: getattr(best, weights + name) for name in SCORES}

    both = {"weights": "averaged" if averaged else "last", **scores("", "last_"), **scores("ema_", "ema_")}
    return {
        **scores("ema_" if averaged else ""),
        **(both if recipe.training.ema else {}),
        "loss": progress.rows[-1].loss,
        "epochs": progress.epoch,
        "best_epoch": progress.best_epoch,
        "train_seconds": sum(row.time for row in progress.rows),
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(params)),
        "learning": learning,
        "optimiser_bytes": bytes_of(memory),
        "task": recipe.task.name,
        "engine": engine.name,
        "seed": recipe.training.seed,
        "run": str(folder.path),
    }
