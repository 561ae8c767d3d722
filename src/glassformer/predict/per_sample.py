"""What a run scores on each test sample by itself: whether it is right, and its loss.

The score of a data set is a ratio of sums over its samples: right answers over answers, loss over labels. A sample of
one label has one answer; of a text whose every token is labelled, or of a window of text, as many as it has labels; of
a task whose samples are right as a whole (translations, spans), one.
"""

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.data.dataset import TEXTS, Dataset, digest
from glassformer.data.sources import own_reader
from glassformer.data.text_sources import load_texts
from glassformer.data.texts import Texts
from glassformer.data.token_shards import is_token_folder
from glassformer.errors import CheckpointError, DataError
from glassformer.predict.run import Run, load
from glassformer.reading import expanded
from glassformer.train.run_folder import STATE, RunFolder
from glassformer.train.score import parts_of
from glassformer.train.sharded_state import STATES
from glassformer.train.tasks.task import Task, label_weights


@dataclass(frozen=True)
class Sums:
    """Of every sample, (N,): `value` of all over `weight` of all is the score."""

    value: np.ndarray
    weight: np.ndarray

    @property
    def score(self) -> float:
        return float(self.value.sum() / self.weight.sum())

    @property
    def is_right_or_wrong(self) -> bool:
        """One answer a sample."""
        return bool((self.weight == 1).all() and np.isin(self.value, (0, 1)).all())


@dataclass(frozen=True)
class PerSample:
    right: Sums | None  # None: the task knows no right and wrong
    loss: Sums
    samples: str  # digest of the test samples as the run reads them
    labels: str  # of what it is asked for
    source: str  # of the texts that they were made of; nothing where they were not, one by one


def open_finished(path: str | Path) -> Run:
    """A run whose weights will not change any more; one that is still training is refused."""
    folder = RunFolder(Path(path))
    run = load(path)
    if folder.is_live():
        raise CheckpointError(f"{path}: a process is training this run now; wait until it ends")
    if not run.metrics and any(
        (folder.path / name).exists() for name in (STATE, STATES, "log.csv")
    ):  # imports have none
        raise CheckpointError(
            f"{path}: its training was stopped before its end, and its weights are those of an epoch before; go on "
            f"with it: glassformer train --resume {path}"
        )
    return run


def score_each(run: Run, data: str | Dataset = "") -> PerSample:
    """Each sample of the test part of a data set; without a name, of the data the run was trained on."""
    task = run.recipe.task
    if task.together:
        raise DataError(
            f"{run.path}: the task {task.name} scores every sample against all others; no sample has a score by itself"
        )
    name = data if isinstance(data, str) else data.name
    found = run.load_data(name) if isinstance(data, str) else data
    if run.recipe.output_axis == "classes" and len(found.classes) != len(run.classes):
        raise DataError(
            f"{found.name}: it has {len(found.classes)} classes, and {run.path} knows {len(run.classes)}; choose data "
            "with the run's own classes"
        )
    right, answers, loss, weight, labels = in_parts(run, found.test)
    must_be_finite(run, loss)
    return PerSample(
        right=None if np.isnan(right).all() else Sums(right, answers),
        loss=Sums(loss, weight),
        samples=digest(found.test),
        labels=labels,
        source=source_of(run, name or run.recipe.data, len(loss)) if isinstance(data, str) else "",
    )


def in_parts(run: Run, samples: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, str]:
    """Sums as `part` has them, of all samples; and a digest of their labels."""
    model, task, resident = run.model, run.recipe.task, jax.tree.map(jnp.asarray, samples)
    parts, asked = [], hashlib.sha256()
    for chosen, here in parts_of(task, resident):
        *sums, labels, weights = (np.asarray(one)[here > 0] for one in part(model, task, run.params, resident, chosen))
        parts.append(sums)
        for array in (labels, weights):
            asked.update(np.ascontiguousarray(array).data)
    right, answers, loss, weight = (np.concatenate(column).astype(float) for column in zip(*parts, strict=True))
    return right, answers, loss, weight, asked.hexdigest()


@partial(jax.jit, static_argnames=("model", "task"))
def part(model: Any, task: Task, params: Any, samples: Any, chosen: Any) -> tuple[Any, ...]:
    """Sums of each sample: right answers (nan: none is), answers, loss, labels; then labels and weights themselves."""
    count = len(chosen)
    batch = task.batch(samples, chosen)
    y, _ = model.forward(params, batch.x, **batch.keywords)
    weights = label_weights(batch, jnp.ones(count))

    def by_sample(rows: Any) -> Any:
        """Of samples with several rows come the first rows of all, then the second ones."""
        return rows if len(rows) == count else jnp.swapaxes(rows.reshape(-1, count, *rows.shape[1:]), 0, 1)

    labels, own = by_sample(batch.labels), by_sample(weights)
    loss = jax.vmap(lambda *one: task.loss.total(*(value[None] for value in one)))(by_sample(y), labels, own)
    weight = own.reshape(count, -1).sum(axis=1)
    right = task.right(y, batch.labels)
    if right is None:
        return jnp.full(count, jnp.nan), weight, loss, weight, labels, own
    right = by_sample(right)
    if task.whole:
        return (right | (own == 0)).reshape(count, -1).all(axis=1), jnp.ones(count), loss, weight, labels, own
    return (right * own).reshape(count, -1).sum(axis=1), weight, loss, weight, labels, own


def must_be_finite(run: Run, loss: np.ndarray) -> None:
    bad = np.flatnonzero(~np.isfinite(loss))
    if bad.size:
        raise DataError(
            f"{run.path}: the loss of {bad.size:,} of {len(loss):,} test samples is no finite number (the first is "
            f"sample {bad[0]:,}); its weights have diverged: leave the run out, or train it again with a smaller "
            "learning rate"
        )


def source_of(run: Run, name: str, count: int) -> str:
    """Digest of the test texts, where each of them is one sample, whatever the tokeniser."""
    if run.model.input.reads != TEXTS or is_token_folder(expanded(name)):
        return ""
    reader = own_reader(name)
    texts = reader(name) if reader else load_texts(name)
    if not isinstance(texts, Texts) or len(texts.test) != count:
        return ""
    return hashlib.sha256(repr(texts.test).encode()).hexdigest()
