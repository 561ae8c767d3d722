"""What most seeds see, beside the mean, which one collapsed run can move far.

interquartile mean          of the middle half of the differences; Yuen's interval: Student's of the h values that are
                            left, with the squares of all n, the quarters at both ends set to the next inner value,
                            over h (h - 1); with h - 2 degrees of freedom, because with h - 1 it covers 92.3 to 94 %
                            (Tukey and McLaughlin's 91.5 to 93 %; `beside_row` of simulate.py)
probability of improvement  that a seed does better with the factor; ties left out; Clopper and Pearson's interval
"""

import math

import numpy as np

from glassformer.lab.rates import rate
from glassformer.lab.sample_size import LEVEL
from glassformer.lab.study import Estimate

CUT = 0.25  # from each end
FEWEST = 6  # values: with fewer the middle half is one number


def interquartile_mean(differences: np.ndarray, level: float = LEVEL) -> Estimate | None:
    """
    >>> interquartile_mean(np.array([-90.0, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2])).value.__round__(3)
    1.5
    """
    if len(differences) < FEWEST:
        return None
    return Estimate(*map(float, middle_half(differences, level)))


def middle_half(values: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Its mean with the ends of the interval, over the last axis."""
    from scipy.stats import t

    n = values.shape[-1]
    cut = int(CUT * n)
    h = n - 2 * cut
    ordered = np.sort(values, axis=-1)
    middle = ordered[..., cut : n - cut]
    drawn_in = np.clip(ordered, middle[..., :1], middle[..., -1:])
    reach = float(t.ppf(1 - level / 2, h - 2)) * math.sqrt((n - 1) / (h * (h - 1)))
    mean, half = middle.mean(-1), reach * drawn_in.std(-1, ddof=1)
    return mean, mean - half, mean + half


def improvement(differences: np.ndarray, level: float = LEVEL) -> Estimate | None:
    up, down = int((differences > 0).sum()), int((differences < 0).sum())
    return rate(up, up + down, level) if up + down else None
