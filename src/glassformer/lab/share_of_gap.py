"""How much of the gap a factor closes, with an interval: the gap is estimated by the same seeds, so that both vary.

share = mean(difference) / mean(gap)        Fieller's interval: all c for which difference - c · gap may have mean 0
"""

import math

import numpy as np

from glassformer.lab.sample_size import LEVEL
from glassformer.lab.study import Estimate


def share_of_gap(differences: np.ndarray, gaps: np.ndarray, level: float = LEVEL) -> Estimate | None:
    """Of paired values; endless where the gap itself may be none. None where there are too few."""
    from scipy.stats import t

    n = len(differences)
    if n < 2 or not gaps.mean() > 0:
        return None
    over, under = float(differences.mean()), float(gaps.mean())
    square = float(t.ppf(1 - level / 2, n - 1)) ** 2 / n
    v_dd, v_dg, v_gg = (square * float(np.cov(differences, gaps)[i]) for i in ((0, 0), (0, 1), (1, 1)))
    a, b, c = under**2 - v_gg, over * under - v_dg, over**2 - v_dd
    if a <= 0:
        return Estimate(over / under, -math.inf, math.inf)
    root = math.sqrt(max(b * b - a * c, 0.0))
    return Estimate(over / under, (b - root) / a, (b + root) / a)
