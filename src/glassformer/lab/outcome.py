"""How a run ended: with numbers, with NaN, without memory, or collapsed to an answer that is no better than chance.

Chance is the best that can be done without looking at a sample: always the commonest answer, or the frequency of each.
A run has collapsed when it has no more right answers than that. (A test of it would call every run collapsed that few
held-out samples cannot tell from chance.) Where the task is judged by its loss, or a sample is right as a whole only:
when its loss is no lower than that of the frequencies (of numbers: of their mean).
"""

from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from glassformer.lab.record import Outcome, Record
from glassformer.losses import CrossEntropy
from glassformer.train.score import parts_of
from glassformer.train.tasks.task import Task


@dataclass(frozen=True)
class Chance:
    """Of samples that are scored."""

    answers: int  # how many there are
    share: float | None = None  # of the commonest; None: right answers do not decide
    loss: float | None = None  # of one who knows the frequencies; None: the loss does not decide


def chance(task: Task, samples: Any) -> Chance:
    if task.together:
        return Chance(task.count(samples))
    labels, weights = answers_of(task, samples)
    if not np.issubdtype(labels.dtype, np.integer):
        return Chance(len(labels), loss=loss_of_mean(task, labels))
    counts = np.bincount(labels.ravel(), weights.ravel())
    shares = counts[counts > 0] / counts.sum()
    entropy = float(-(shares * np.log(shares)).sum()) if task.loss == CrossEntropy() else None
    by_loss = task.by_loss or task.whole
    return Chance(round(float(counts.sum())), None if by_loss else float(shares.max()), entropy if by_loss else None)


def answers_of(task: Task, samples: Any) -> tuple[np.ndarray, np.ndarray]:
    """All labels, and how much each counts."""
    samples = jax.device_get(samples)
    labels, weights = [], []
    chosen: Any
    for chosen, here in parts_of(task, samples):
        batch = task.batch(samples, chosen)
        there = np.tile(here, len(batch.labels) // len(here)) > 0
        found = np.asarray(batch.labels)[there]
        labels.append(found)
        weights.append(np.ones(found.shape) if batch.weights is None else np.asarray(batch.weights)[there])
    return np.concatenate(labels), np.concatenate(weights)


def loss_of_mean(task: Task, labels: np.ndarray) -> float | None:
    if task.output_axis != "numbers":
        return None
    always = np.broadcast_to(labels.mean(axis=0), labels.shape)
    weights: Any = np.ones(labels.shape, np.float32)
    return float(task.loss.total(always, labels, weights) / weights.sum())


def judged(record: Record, known: dict[str, Chance]) -> Record:
    """With its outcome. `known`: chance on "validation" and on "test"."""
    if record.outcome:
        return record
    if record.failed:
        return replace(record, outcome=kind_of(record.failed), reason=record.failed)
    part = "validation" if record.validation or record.scores else "test"
    reason = collapsed(record, part, known[part]) if part in known else ""
    return replace(record, outcome="collapse" if reason else "ok", reason=reason)


def kind_of(failed: str) -> Outcome:
    return "nan" if failed.startswith("not finite") else "memory" if failed == "out of memory" else "failed"


def collapsed(record: Record, part: str, chance: Chance) -> str:
    """Why it is no better than chance; nothing: it is, or nobody can tell."""
    accuracy, loss = record.value("accuracy", part), record.value("loss", part)
    if chance.share is not None and accuracy is not None:
        right = round(accuracy * chance.answers)
        if right <= round(chance.share * chance.answers):
            return f"{right:,} of {chance.answers:,} right; the commonest answer alone has {chance.share:.1%}"
    if chance.loss is not None and loss is not None and loss >= chance.loss:
        return f"loss {loss:.3f}; the frequencies of the answers alone have {chance.loss:.3f}"
    return ""
