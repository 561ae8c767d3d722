"""What the runs of a cell reached, in percent, and two cells seed by seed.

In a group that is judged by validation this is the last epoch's validation accuracy; the test set is not looked at.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from glassformer.errors import SettingError
from glassformer.lab.cells import Cell, Comparison, cell
from glassformer.lab.plan import Measure, Plan
from glassformer.lab.record import Record, Results
from glassformer.lab.statistics import interval
from glassformer.lab.study import Summary


@dataclass(frozen=True)
class Paired:
    """By seed. A seed that failed on any side has no difference."""

    differences: Mapping[int, float]
    failed: Mapping[int, str]  # with the factor: why
    failed_without: Mapping[int, str]
    tried: int  # seeds that have a record with the factor

    @property
    def values(self) -> np.ndarray:
        return np.array(list(self.differences.values()))


def paired(plan: Plan, results: Results, comparison: Comparison) -> Paired:
    """Of a pair the interaction: (ab - a) - (b - baseline)."""
    without, with_ = (runs(plan, results, side) for side in (comparison.without, comparison.with_))
    sides = [(with_, 1.0), (without, -1.0)]
    if comparison.kind == "pair":
        alone = [runs(plan, results, cell(plan, (name,), comparison.group)) for name in comparison.factors]
        sides = [(with_, 1.0), *((one, -1.0) for one in alone), (without, 1.0)]
    measure = measure_of(plan, comparison.with_)
    scores = [({seed: score(record, measure) for seed, record in side.items()}, sign) for side, sign in sides]
    both = [seed for seed in plan.seeds if all(values.get(seed) is not None for values, _ in scores)]
    return Paired(
        differences={seed: sum(sign * (values[seed] or 0.0) for values, sign in scores) for seed in both},
        failed={seed: record.failed for seed, record in with_.items() if record.failed},
        failed_without={seed: record.failed for seed, record in without.items() if record.failed},
        tried=len(with_),
    )


def runs(plan: Plan, results: Results, of: Cell) -> dict[int, Record]:
    """By seed, in the plan's order: what is there. Refused where the group asks for what is not measured."""
    if measure_of(plan, of) == "validation" and not of.recipe.validation.share:
        raise SettingError(
            f"{plan.name}: {of.title}: nothing is held out (validation.share = 0), and the group is judged by "
            "validation; set validation.share = 0.1, or measure = 'test' for the group"
        )
    there = results.of(of.key)
    return {seed: there[seed] for seed in plan.seeds if seed in there}


def measure_of(plan: Plan, of: Cell) -> Measure:
    return plan.group(of.group).measure


def score(record: Record, measure: Measure) -> float | None:
    """In percent; None for a run that failed."""
    value = record.test if measure == "test" else record.validation[-1] if record.validation else None
    return None if record.failed or value is None or not math.isfinite(value) else 100.0 * value


def summarise(plan: Plan, results: Results, of: Cell) -> Summary:
    """nan where no run went well, and for the spread where one did."""
    records = tuple(runs(plan, results, of).values())
    measure = measure_of(plan, of)
    scores = np.array([value for record in records if (value := score(record, measure)) is not None])
    low, high = interval(scores) if len(scores) else (math.nan, math.nan)
    return Summary(
        cell=of,
        records=records,
        scores=scores,
        mean=float(scores.mean()) if len(scores) else math.nan,
        spread=float(scores.std(ddof=1)) if len(scores) > 1 else math.nan,
        low=float(low),
        high=float(high),
    )


def epochs_to(target: float | None, records: Iterable[Record]) -> float | None:
    """Median over seeds of the first epoch whose validation accuracy reaches the target; None: never in most."""
    if target is None:
        return None
    first = [first_epoch(record, target) for record in records]
    median = float(np.median(first)) if first else math.inf
    return median if math.isfinite(median) else None


def first_epoch(record: Record, target: float) -> float:
    if record.failed:
        return math.inf
    return next((float(epoch) for epoch, value in enumerate(record.validation, 1) if value >= target), math.inf)
