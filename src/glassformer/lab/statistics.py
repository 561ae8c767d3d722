"""Paired differences, one for each seed: an interval of their mean, a test, and a correction for trying many.

interval   whatever lies in one of two 95 % intervals of the mean: Student's mean ± t s / sqrt(n), and Hall's, which
           allows for the skewness g of the differences: it ends where
           u + g u^2 / 3 + g^2 u^3 / 27 + g / (6 n) = ± t / sqrt(n)   with   u = (mean - true mean) / s
d_z        mean / s
p          the larger of two. Sign flips: the share of the 2^n ways to turn the signs round whose |sum| is at least the
           observed one (were there no effect, `with` and `without` of a seed could change places, and nobody would see
           it). And Student's t, read against the distribution that it has for skewed values: those of a gamma
           distribution with the skewness of the family. Differences whose mean is 0 may be skewed, and sign flips alone
           then see effects that are none
same       two one-sided tests against ± margin (TOST), each by the larger of Student's p and the one for skewed values
Holm       p_(i) · (m - i + 1), made to rise: the chance of one false alarm or more in a family of m stays at most 5 %

Why so, measured (docs/lab.md, `python -m glassformer.lab.simulate`): Student's interval alone covers 90 % at a skewness
of 2, Hall's 92 % of differences between two bounded scores; together 93.4 to 96.6 %. Sign flips alone: up to 28 % of
studies without any effect on the mean have a false alarm at a skewness of 2; so 5 % at most.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from glassformer.lab.looks import ONLY, Look, level_used
from glassformer.lab.looks import corrected as paid
from glassformer.lab.sample_size import LEVEL
from glassformer.lab.study import Effect
from glassformer.lab.typical import improvement, interquartile_mean

EXACT = 16  # seeds up to which all flips are tried one by one
HALVES = 32  # up to which they are counted by halves
FLIPS = 100_000  # drawn above that
CLOSE = 1e-9  # sums that differ by less, of the sum of all sizes, are equal: 0.1 + 0.2 is 0.3
BLOCK = 1 << 22  # sums in memory at once
FEWEST = 3  # values that have a skewness
DRAWN = 200_000  # values of t, for each skewness and number of seeds
MOST_SKEWED = 1.25  # that an interval allows for: beyond it Hall's ends fly off, and cover no more (measured)


def interval(values: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """Of the mean over the last axis, 95 % unless told; nan where there is one value only."""
    from scipy.stats import t

    n = values.shape[-1]
    mean = values.mean(-1)
    if n < 2:
        return np.full_like(mean, math.nan), np.full_like(mean, math.nan)
    spread, reach = values.std(-1, ddof=1), float(t.ppf(1 - level / 2, n - 1)) / math.sqrt(n)
    skew = np.clip(skewness(values), -MOST_SKEWED, MOST_SKEWED)
    low, high = (halls_inverse(end, skew, n) for end in (reach, -reach))
    return mean - spread * np.maximum(reach, low), mean + spread * np.maximum(reach, -high)


def skewness(values: np.ndarray) -> np.ndarray:
    """Of the last axis, corrected for its size (G1); 0 of fewer than three values and of equal ones."""
    n = values.shape[-1]
    if n < FEWEST:
        return np.zeros(values.shape[:-1])
    apart = values - values.mean(-1, keepdims=True)
    square = (apart**2).mean(-1)
    flat = square <= (CLOSE * np.abs(values).max(-1)) ** 2
    return np.where(flat, 0.0, (apart**3).mean(-1) / np.where(flat, 1.0, square) ** 1.5 * G1(n))


def G1(n: int) -> float:  # noqa: N802 - its name in the literature
    return math.sqrt(n * (n - 1)) / (n - 2)


def halls_inverse(value: float, skew: np.ndarray, n: int) -> np.ndarray:
    small = np.abs(skew) < 1e-6
    some = np.where(small, 1.0, skew)
    return np.where(small, value, 3 / some * (np.cbrt(1 + some * (value - some / (6 * n))) - 1))


def student_p(values: np.ndarray, skew: np.ndarray | float = 0.0, side: int = 0) -> np.ndarray:
    """Of the last axis, that the mean is 0, for values of a known skewness; two-sided, or of one side, +1 or -1."""
    n = values.shape[-1]
    mean, spread = values.mean(-1), values.std(-1, ddof=1)
    flat = spread <= CLOSE * np.abs(mean)
    endless = np.where(mean == 0, 0.0, np.copysign(math.inf, mean))
    reached = np.where(flat, endless, math.sqrt(n) * mean / np.where(flat, 1.0, spread))
    tenths = np.broadcast_to(np.round(10 * np.asarray(skew)), reached.shape).astype(int)
    up = np.empty(reached.shape)
    down = np.empty(reached.shape)
    for one in np.unique(tenths):
        up[tenths == one], down[tenths == one] = tails(reached[tenths == one], n, int(one))
    return up if side > 0 else down if side < 0 else np.minimum(1.0, 2 * np.minimum(up, down))


def tails(reached: np.ndarray, n: int, tenths: int) -> tuple[np.ndarray, np.ndarray]:
    """Of Student's t with n values whose skewness is so many tenths: above, and below."""
    from scipy.stats import t

    if not tenths:
        return t.sf(reached, n - 1), t.cdf(reached, n - 1)
    drawn = skewed_t(n, abs(tenths))
    turned = reached if tenths > 0 else -reached
    up = (len(drawn) - np.searchsorted(drawn, turned, "left") + 1) / (len(drawn) + 1)
    down = (np.searchsorted(drawn, turned, "right") + 1) / (len(drawn) + 1)
    return (up, down) if tenths > 0 else (down, up)


