"""A number tried at several values: how the score depends on it, and where it is best.

optimum    the vertex of the parabola through the best of the values tried and its two neighbours, over log(value) where
           the values are positive and spread over a factor of three or more, else over the value itself. Nothing is
           assumed of the curve elsewhere
interval   seeds are drawn again, with replacement, the same for all values, and the optimum is taken anew: 2.5 and 97.5
           percentiles of 4,999 draws. Means of n drawn seeds spread too little, so that their distances from the means
           are widened by sqrt(n / (n - 1)) · t(0.975, n - 1) / z(0.975)
edge       where the best value is the first or the last, the optimum may lie beyond, and no vertex is claimed; it may
           where the interval reaches an edge, too

Measured (tests/lab/test_dose_response.py): the interval covers the optimum of a parabola in 93 to 97 % of studies of 6,
8 and 12 seeds, five and seven values, noise of a third of a step's difference and as much as it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from glassformer.lab.cells import Cell
from glassformer.lab.plan import Factor
from glassformer.lab.run_rows import scores_by_seed
from glassformer.lab.settings_columns import settings_of
from glassformer.lab.statistics import interval
from glassformer.lab.study import Study, Summary

DRAWS = 4999
FEWEST_VALUES, FEWEST_SEEDS = 3, 3
WIDE = 3.0  # largest over smallest: from here on values are a matter of factors, not of differences

Place = Literal["inside", "first", "last", "open"]  # open: the interval spans all that was tried


@dataclass(frozen=True)
class Dose:
    """One setting at several values, everything else as it is."""

    name: str  # the subject
    setting: str
    along: tuple[str, ...]  # settings that change with it
    on: str  # title of the cell that it was changed in
    group: str
    values: np.ndarray  # (V,), ascending
    titles: tuple[str, ...]  # of the cells
    summaries: tuple[Summary, ...]
    seeds: tuple[int, ...]  # that all values have
    scores: np.ndarray  # (seeds, V)
    low: np.ndarray  # (V,): 95 % interval of each mean
    high: np.ndarray
    log: bool
    best: int  # place of the best mean
    optimum: float
    between: tuple[float, float]  # its 95 % interval
    place: Place

    @property
    def means(self) -> np.ndarray:
        return self.scores.mean(axis=0)


def doses(study: Study) -> list[Dose]:
    """Every number that was tried at three values or more, in the plan's order."""
    found = [dose(study, *one) for one in sweeps(study)]
    return [one for one in found if one is not None]


Tried = tuple[str, str, tuple[str, ...], str, str, list[tuple[float, Cell]]]


def sweeps(study: Study) -> Iterable[Tried]:
    """Factors of one subject, group and reference that change the same numbers; the first of these is the dose."""
    together: dict[Any, list[tuple[float, Cell]]] = {}
    plan, references = study.plan, {}
    named = {name: sweep for sweep in plan.sweeps for name in sweep.factors if name}
    for finding in study.findings:
        comparison = finding.comparison
        if comparison.kind != "add":
            continue
        factor = plan.by_name[comparison.factors[0]]
        numbers = numbers_of(factor)
        if not numbers:
            continue
        sweep = named.get(factor.name)
        setting = sweep.setting if sweep else next(iter(numbers))
        key = (sweep.name if sweep else plan.subject_of(factor), setting, tuple(numbers), factor.group, factor.on)
        together.setdefault(key, []).append((float(numbers[setting]), comparison.with_))
        references[key] = comparison.without
    for key, tried in together.items():
        (name, setting, names, group, _), reference = key, references[key]
        there: Any = settings_of(reference.recipe).get(setting)
        if is_number(there):
            tried.append((float(there), reference))
        yield name, setting, tuple(one for one in names if one != setting), reference.title, group, sorted_once(tried)


def numbers_of(factor: Factor) -> dict[str, float]:
    """What it changes, if that is numbers alone."""
    return dict(factor.changes) if all(is_number(value) for value in factor.changes.values()) else {}


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def sorted_once(tried: list[tuple[float, Cell]]) -> list[tuple[float, Cell]]:
    return sorted({value: (value, cell) for value, cell in tried}.values(), key=lambda one: one[0])


