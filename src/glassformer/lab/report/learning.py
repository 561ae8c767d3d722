"""Learning curves as numbers: the metric on validation by epoch, the mean over seeds with its 95 % band.

band = mean ± t(0.975, n - 1) · s / sqrt(n)        s over the seeds of one epoch

A curve ends with the first of its seeds to stop: a mean over those that went on would be of other runs.
"""

from dataclasses import dataclass

import numpy as np

from glassformer.lab.metric import ACCURACY, Metric
from glassformer.lab.report.facts import closely, well
from glassformer.lab.study import Study, Summary


@dataclass(frozen=True)
class Curve:
    label: str
    mean: np.ndarray  # as it is shown, by epoch
    low: np.ndarray
    high: np.ndarray
    seeds: int


def learning_curves(study: Study) -> list[Curve]:
    """Of the baseline, the strongest causes and the best, where anything was held out."""
    found = [curve(one.label, one.summary, study.plan.metric) for one in closely(study)]
    return [one for one in found if one is not None]


def curve(label: str, summary: Summary, metric: Metric = ACCURACY) -> Curve | None:
    from scipy.stats import t

    seeds = [by_epoch for record in well(summary) if (by_epoch := record.curve(metric.name))]
    if not seeds:
        return None
    epochs = min(map(len, seeds))
    values = metric.scale * np.array([seed[:epochs] for seed in seeds], float)
    n, mean = len(values), values.mean(axis=0)
    half = t.ppf(0.975, n - 1) * values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(epochs)
    low, high = (metric.shown(end) for end in (metric.low, metric.high))
    return Curve(label, mean, np.maximum(mean - half, low), np.minimum(mean + half, high), n)
