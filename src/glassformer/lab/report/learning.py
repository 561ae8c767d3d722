"""Learning curves as numbers: validation accuracy by epoch, the mean over seeds with its 95 % band.

band = mean ± t(0.975, n - 1) · s / sqrt(n)        s over the seeds of one epoch

A curve ends with the first of its seeds to stop: a mean over those that went on would be of other runs.
"""

from dataclasses import dataclass

import numpy as np

from glassformer.lab.report.facts import closely, well
from glassformer.lab.study import Study, Summary


@dataclass(frozen=True)
class Curve:
    label: str
    mean: np.ndarray  # percent, by epoch
    low: np.ndarray
    high: np.ndarray
    seeds: int


def learning_curves(study: Study) -> list[Curve]:
    """Of the baseline, the strongest causes and the best, where anything was held out."""
    found = [curve(one.label, one.summary) for one in closely(study)]
    return [one for one in found if one is not None]


def curve(label: str, summary: Summary) -> Curve | None:
    from scipy.stats import t

    seeds = [record.validation for record in well(summary) if record.validation]
    if not seeds:
        return None
    epochs = min(map(len, seeds))
    values = 100 * np.array([seed[:epochs] for seed in seeds], float)
    n, mean = len(values), values.mean(axis=0)
    half = t.ppf(0.975, n - 1) * values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(epochs)
    return Curve(label, mean, np.maximum(mean - half, 0), np.minimum(mean + half, 100), n)