def dose(
    study: Study, name: str, setting: str, along: tuple[str, ...], on: str, group: str, tried: list[tuple[float, Cell]]
) -> Dose | None:
    """None where fewer than three values have three seeds in common."""
    summaries = [(value, cell, summary_of(study, cell)) for value, cell in tried]
    known = [(value, cell.title, one, scores_by_seed(one)) for value, cell, one in summaries if one is not None]
    known = [one for one in known if one[3]]
    seeds = [seed for seed in study.plan.seeds if all(seed in one[3] for one in known)]
    if len(known) < FEWEST_VALUES or len(seeds) < FEWEST_SEEDS:
        return None
    values = np.array([one[0] for one in known])
    scores = np.array([[one[3][seed] for one in known] for seed in seeds])
    sign = study.plan.metric.sign
    log = bool(values.min() > 0 and values.max() / values.min() >= WIDE)
    x = np.log(values) if log else values
    optimum, between, place = located(x, sign * scores)
    low, high = interval(scores.T)
    return Dose(
        name=name,
        setting=setting,
        along=along,
        on=on,
        group=group,
        values=values,
        titles=tuple(one[1] for one in known),
        summaries=tuple(one[2] for one in known),
        seeds=tuple(seeds),
        scores=scores,
        low=low,
        high=high,
        log=log,
        best=int((sign * scores).mean(axis=0).argmax()),
        optimum=value_at(optimum, x, values, log=log),
        between=(value_at(between[0], x, values, log=log), value_at(between[1], x, values, log=log)),
        place=place,
    )


def value_at(place: float, x: np.ndarray, values: np.ndarray, *, log: bool) -> float:
    """Back from the scale of the parabola; one that was tried exactly as it was tried."""
    same = np.flatnonzero(np.isclose(x, place, rtol=0, atol=1e-9))
    return float(values[same[0]]) if same.size else math.exp(place) if log else place


def located(x: np.ndarray, scores: np.ndarray, draws: int = DRAWS) -> tuple[float, tuple[float, float], Place]:
    """Where scores (seeds, V), higher is better, are best over x; its interval; and where in the grid that is."""
    rng, seeds, means = np.random.default_rng(0), len(scores), scores.mean(axis=0)
    drawn = scores[rng.integers(0, seeds, (draws, seeds))].mean(axis=1)
    drawn = vertices(x, means + widening(seeds) * (drawn - means))
    low, high = (float(end) for end in np.quantile(drawn, [0.025, 0.975]))
    best, optimum = int(means.argmax()), float(vertices(x, means[None])[0])
    if low <= x[0] and high >= x[-1]:
        return optimum, (low, high), "open"
    return optimum, (low, high), "first" if best == 0 else "last" if best == len(x) - 1 else "inside"


def widening(n: int) -> float:
    """
    >>> round(widening(6), 3), round(widening(1000), 3)
    (1.437, 1.002)
    """
    from scipy.stats import norm, t

    return float(math.sqrt(n / (n - 1)) * t.ppf(0.975, n - 1) / norm.ppf(0.975))


def vertices(x: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Of means (N, V): the vertex of the parabola through the best and its neighbours; at an edge, the edge.

    >>> x = np.array([0.0, 1.0, 3.0, 4.0])
    >>> vertices(x, -((x - 1.4) ** 2)[None]).round(6).tolist(), vertices(x, x[None]).tolist()
    ([1.4], [4.0])
    """
    best = means.argmax(axis=1)
    inner = np.clip(best, 1, len(x) - 2)
    rows = np.arange(len(means))
    (x0, y0), (x1, y1), (x2, y2) = ((x[inner + i], means[rows, inner + i]) for i in (-1, 0, 1))
    left, right = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
    bend = (right - left) / (x2 - x0)
    with np.errstate(divide="ignore", invalid="ignore"):
        vertex = (x0 + x1) / 2 - left / (2 * bend)
    found = np.where((best == inner) & (bend < 0), np.clip(vertex, x0, x2), x[best])
    return np.where(best == inner, found, x[best])


def summary_of(study: Study, cell: Cell) -> Summary | None:
    same = [one for one in study.cells if one.cell.key == cell.key]
    return next((one for one in same if one.cell.group == cell.group), same[0] if same else None)
