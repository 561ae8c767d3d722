"""How many seeds it takes. With n paired seeds an exact sign-flip test cannot give a p below 2 / 2^n, come what may.

Holm's correction over m factors asks the smallest p for 0.05 / m, so n must be at least log2(40 m).
"""

import math

LEVEL = 0.05


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
