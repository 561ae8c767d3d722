"""How often runs fail, exactly: a rate with the interval of Clopper and Pearson, and two arms compared seed by seed."""

from glassformer.lab.sample_size import LEVEL
from glassformer.lab.study import Estimate


def rate(failed: int, of: int, level: float = LEVEL) -> Estimate:
    """A share with an interval that covers it in 95 % of studies or more, whatever it is.

    >>> tuple(round(end, 3) for end in rate(0, 12)), tuple(round(end, 3) for end in rate(2, 12))
    ((0.0, 0.0, 0.265), (0.167, 0.021, 0.484))
    """
    from scipy.stats import beta

    if not of:
        return Estimate(0.0, 0.0, 1.0)
    low = float(beta.ppf(level / 2, failed, of - failed + 1)) if failed else 0.0
    high = float(beta.ppf(1 - level / 2, failed + 1, of - failed)) if failed < of else 1.0
    return Estimate(failed / of, low, high)


def paired_p(only_with: int, only_without: int) -> float:
    """McNemar's exact test, two-sided: of the seeds that failed on one side alone, were it heads or tails?

    >>> paired_p(6, 0), paired_p(0, 0)
    (0.03125, 1.0)
    """
    from scipy.stats import binomtest

    n = only_with + only_without
    return float(binomtest(only_with, n).pvalue) if n else 1.0
