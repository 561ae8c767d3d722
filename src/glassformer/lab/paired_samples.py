"""Two sides on the same test samples: an exact test for right and wrong, a bootstrap for every other score.

McNemar    of n samples that one side alone has right, k are the second's: p = the two-sided binomial test of k in n
           against 1/2. Samples that both have right, or both wrong, say nothing
Tango      of right and wrong the interval of the difference, and its test against a margin: the score test (Tango 1998)
           z(d) = (k - (n - k) - N d) / sqrt(N (2 q + d (1 - d))), q the likeliest share of samples that the first alone
           has right if the difference is d. z(0)^2 is McNemar's chi-square. It holds where few samples or none differ,
           which a bootstrap takes for certainty
bootstrap  samples are drawn again, with replacement, the same ones for both sides; the difference of the scores is
           taken anew each time. Interval: its 2.5 and 97.5 percentiles. p: twice the smaller share of draws beyond
           zero, the draws and the data counted (Davison and Hinkley 1997)
TOST       both one-sided tests against a margin m, that the difference is above -m and below +m: p is the larger one;
           of shares by the bootstrap no less than (1 - m)^N, the chance that not one of N samples shows a difference
"""

import math
from collections.abc import Iterator

import numpy as np

from glassformer.lab.sample_size import LEVEL
from glassformer.predict.per_sample import Sums

DRAWS = 9999
AT_ONCE = 1 << 22  # numbers drawn together


def mcnemar(first: Sums, second: Sums) -> tuple[int, int, float]:
    """Samples that only the first, only the second has right; and p.

    >>> ones = np.ones(10)
    >>> first, second = Sums(np.array([1.0] * 8 + [0.0] * 2), ones), Sums(np.array([0.0] * 8 + [1.0] * 2), ones)
    >>> mcnemar(first, second)
    (8, 2, 0.109375)
    """
    from scipy.stats import binomtest

    only_first = int(((first.value == 1) & (second.value == 0)).sum())
    only_second = int(((first.value == 0) & (second.value == 1)).sum())
    n = only_first + only_second
    return only_first, only_second, float(binomtest(only_second, n).pvalue) if n else 1.0


def tango_z(only_first: int, only_second: int, n: int, difference: float) -> float:
    """
    >>> math.isclose(tango_z(12, 30, 500, 0.0) ** 2, (30 - 12) ** 2 / (30 + 12))
    True
    """
    a, c = 2.0 * n, -only_first * difference * (1 - difference)
    b = -only_second - only_first + (2 * n - only_second + only_first) * difference
    q = (math.sqrt(max(b * b - 4 * a * c, 0.0)) - b) / (2 * a)
    spread = math.sqrt(max(n * (2 * q + difference * (1 - difference)), 0.0))
    away = only_second - only_first - n * difference
    return away / spread if spread else math.copysign(math.inf, away) if away else 0.0


def tango_interval(only_first: int, only_second: int, n: int, level: float = LEVEL) -> tuple[float, float]:
    """The differences that the score test does not refuse."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    reach, mean = float(norm.isf(level / 2)), (only_second - only_first) / n

    def end(side: int) -> float:
        edge = side * (1 - 1e-12)
        if side * (edge - mean) <= 0:
            return float(side)
        return float(brentq(lambda d: tango_z(only_first, only_second, n, d) + side * reach, mean, edge))  # pyright: ignore

    return end(-1), end(1)


def tango_equivalence_p(only_first: int, only_second: int, n: int, margin: float) -> float:
    from scipy.stats import norm

    above, below = (tango_z(only_first, only_second, n, side * margin) for side in (-1, 1))
    return float(max(norm.sf(above), norm.cdf(below)))


def bootstrap(first: Sums, second: Sums, draws: int = DRAWS, seed: int = 0) -> np.ndarray:
    """(draws,) differences of the scores, second less first, each of as many samples drawn again."""
    rng, n = np.random.default_rng(seed), len(first.value)
    if np.array_equal(first.weight, second.weight) and np.ptp(first.weight) == 0:
        each = (second.value - first.value) / first.weight
        values, counts = np.unique(each, return_counts=True)
        if len(values) <= 16:  # how often each value comes is all that matters
            return rng.multinomial(n, counts / n, draws) @ values / n
        return np.concatenate([each[chosen].mean(axis=1) for chosen in blocks(rng, n, draws)])
    found = []
    for chosen in blocks(rng, n, draws):
        sums = [side[chosen].sum(axis=1) for one in (first, second) for side in (one.value, one.weight)]
        found.append(sums[2] / sums[3] - sums[0] / sums[1])
    return np.concatenate(found)


def blocks(rng: np.random.Generator, n: int, draws: int) -> Iterator[np.ndarray]:
    step = max(1, AT_ONCE // n)
    for start in range(0, draws, step):
        yield rng.integers(0, n, (min(step, draws - start), n))


def percentiles(drawn: np.ndarray, level: float = LEVEL) -> tuple[float, float]:
    low, high = np.quantile(drawn, [level / 2, 1 - level / 2])
    return float(low), float(high)


def p_beyond(drawn: np.ndarray, value: float = 0.0) -> tuple[float, float]:
    """One-sided: that the difference is above `value`, and that it is below."""
    n = len(drawn)
    return float((1 + (drawn <= value).sum()) / (n + 1)), float((1 + (drawn >= value).sum()) / (n + 1))


def bootstrap_p(drawn: np.ndarray) -> float:
    return min(1.0, 2 * min(p_beyond(drawn)))


def equivalence_p(drawn: np.ndarray, margin: float) -> float:
    """TOST by the same draws."""
    return max(p_beyond(drawn, -margin)[0], p_beyond(drawn, margin)[1])
