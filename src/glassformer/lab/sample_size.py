"""How many seeds it takes. With n paired seeds an exact sign-flip test cannot give a p below 2 / 2^n, come what may.

Holm's correction over m factors asks the smallest p for 0.05 / m, so n must be at least log2(40 m). That is enough to
decide about a large effect. To find one of 1.5 standard deviations four times in five, a large family takes more.
"""

import math

LEVEL = 0.05
# up to so many factors, so many seeds find an effect of 1.5 standard deviations in 80 % of studies (test_coverage.py)
ENOUGH = {6: 10, 11: 11, 20: 12, 32: 13, 55: 14, 85: 15}
MOST = 16  # up to 160 factors


def smallest_p(seeds: int) -> float:
    """
    >>> smallest_p(5)
    0.0625
    """
    return 2.0 ** (1 - seeds)


def seeds_needed(factors: int) -> int:
    """
    >>> seeds_needed(25), seeds_needed(26), seeds_needed(1)
    (10, 11, 6)
    """
    return math.ceil(math.log2(2 * max(factors, 1) / LEVEL))


def usual_seeds(factors: int) -> int:
    """What a plan takes that does not say: ten, and more where there are many factors.

    >>> usual_seeds(5), usual_seeds(10), usual_seeds(15), usual_seeds(25), usual_seeds(40)
    (10, 11, 12, 13, 14)
    """
    return next((seeds for most, seeds in ENOUGH.items() if factors <= most), MOST)
