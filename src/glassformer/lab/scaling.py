"""How the error falls with size: a power law, with what is left at any size where the data can tell.

error = a · N^-b            N parameters; the error is 100 % less the share of right answers, or the loss itself
error = a · N^-b + c        where four sizes or more were tried

Fitted to the means over seeds by least squares of relative residuals, b from 0 to 3 and c from 0 to below the smallest
error. Intervals: seeds drawn again, as in dose_response.py. c is identifiable when its 95 % interval leaves out zero
and stays below 95 % of the smallest error; otherwise the law without it is given, and that is said. Where the interval
of b includes zero, the error does not surely fall with size, and no law is claimed.
"""

from dataclasses import dataclass

import numpy as np

from glassformer.lab.dose_response import Dose, doses, widening
from glassformer.lab.statistics import interval
from glassformer.lab.study import Study

DRAWS = 999
POWERS = np.linspace(0.0, 3.0, 121)
SHARES = np.linspace(0.0, 0.99, 34)  # of the smallest error: c
SIZES, WITH_OFFSET = 3, 4  # sizes that each law needs

Interval = tuple[float, float]


@dataclass(frozen=True)
class Law:
    dose: Dose
    sizes: np.ndarray  # (V,) parameters, ascending
    errors: np.ndarray  # (V,) means over seeds
    low: np.ndarray  # (V,): their 95 % intervals
    high: np.ndarray
    kind: str  # what the error is
    a: float
    b: float
    c: float
    b_between: Interval
    c_between: Interval | None  # None: too few sizes to ask
    offset: bool  # c is identifiable
    falls: bool  # the interval of b leaves out zero

    def error(self, size: np.ndarray) -> np.ndarray:
        return self.a * size**-self.b + self.c


def laws(study: Study) -> list[Law]:
    """Of every number that changes how many parameters there are."""
    found = [law(study, one) for one in doses(study)]
    return [one for one in found if one is not None]


def law(study: Study, one: Dose) -> Law | None:
    sizes = np.array([summary.records[0].parameters for summary in one.summaries], float)
    order = np.argsort(sizes)
    found = errors_of(study, one)
    if found is None:
        return None
    errors, kind = found
    if len(set(sizes)) < len(sizes) or len(sizes) < SIZES or sizes.min() <= 0 or errors.min() <= 0:
        return None
    sizes, errors = sizes[order], errors[:, order]
    rng, seeds, means = np.random.default_rng(0), len(errors), errors.mean(axis=0)
    drawn = errors[rng.integers(0, seeds, (DRAWS, seeds))].mean(axis=1)
    drawn = np.maximum(means + widening(seeds) * (drawn - means), 1e-3 * means)
    a, b, c = (float(value[0]) for value in fit(sizes, means[None], SHARES[:1]))
    b_between = between(fit(sizes, drawn, SHARES[:1])[1])
    c_between, offset = None, False
    if len(sizes) >= WITH_OFFSET:
        _, powers, offsets = fit(sizes, drawn, SHARES)
        c_between = between(offsets)
        offset = c_between[0] > 0 and between(offsets / drawn.min(axis=1))[1] < 0.95 and between(powers)[0] > 0
        if offset:
            a, b, c = (float(value[0]) for value in fit(sizes, means[None], SHARES))
            b_between = between(powers)
    return Law(one, sizes, means, *interval(errors.T), kind, a, b, c, b_between, c_between, offset, b_between[0] > 0)


def errors_of(study: Study, one: Dose) -> tuple[np.ndarray, str] | None:
    """(seeds, V), and what they are; None of a metric that knows no best."""
    metric = study.plan.metric
    if not metric.higher:
        return one.scores, metric.name
    if not metric.logit:
        return None
    return metric.shown(1.0) - one.scores, "error in percent"


def fit(sizes: np.ndarray, errors: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """a, b and c of errors (N, V): the best of a grid of b and c, for each of which the best a is known.

    >>> sizes = np.array([1e3, 1e4, 1e5, 1e6])
    >>> a, b, c = fit(sizes, (40 * sizes**-0.3 + 1.0)[None], SHARES)
    >>> bool(abs(b[0] - 0.3) < 0.02), bool(abs(c[0] - 1.0) < 0.05)
    (True, True)
    """
    unit = np.exp(np.log(sizes).mean())  # a is taken at the middle size, and carried back
    shapes = (sizes / unit) ** -POWERS[:, None]  # (B, V)
    found = np.full((3, len(errors)), np.nan)
    least = np.full(len(errors), np.inf)
    for share in shares:
        c = share * errors.min(axis=1)
        over, left = shapes / errors[:, None, :], (errors - c[:, None]) / errors  # (N, B, V), (N, V)
        a = np.einsum("nbv,nv->nb", over, left) / np.einsum("nbv,nbv->nb", over, over)
        wrong = ((a[..., None] * over - left[:, None, :]) ** 2).sum(axis=-1)
        best = wrong.argmin(axis=1)
        rows = np.arange(len(errors))
        better = wrong[rows, best] < least
        b = POWERS[best]
        found[:, better] = np.array([a[rows, best] * unit**b, b, c])[:, better]
        least = np.minimum(least, wrong[rows, best])
    return found[0], found[1], found[2]


def between(drawn: np.ndarray) -> Interval:
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)
