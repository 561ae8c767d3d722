"""How well a model answers: the share of right answers, and the loss of its task, for each label.

Counted in parts: a tally of one part is a few sums, and the sums of all parts make the score.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.probabilities import log_softmax
from glassformer.shapes import Array, Float, Integer
from glassformer.train.tasks.task import Task, label_weights

if TYPE_CHECKING:
    from glassformer.train.recipe import Recipe

MOST_LABELS = 8192  # in one part: of 50,000 symbols, their logits take 1.6 GB
MOST_ON_CPU = 1024  # as quick there


class Score(NamedTuple):
    accuracy: Any  # 0..1; None where the task knows no right and wrong; an array where several seeds are scored
    loss: Any  # of the task


class Tally(NamedTuple):
    right: Any
    counted: Any  # answers
    loss: Any  # summed over the labels
    weight: Any  # of the labels


def tally(recipe: "Recipe", params: Any, samples: Any, chosen: Integer[Array, "B"], here: Float[Array, "B"]) -> Any:
    """Sums over some samples, a Tally; those not `here` (0) are padding. Where all are scored together, the output."""
    batch = recipe.task.batch(samples, chosen)
    y, _ = recipe.model.forward(params, batch.x, **batch.keywords)
    if recipe.task.together:
        return y.reshape(-1, len(here), *y.shape[1:])
    weights = label_weights(batch, here)
    right = recipe.task.right(y, batch.labels)
    if right is None:
        answers = Tally(right=jnp.nan, counted=1, loss=0, weight=0)
    elif recipe.task.whole:
        each = (right | (weights == 0)).reshape(len(here), -1).all(axis=1)
        answers = Tally(right=jnp.sum(each * here), counted=jnp.sum(here), loss=0, weight=0)
    else:
        answers = Tally(right=jnp.sum(right * weights), counted=jnp.sum(weights), loss=0, weight=0)
    loss = recipe.task.loss.total(y, batch.labels, weights)
    return answers._replace(loss=loss, weight=jnp.sum(weights))


@lru_cache(maxsize=16)
def compiled_tally(scored: "Recipe") -> Callable[..., Any]:
    """Once for the same model and task in a process, which may train many runs of them."""
    return jax.jit(partial(tally, scored))


def score_in_parts(count_up: Callable[..., Any], task: Task, params: Any, samples: Any) -> Score:
    """The score of all samples; `count_up` is `tally` of a recipe, compiled."""
    resident = jax.tree.map(jnp.asarray, samples)
    parts = []
    for chosen, here in parts_of(task, resident):
        parts.append(count_up(params, resident, chosen, here))
        if jax.process_count() > 1:  # programs that do not wait for each other may meet other hosts in another order
            jax.block_until_ready(parts[-1])
    count = task.count(samples)
    if task.together:
        return score_together(task, np.concatenate(parts, axis=-2)[..., :count, :], samples)
    return score_of(Tally(*(np.sum([np.asarray(part) for part in sums], axis=0) for sums in zip(*parts, strict=True))))


def parts_of(task: Task, samples: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Which samples are counted together; those not here (0) are padding."""
    count = task.count(samples)
    of_one = jax.eval_shape(task.batch, samples, jnp.zeros(1, jnp.int32)).labels.size
    at_once = min(task.at_once, max(1, most_labels() // of_one))
    for start in range(0, count, at_once):
        chosen = np.arange(start, start + at_once)
        yield chosen % count, (chosen < count).astype(np.float32)


def most_labels() -> int:
    return MOST_ON_CPU if jax.default_backend() == "cpu" else MOST_LABELS


def score_together(task: Task, y: np.ndarray, samples: Any) -> Score:
    """Of outputs (rows of a sample, samples, C); of several seeds with an axis in front."""
    if y.ndim == 3:
        return Score(*task.compared(y.reshape(-1, y.shape[-1]), samples))
    scores = [score_together(task, one, samples) for one in y]
    return Score(*map(np.array, zip(*scores, strict=True)))


def score_of(sums: Tally) -> Score:
    accuracy, loss = sums.right / sums.counted, sums.loss / sums.weight
    accuracy = None if np.isnan(accuracy).all() else accuracy
    return Score(accuracy, loss) if np.ndim(loss) else Score(None if accuracy is None else float(accuracy), float(loss))


def score_of_logits(logits: np.ndarray, labels: np.ndarray) -> Score:
    """The same, of logits that are there already."""
    picked = np.take_along_axis(log_softmax(logits), labels[..., None], axis=-1)
    return Score(accuracy=float((logits.argmax(axis=-1) == labels).mean()), loss=float(-picked.mean()))
