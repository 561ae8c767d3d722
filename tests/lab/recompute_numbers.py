"""Intervals, p and corrections once more, by other ways than the lab's: for recompute.py. NumPy and SciPy alone."""

import math
from functools import lru_cache

import numpy as np
from scipy import optimize, stats

LEVEL = 0.05
DRAWS = 400_000


def noise(p: float) -> float:
    """Four standard errors of two p that were drawn, theirs by 200,000."""
    return 4 * math.sqrt(2 * p * (1 / 200_000 + 1 / DRAWS)) + 1e-5


def odds_of(percent: float) -> float:
    share = min(max(percent / 100, 0.001), 0.999)
    return math.log(share) - math.log1p(-share)


def interval(values: np.ndarray, level: float) -> tuple[float, float]:
    """Student's, widened to where Hall's statistic reaches the same critical value: found by a search."""
    n, mean, spread = len(values), values.mean(), values.std(ddof=1)
    reach = stats.t.isf(level / 2, n - 1)
    half = reach * spread / math.sqrt(n)
    g = min(max(float(stats.skew(values, bias=False)), -1.25), 1.25)

    def hall(true: float) -> float:
        u = (mean - true) / spread
        return math.sqrt(n) * (u + g * u**2 / 3 + g**2 * u**3 / 27 + g / (6 * n))

    far = 20 * half
    low = optimize.brentq(lambda true: hall(true) - reach, mean - far, mean + far)
    high = optimize.brentq(lambda true: hall(true) + reach, mean - far, mean + far)
    return min(mean - half, low), max(mean + half, high)


def flip_p(values: np.ndarray) -> float:
    """Sums of all subsets, one value after the other."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return float((np.abs(sums) >= abs(values.sum()) - 1e-9 * np.abs(values).sum()).mean())


def seen_skewness(values: np.ndarray) -> float:
    seen = float(stats.skew(values, bias=False)) * (1 + 8 / len(values))
    return min(max(seen, -2.4), 2.4)


@lru_cache
def drawn_t(n: int, tenths: int) -> np.ndarray:
    rng = np.random.default_rng(20_000 + tenths)
    if not tenths:
        return rng.standard_t(n - 1, DRAWS)
    values = np.asarray(stats.pearson3.rvs(tenths / 10, size=(DRAWS, n), random_state=rng))
    return values.mean(1) / values.std(1, ddof=1) * math.sqrt(n)


def tails(values: np.ndarray, skew: float) -> tuple[float, float]:
    """Above and below; by what is known where nothing is skewed."""
    n = len(values)
    reached = values.mean() / values.std(ddof=1) * math.sqrt(n)
    tenths = round(10 * skew)
    if not tenths:
        return float(stats.t.sf(reached, n - 1)), float(stats.t.cdf(reached, n - 1))
    drawn = drawn_t(n, tenths)
    return float((drawn >= reached).mean()), float((drawn <= reached).mean())


def skewed_p(values: np.ndarray, skew: float) -> float:
    return min(1.0, 2 * min(tails(values, skew)))


def same_p(values: np.ndarray, margin: float, skew: float) -> float:
    return max(max(tails(values - margin, g)[1], tails(values + margin, g)[0]) for g in (0.0, skew))


def holm(p: list[float]) -> list[float]:
    """As it is defined: the smallest p that rejects, step by step."""
    order = sorted(range(len(p)), key=lambda i: p[i])
    found, largest = [0.0] * len(p), 0.0
    for step, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p) - step) * p[i]))
        found[i] = largest
    return found
