"""Every score of a run by the name of its metric, on validation after each epoch and on the test set at the end.

Accuracy and loss come with every score; perplexity is exp(loss) where that is a cross-entropy. F1 (the mean over the
classes), exact match (samples whose labels are all right) and a function of one's own, (outputs, labels) -> number, are
computed from what the model puts out, where the plan asks for them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.errors import SettingError
from glassformer.lab.metric import F1, TIME_TO_TARGET, function_of, metric_named
from glassformer.lab.plan import Plan, usual_metric
from glassformer.losses import CrossEntropy
from glassformer.train.recipe import Recipe
from glassformer.train.score import Score, parts_of
from glassformer.train.tasks.task import label_weights

WITH_EVERY_SCORE = ("accuracy", "loss", "perplexity", TIME_TO_TARGET.name)


@dataclass(frozen=True)
class Scoring:
    """What is computed of a run besides accuracy and loss."""

    metrics: tuple[str, ...] = ()  # from the outputs
    reached: tuple[str, float] | None = None  # the metric and its value that training is timed to


class Outputs(NamedTuple):
    """Of all samples, one row for each label that counts."""

    outputs: np.ndarray
    labels: np.ndarray
    sample: np.ndarray  # whose row it is
    right: np.ndarray | None  # None: there is no right and wrong


def scoring_of(plan: Plan) -> Scoring:
    if plan.metric.name == TIME_TO_TARGET.name:
        return Scoring(reached=(usual_metric(plan.baseline).name, plan.target if plan.target is not None else math.nan))
    return Scoring(() if plan.metric.name in WITH_EVERY_SCORE else (plan.metric.name,))


def must_be_scored(plan: Plan, recipe: Recipe, outputs: Any, right: Any) -> None:
    """Refuse a metric that the task has no numbers for."""
    name, task = plan.metric.name, recipe.task
    if name == TIME_TO_TARGET.name and plan.target is None:
        raise SettingError("metric: time to target needs a target; write target = 0.9 into the plan")
    if name in ("accuracy", "exact match") and right is None:
        raise SettingError(
            f"the task {task.name} knows no right and wrong, and the metric is {name}; compare losses: metric = 'loss'"
        )
    if name == "perplexity" and task.loss != CrossEntropy():
        raise SettingError(f"the loss of the task {task.name} is no cross-entropy, and has no perplexity; take 'loss'")
    if name not in WITH_EVERY_SCORE and task.together:
        raise SettingError(
            f"the samples of the task {task.name} are scored against each other, and {name} is computed sample by "
            "sample; take metric = 'accuracy' or 'loss'"
        )
    if name == F1.name and right is None:
        raise SettingError(f"the task {task.name} has no classes, and F1 counts them; take metric = 'loss'")


def of_score(recipe: Recipe, score: Score) -> dict[str, np.ndarray]:
    """By metric, one number for each run."""
    found = {} if score.accuracy is None else {"accuracy": np.atleast_1d(score.accuracy)}
    loss = np.atleast_1d(score.loss).astype(float)
    perplexity = {"perplexity": np.exp(np.minimum(loss, 700.0))} if recipe.task.loss == CrossEntropy() else {}
    return {**found, "loss": loss, **perplexity}


def of_outputs(metrics: Sequence[str], seen: Outputs) -> dict[str, float]:
    built_in: dict[str, Callable[[Outputs], float]] = {"F1": mean_f1, "exact match": exact_match}
    return {name: float(built_in[name](seen) if name in built_in else own(name, seen)) for name in metrics}


def own(name: str, seen: Outputs) -> float:
    function = function_of(metric_named(name))
    if function is None:
        raise SettingError(
            f"metric {name}: nothing computes it; register a function: @register.metric(Metric({name!r}))"
        )
    value = function(seen.outputs, seen.labels)
    if not isinstance(value, int | float | np.number) and np.ndim(value) != 0:
        raise SettingError(f"metric {name}: its function gave {type(value).__name__}, expected a number")
    return float(value)


def exact_match(seen: Outputs) -> float:
    assert seen.right is not None
    wrong = np.bincount(seen.sample, ~seen.right)
    return float((wrong[np.unique(seen.sample)] == 0).mean())


def mean_f1(seen: Outputs) -> float:
    """Of each class that occurs, 2 TP / (2 TP + FP + FN); their mean."""
    found = seen.outputs.argmax(axis=-1)
    scores = []
    for one in np.union1d(seen.labels, found):
        true = np.sum((found == one) & (seen.labels == one))
        scores.append(2 * true / (np.sum(found == one) + np.sum(seen.labels == one)))
    return float(np.mean(scores))


class Reader:
    """What models of one shape put out, compiled once; of several runs together, run by run."""

    def __init__(self, recipe: Recipe, several: bool) -> None:
        self.recipe = recipe
        forward = partial(put_out, recipe)
        self.forward = jax.jit(jax.vmap(forward, in_axes=(0, None, None)) if several else forward)
        self.several = several

    def read(self, params: Any, samples: Any) -> list[Outputs]:
        task, resident = self.recipe.task, jax.tree.map(jnp.asarray, samples)
        parts: list[list[Any]] = []  # of each part: outputs of each run
        rows: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        chosen: Any
        here: Any
        for chosen, here in parts_of(task, resident):
            y = np.asarray(self.forward(params, resident, chosen))
            batch = task.batch(resident, chosen)
            counts = np.asarray(label_weights(batch, here)) > 0
            rows.append((np.asarray(batch.labels)[counts], sample_of(counts, chosen)[counts], counts))
            parts.append([one[counts] if counts.ndim < one.ndim else one for one in (y if self.several else [y])])
        labels, sample = (np.concatenate([row[i] for row in rows]) for i in (0, 1))
        return [self.joined([part[run] for part in parts], labels, sample) for run in range(len(parts[0]))]

    def joined(self, outputs: list[np.ndarray], labels: np.ndarray, sample: np.ndarray) -> Outputs:
        whole = np.concatenate(outputs)
        right = self.recipe.task.right(whole, labels)
        return Outputs(whole, labels, sample, None if right is None else np.asarray(right))


def sample_of(counts: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    return np.broadcast_to(chosen.reshape(-1, *(1,) * (counts.ndim - 1)), counts.shape)


def put_out(recipe: Recipe, params: Any, samples: Any, chosen: Any) -> Any:
    batch = recipe.task.batch(samples, chosen)
    return recipe.model.forward(recipe.merged(params), batch.x, **batch.keywords)[0]  # pyright: ignore[reportCallIssue]


def time_to(reached: tuple[str, float], curve: Sequence[float], seconds: float) -> float | None:
    """Seconds of training until the metric is as good, counted in epochs; None: it never was."""
    metric = metric_named(reached[0])
    first = next((i for i, value in enumerate(curve, 1) if not metric.better(reached[1], value)), None)
    return None if first is None else seconds * first / len(curve)
