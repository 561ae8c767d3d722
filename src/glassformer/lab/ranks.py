"""Ranks that the data allow. Every two factors are compared seed by seed; Holm over all of these comparisons.

best  = 1 + how many are surely stronger          worst = F - how many are surely weaker

A tie is a pair that this test leaves open. (Rank intervals that overlap are none: a factor may be surely stronger than
another and both have a third between them.) With 95 % all intervals hold the true ranks at once. Student's p, not the
sign-flip one: 12 factors are 66 comparisons, and with 10 seeds no sign-flip p is below 2 / 1024, which Holm makes 0.13,
come what may.
"""

from collections.abc import Mapping

import numpy as np

from glassformer.lab.plan import FEWEST
from glassformer.lab.sample_size import LEVEL
from glassformer.lab.statistics import CLOSE, holm, sign_flip_p
from glassformer.lab.study import Rank

Effects = Mapping[str, Mapping[int, float]]  # factor -> seed -> difference


def ranks(effects: Effects, level: float = LEVEL) -> tuple[Rank, ...]:
    """Strongest first."""
    names = list(effects)
    means = np.array([np.mean(list(effects[name].values())) for name in names])
    order = np.argsort(-means, kind="stable")
    stronger = surely_stronger(effects, level)
    return tuple(
        Rank(
            factor=names[i],
            best=min(1 + int(stronger[:, i].sum()), point),
            worst=max(len(names) - int(stronger[i].sum()), point),
            point=point,
            tied=tuple(names[j] for j in order if j != i and not stronger[i, j] and not stronger[j, i]),
        )
        for point, i in enumerate(order, 1)
    )


def surely_stronger(effects: Effects, level: float = LEVEL) -> np.ndarray:
    """(F, F): whether the row's factor is surely stronger than the column's."""
    names, seeds = list(effects), sorted({seed for one in effects.values() for seed in one})
    table = np.array([[effects[name].get(seed, np.nan) for seed in seeds] for name in names])
    stronger = np.zeros((len(names), len(names)), bool)
    if len(names) < 2:
        return stronger
    i, j = np.triu_indices(len(names), 1)
    apart = table[i] - table[j]  # what both are compared with falls out where it is the same
    sure = holm(student_p(apart)) <= level
    up = np.nansum(apart, -1) > 0
    stronger[i, j], stronger[j, i] = sure & up, sure & ~up
    return stronger


def student_p(samples: np.ndarray) -> np.ndarray:
    """Of each row, two-sided; nan: not there. 1 where a row has too few to say anything."""
    from scipy.stats import t

    there = ~np.isnan(samples)
    n = there.sum(-1)
    free = np.maximum(n - 1, 1)
    mean = np.nansum(samples, -1) / np.maximum(n, 1)
    spread = np.sqrt(np.nansum((samples - mean[:, None]) ** 2, -1) / free)
    equal = spread <= CLOSE * np.abs(mean)  # as coarse accuracies may be by chance: no reason to be sure
    p = 2 * t.sf(np.abs(mean) / np.where(equal, 1.0, spread) * np.sqrt(n), free)
    for row in np.flatnonzero(equal & (n >= FEWEST)):
        p[row] = sign_flip_p(samples[row, there[row]])
    return np.where(n < FEWEST, 1.0, p)
