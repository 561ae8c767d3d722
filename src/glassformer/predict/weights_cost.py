"""What narrower weights cost a language model: its loss on test data, token by token, beside that of float32.

Both read the same tokens, so the difference is paired. Tokens of one sample are not independent: the interval is that
of a ratio of sums over samples.
"""

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jax.numpy as jnp
import numpy as np
from scipy import stats

from glassformer.errors import EngineError, SettingError
from glassformer.native.build import Notice
from glassformer.native.decoder import NativeDecoder
from glassformer.native.packed_weights import Kind
from glassformer.probabilities import log_softmax
from glassformer.train.score import parts_of
from glassformer.train.tasks.task import label_weights

if TYPE_CHECKING:
    from glassformer.predict.run import Run


class Cost(NamedTuple):
    float32_loss: float  # mean over the tokens
    loss: float
    difference: float
    interval: tuple[float, float] | None  # of 95 %; None: there is one sample only
    tokens: int
    samples: int
    changed: int  # tokens behind which another one is the likeliest now


def cost_of_weights(run: "Run", samples: Any, weights: Kind, notice: Notice) -> Cost:
    task = run.recipe.task
    if run.recipe.output_axis != "symbols":
        raise SettingError(
            f"eval: {run.path} has the task {task.name}; --weights compares models that say which symbol comes next"
        )
    try:
        kinds = ("float32", weights)
        made = [NativeDecoder(cast(Any, run.model), run.params, weights=kind, notice=notice) for kind in kinds]
    except EngineError as error:
        raise EngineError(f"{error}; --weights compares what the native decoder reads") from None
    sums, changed = [], 0  # of each sample: tokens, loss in float32, loss
    for chosen, here in parts_of(task, samples):
        batch = task.batch(samples, jnp.asarray(chosen))
        counts = np.asarray(label_weights(batch, jnp.asarray(here)))
        (before, best), (after, now) = (losses(one, np.asarray(batch.x), np.asarray(batch.labels)) for one in made)
        of_each = np.stack([counts, counts * before, counts * after]).sum(axis=-1, dtype=np.float64)
        sums.append(of_each.T[here > 0])
        changed += int(((best != now) & (counts > 0)).sum())
    return cost_of(np.concatenate(sums), changed)


def losses(decoder: NativeDecoder, ids: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(B, T): how unlikely each label was, in nats, and which token was the likeliest."""
    unlikely, best, labels_left = [], [], labels.reshape(-1)
    for logits in decoder.logits(ids):
        wanted, labels_left = labels_left[: len(logits)], labels_left[len(logits) :]
        unlikely.append(-np.take_along_axis(log_softmax(logits), wanted[:, None], axis=-1)[:, 0])
        best.append(logits.argmax(axis=-1))
    return np.concatenate(unlikely).reshape(labels.shape), np.concatenate(best).reshape(labels.shape)


def cost_of(sums: np.ndarray, changed: int) -> Cost:
    """From tokens, loss in float32 and loss of each sample."""
    tokens, before, after = sums.T
    count, samples = tokens.sum(), len(sums)
    difference, interval = (after - before).sum() / count, None
    if samples > 1:
        apart = after - before - difference * tokens
        error = np.sqrt(samples / (samples - 1) * np.sum(apart**2)) / count
        wide = float(stats.t.ppf(0.975, samples - 1) * error)
        interval = (float(difference) - wide, float(difference) + wide)
    return Cost(
        float(before.sum() / count),
        float(after.sum() / count),
        float(difference),
        interval,
        int(count),
        samples,
        changed,
    )
