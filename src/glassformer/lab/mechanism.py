"""What a trained model looks like inside, in a few numbers: the mechanism beside the accuracy.

entropy, saturation     of attention, the mean over blocks and heads: 1 looks everywhere alike, 0 at one token
positions               how strong positions are, over how strong the tokens are that they are added to
dead units              share of feed-forward units that never fire
gradient                norm of the loss's gradient at each weight matrix, over the norm of the matrix
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from glassformer.lens.health import health
from glassformer.lens.trace import trace
from glassformer.train.recipe import Recipe

SAMPLES = 32
SUMMED_UP = ("entropy", "saturation", "positions", "dead units")


def mechanism(recipe: Recipe, params: Any, samples: Any) -> dict[str, float]:
    """Of the first samples, which should be held-out ones. A number that does not exist for a model is left out."""
    chosen: Any = np.arange(min(SAMPLES, recipe.task.count(samples)))
    batch = recipe.task.batch(samples, chosen)
    seen = trace(recipe.model, recipe.merged(params), batch.x, labels=batch.labels, loss=recipe.loss, **batch.keywords)
    numbers: dict[str, list[float]] = {}
    for finding in health(seen):
        if finding.measure in SUMMED_UP:
            numbers.setdefault(finding.measure, []).append(finding.value)
        elif finding.measure == "gradient/weight":
            numbers[f"gradient/weight {finding.name}"] = [finding.value]
    return rounded({name: float(np.mean(values)) for name, values in numbers.items()})


def rounded(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.5g}") for name, value in numbers.items() if np.isfinite(value)}
