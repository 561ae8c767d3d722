"""Two recipes, each trained with several seeds: does the difference hold beyond these seeds?

paired     the same seeds on both sides: differences seed by seed, Student's t interval, wider where they are skewed
           (statistics.py), exact sign-flip test
unpaired   other seeds: Welch's t interval of the difference of the means; p by exact permutation of the runs over the
           sides (drawn at random where there are more than 10,000 ways)
TOST       two one-sided t tests against the margin
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.lab.sample_size import smallest_p
from glassformer.lab.statistics import interval, sign_flip_p

WAYS = 9999


@dataclass(frozen=True)
class OverSeeds:
    paired: bool
    runs: tuple[int, int]
    low: float  # 95 % interval of the difference, second less first
    high: float
    p: float
    least_p: float  # no test of so few runs can give less
    spread: float  # standard error
    freedom: float

    def equivalence_p(self, mean: float, margin: float) -> float:
        from scipy.stats import t

        if not self.spread:
            return 0.0 if abs(mean) < margin else 1.0
        return float(
            max(t.sf((mean + margin) / self.spread, self.freedom), t.cdf((mean - margin) / self.spread, self.freedom))
        )


def over_seeds(first: Sequence[float], second: Sequence[float], *, paired: bool) -> OverSeeds | None:
    """None where a side has one run: nothing tells how far its seeds spread."""
    a, b = np.array(first, float), np.array(second, float)
    if min(len(a), len(b)) < 2:
        return None
    runs = len(a), len(b)
    if paired:
        differences = b - a
        low, high = interval(differences)
        spread = float(differences.std(ddof=1) / math.sqrt(len(a)))
        p = float(sign_flip_p(differences))
        return OverSeeds(True, runs, float(low), float(high), p, smallest_p(len(a)), spread, len(a) - 1)
    low, high, spread, freedom = welch(a, b)
    ways = math.comb(len(a) + len(b), len(a))
    return OverSeeds(
        False, runs, low, high, permutation_p(a, b), (2 if len(a) == len(b) else 1) / ways, spread, freedom
    )


def welch(a: np.ndarray, b: np.ndarray) -> tuple[float, float, float, float]:
    """Interval of mean(b) - mean(a), its standard error, and Welch's degrees of freedom."""
    from scipy.stats import t

    parts = [one.var(ddof=1) / len(one) for one in (a, b)]
    spread = math.sqrt(sum(parts))
    freedom = (
        sum(parts) ** 2 / sum(part**2 / (len(one) - 1) for part, one in zip(parts, (a, b), strict=True))
        if spread
        else 1.0
    )
    half, mean = float(t.ppf(0.975, freedom)) * spread, float(b.mean() - a.mean())
    return mean - half, mean + half, spread, float(freedom)


def permutation_p(a: np.ndarray, b: np.ndarray) -> float:
    from scipy.stats import permutation_test

    found = permutation_test(
        (a, b),
        lambda x, y, axis: np.mean(y, axis=axis) - np.mean(x, axis=axis),
        vectorized=True,
        n_resamples=WAYS,
        rng=0,
    )
    return float(found.pvalue)