@lru_cache
def skewed_t(n: int, tenths: int) -> np.ndarray:
    """Student's t of n values of a gamma distribution, sorted: drawn, seeded."""
    shape = (20 / tenths) ** 2
    values = np.random.default_rng([n, tenths]).gamma(shape, size=(DRAWN, n)) - shape
    return np.sort(values.mean(-1) / values.std(-1, ddof=1) * math.sqrt(n))


def sign_flip_p(differences: np.ndarray) -> np.ndarray:
    """Two-sided p over the last axis: exact up to 32 seeds, by seeded random flips above.

    >>> sign_flip_p(np.array([1.0, 2.0, 0.5, 3.0])).item() == 2 / 2**4
    True
    >>> sign_flip_p(np.arange(1.0, 21.0)).item() == 2 / 2**20
    True
    """
    *lead, n = differences.shape
    rows = differences.reshape(-1, n)
    reached = (np.abs(rows.sum(-1)) - CLOSE * np.abs(rows).sum(-1))[:, None]
    if EXACT < n <= HALVES:
        return np.array([by_halves(row, end) for row, end in zip(rows, reached[:, 0], strict=True)]).reshape(lead)
    signs = flips(n)
    step = max(1, BLOCK // len(signs))
    blocks = [slice(start, start + step) for start in range(0, len(rows), step)]
    counts = [(np.abs(rows[block] @ signs.T) >= reached[block]).sum(-1) for block in blocks]
    count = np.concatenate(counts) if counts else np.zeros(0)
    drawn = n > HALVES  # then the observed signs count as one flip more, lest p be 0
    return ((count + drawn) / (len(signs) + drawn)).reshape(lead)


def by_halves(row: np.ndarray, reached: float) -> float:
    """Of all 2^n flips, exactly: each is a flip of the first half and one of the second."""
    if reached <= 0:
        return 1.0
    first, second = (sums_of(half) for half in np.array_split(row, 2))
    count = (len(second) - np.searchsorted(second, reached - first)).sum()
    return float(2 * count / 2 ** len(row))  # and as many below


def sums_of(values: np.ndarray) -> np.ndarray:
    """With all signs, sorted."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return np.sort(sums)


@lru_cache
def flips(n: int) -> np.ndarray:
    """(flips, n) of ±1. A flip and its mirror image have the same |sum|: half of all suffices."""
    if n > HALVES:
        return np.random.default_rng(n).choice((-1.0, 1.0), (FLIPS, n))
    bits = np.arange(2 ** max(n - 1, 0))[:, None] >> np.arange(n)
    return 1.0 - 2.0 * (bits & 1)


def holm(p: np.ndarray) -> np.ndarray:
    """Corrected over the last axis.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    m = p.shape[-1]
    order = np.argsort(p, axis=-1, kind="stable")
    raised = np.take_along_axis(p, order, -1) * (m - np.arange(m))
    rising = np.minimum(np.maximum.accumulate(raised, axis=-1), 1.0)
    corrected = np.empty_like(rising)
    np.put_along_axis(corrected, order, rising, -1)
    return corrected


def effects(family: Sequence[np.ndarray], margin: float = 1.0, look: Look = ONLY) -> list[Effect]:
    """Of factors that are tested together; each has the differences of its own seeds."""
    skew = family_skewness(family)
    flips = np.array([sign_flip_p(differences).item() for differences in family])
    p = np.array([max(p, student_p(one, skew).item()) for p, one in zip(flips, family, strict=True)])
    same = np.array([same_p(one, margin, skew).item() for one in family])
    p_holm, p_same = ([paid(p, look) for p in holm(values).tolist()] for values in (p, same))
    return [effect(*one, look) for one in zip(family, flips, p, p_holm, p_same, strict=True)]


def family_skewness(family: Sequence[np.ndarray]) -> float:
    """The median over its factors: known far better than that of one, and one that collapses does not change it."""
    return float(np.median([true_skewness(skewness(one), len(one)) for one in family])) if family else 0.0


def true_skewness(seen: np.ndarray, n: int) -> np.ndarray:
    """Few values show less of it than there is: of n values of a gamma distribution about n / (n + 8) (measured)."""
    return np.clip(seen * (1 + 8 / n), -2.4, 2.4)


def same_p(differences: np.ndarray, margin: np.ndarray | float, skew: np.ndarray | float = 0.0) -> np.ndarray:
    """Of the last axis, that the mean is not within ± margin: small where it surely is.

    Of equal differences no smaller than a flip's.
    """
    below, above = differences - margin, differences + margin
    tested = [student_p(values, g, side) for g in (0.0, skew) for values, side in ((below, -1), (above, 1))]
    return np.maximum(0.5 ** differences.shape[-1], np.max(tested, axis=0))


def effect(differences: np.ndarray, p_flip: float, p: float, p_holm: float, p_same: float, look: Look = ONLY) -> Effect:
    low, high = interval(differences, level_used(look))
    return Effect(
        differences=tuple(differences.tolist()),
        mean=float(differences.mean()),
        low=float(low),
        high=float(high),
        size=size_of(differences),
        p=float(p),
        p_holm=float(p_holm),
        p_flip=float(p_flip),
        p_same=float(p_same),
        skewness=float(skewness(differences)),
        typical=interquartile_mean(differences),
        improves=improvement(differences),
    )


def size_of(differences: np.ndarray) -> float:
    mean, spread = float(differences.mean()), float(differences.std(ddof=1))
    if spread > CLOSE * abs(mean):
        return mean / spread
    return math.copysign(math.inf, mean) if mean else 0.0


@lru_cache
def power(seeds: int, factors: int, size: float = 1.5, trials: int = 2000) -> float:
    """How often one real effect of so many standard deviations is found among so many factors: simulated, seeded.

    Of symmetric differences: the skewness of a large family is then about 0.
    """
    drawn = np.random.default_rng(0).normal(size, 1.0, (trials, seeds))
    p = np.maximum(sign_flip_p(drawn), student_p(drawn))
    return float(((p <= LEVEL / factors) & (interval(drawn)[0] > 0)).mean())
