"""What the runs of a cell reached, as it is shown, and two cells seed by seed.

In a group that is judged by validation this is the metric in the last epoch; the test set is not looked at. A run that
failed counts as the worst that the metric declares, or as chance: survivors are never averaged alone.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.errors import SettingError
from glassformer.lab.cells import Cell, Comparison, cell
from glassformer.lab.folder import chance_of as folder_chance
from glassformer.lab.metric import ACCURACY, Metric
from glassformer.lab.outcome import Chance
from glassformer.lab.plan import MAIN, Factor, Measure, Plan
from glassformer.lab.rates import rate
from glassformer.lab.record import Record, Results
from glassformer.lab.statistics import interval
from glassformer.lab.study import Study, Summary
from glassformer.train.settings import to_plain

NEAR_CHANCE = 1.2  # times chance, of an accuracy, where nobody has counted the answers
WORDS = {"nan": "not finite", "collapse": "no better than chance", "memory": "out of memory"}
FOLDS = 3  # of seeds: a pair's levels are chosen without the fold that they are judged by
EDGE = 0.001  # of a share: log-odds of 0 and 1 are endless


@dataclass(frozen=True)
class Paired:
    """By seed. What is not known on any side has no difference."""

    differences: Mapping[int, float]  # up is better
    failed: Mapping[int, str]  # with the factor: why
    failed_without: Mapping[int, str]
    tried: int  # seeds that have a record with the factor
    both: int  # on both sides
    only: tuple[int, int]  # seeds that failed with it alone, without it alone
    left_out: tuple[int, ...] = ()  # seeds that had a part in choosing what is compared

    @property
    def values(self) -> np.ndarray:
        return np.array(list(self.differences.values()))


def paired(plan: Plan, results: Results, comparison: Comparison) -> Paired:
    """Of a pair the interaction, (ab - a) - (b - baseline): of a share in log-odds, on seeds that did not choose."""
    metric, measure = plan.metric, measure_of(plan, comparison.with_)
    without, with_ = (runs(plan, results, side) for side in (comparison.without, comparison.with_))
    sides, scale, left_out = [(with_, 1.0), (without, -1.0)], plain, ()
    if comparison.kind == "pair":
        alone = [runs(plan, results, cell(plan, (name,), comparison.group)) for name in comparison.factors]
        sides = [(with_, 1.0), *((one, -1.0) for one in alone), (without, 1.0)]
        scale = log_odds if metric.logit else plain
        left_out = seeds_that_chose(plan, results, comparison.factors)
    worst = worst_of(plan, results, measure)
    scores = [({seed: score(one, metric, measure, worst) for seed, one in side.items()}, sign) for side, sign in sides]
    all_ = [seed for seed in plan.seeds if all(not math.isnan(values.get(seed, math.nan)) for values, _ in scores)]
    failed, failed_without = (failures(plan, results, side.values()) for side in (with_, without))
    shared = [seed for seed in with_ if seed in without]
    return Paired(
        differences={
            seed: metric.sign * sum(sign * scale(values[seed], metric) for values, sign in scores)
            for seed in all_
            if seed not in left_out
        },
        failed=failed,
        failed_without=failed_without,
        tried=len(with_),
        both=len(shared),
        only=(
            sum(seed in failed and seed not in failed_without for seed in shared),
            sum(seed in failed_without and seed not in failed for seed in shared),
        ),
        left_out=tuple(left_out),
    )


def plain(value: float, metric: Metric) -> float:
    return value


def log_odds(shown: float, metric: Metric) -> float:
    """Where 99 % is as far from 90 % as 50 % from 9 %: the scale on which two effects can add up."""
    share = min(max(metric.raw(shown), EDGE), 1 - EDGE)
    return math.log(share / (1 - share))


def unit_of(plan: Plan, comparison: Comparison) -> str:
    metric = plan.metric
    return "log-odds" if comparison.kind == "pair" and metric.logit else metric.unit


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


def raw(record: Record, metric: Metric, measure: str) -> float | None:
    """The number that was written down; None where there is none."""
    value = record.value(metric.name, measure)
    return None if record.failed or value is None or not math.isfinite(value) else value


def score(record: Record, metric: Metric, measure: str, worst: float = math.nan) -> float:
    """As it is shown; of a run that failed the worst, nan where nobody knows it."""
    value = raw(record, metric, measure)
    if value is None:
        return worst if record.failed else math.nan
    return metric.shown(value)


def worst_of(plan: Plan, results: Results, measure: str) -> float:
    """Shown: what a failed run counts as. What the metric declares, or chance; else the worst that any run reached."""
    metric = plan.metric
    known = chance_of(plan, results, measure)
    if known is None and metric.higher and math.isfinite(metric.low):
        known = metric.low
    if known is None:
        found = [raw(record, metric, measure) for record in results.records.values()]
        known = min((one for one in found if one is not None), key=lambda one: metric.sign * one, default=math.nan)
    return metric.shown(known)


def chance_of(plan: Plan, results: Results, measure: str) -> float | None:
    """Raw: of answering without looking, on the study's data; else of guessing among the model's classes."""
    metric, known = plan.metric, known_chance(results).get(measure)
    if metric.worst is not None or known is None:
        return metric.chance(classes_in(to_plain(plan.baseline.model)))
    by_loss = None if known.loss is None else {"loss": known.loss, "perplexity": math.exp(known.loss)}
    return known.share if metric.name == "accuracy" else (by_loss or {}).get(metric.name)


def known_chance(results: Results) -> dict[str, Chance]:
    if results.chance is None:
        results.chance = folder_chance(results.path.parent)
    return results.chance


def classes_in(settings: Any) -> int | None:
    if not isinstance(settings, dict):
        return None
    if isinstance(settings.get("classes"), int):
        return settings["classes"]
    return next((found for one in settings.values() if (found := classes_in(one))), None)


def failures(plan: Plan, results: Results, records: Iterable[Record]) -> dict[int, str]:
    """By seed, why there is no usable model: as its outcome says, or, where chance is not known, by the classes."""
    guessing = None if known_chance(results) else chance_of(plan, results, "validation")
    found = {}
    for record in records:
        value = raw(record, plan.metric, "validation" if record.validation else "test")
        if record.failed or record.outcome not in ("", "ok"):
            found[record.seed] = record.failed or WORDS.get(record.outcome, record.reason or record.outcome)
        elif plan.metric.logit and guessing and value is not None and value <= NEAR_CHANCE * guessing:
            found[record.seed] = WORDS["collapse"]
    return found


def on_test(study: Study, records: Iterable[Record]) -> np.ndarray:
    """What is known of the test set; a failed run counts as chance."""
    worst = study.worst.get("test", math.nan)
    found = np.array([score(one, study.plan.metric, "test", worst) for one in records])
    return found[~np.isnan(found)]


def summarise(plan: Plan, results: Results, of: Cell) -> Summary:
    """nan where no run is known, and for the spread where one is."""
    records = tuple(runs(plan, results, of).values())
    metric, measure = plan.metric, measure_of(plan, of)
    worst = worst_of(plan, results, measure)
    scores = np.array([score(one, metric, measure, worst) for one in records])
    known = scores[~np.isnan(scores)]
    low, high = interval(known) if len(known) else (math.nan, math.nan)
    failed = len(failures(plan, results, records))
    return Summary(
        cell=of,
        records=records,
        scores=scores,
        mean=float(known.mean()) if len(known) else math.nan,
        spread=float(known.std(ddof=1)) if len(known) > 1 else math.nan,
        low=float(low),
        high=float(high),
        failing=rate(failed, len(records)) if failed else None,
    )


def seeds_that_chose(plan: Plan, results: Results, names: Sequence[str]) -> tuple[int, ...]:
    """Seeds without whose fold another level of a subject would have been the best: they have chosen, not judged.

    Simulated (docs/lab.md): with the best of five equal levels, 16 % of interactions that are none would be found on
    the seeds that chose, 4 % so.
    """
    left_out: list[int] = []
    for fold in range(FOLDS):
        mine = plan.seeds[fold::FOLDS]
        others = [seed for seed in plan.seeds if seed not in mine]
        if any(best_level(plan, results, name, others) != name for name in names):
            left_out += mine
    return tuple(sorted(left_out))


def best_level(plan: Plan, results: Results, name: str, seeds: Sequence[int]) -> str:
    """Of the factor's subject, by the mean over these seeds."""
    subject, metric = plan.subject_of(plan.by_name[name]), plan.metric
    worst = worst_of(plan, results, plan.group(MAIN).measure)

    def mean(factor: Factor) -> float:
        made = cell(plan, (factor.name,))
        there = results.of(made.key)
        known = [score(there[seed], metric, measure_of(plan, made), worst) for seed in seeds if seed in there]
        return metric.sign * float(np.mean(known)) if known else -math.inf

    levels = [one for one in plan.ranked if one.combine and not one.on and plan.subject_of(one) == subject]
    return max(levels, key=mean).name if levels else name


def epochs_to(target: float | None, records: Iterable[Record], metric: Metric = ACCURACY) -> float | None:
    """Median over seeds of the first epoch whose validation reaches the target; None: never in most."""
    if target is None:
        return None
    first = [first_epoch(record, target, metric) for record in records]
    median = float(np.median(first)) if first else math.inf
    return median if math.isfinite(median) else None


def first_epoch(record: Record, target: float, metric: Metric) -> float:
    if record.failed:
        return math.inf
    reached = (
        float(epoch) for epoch, value in enumerate(record.curve(metric.name), 1) if not metric.better(target, value)
    )
    return next(reached, math.inf)


def gaps_of(plan: Plan, results: Results, group: str, goal: Cell | None) -> dict[int, float]:
    """By seed, from the group's baseline to the target, or to a cell: what would be good enough."""
    metric = plan.metric

    def shown(of: Cell) -> dict[int, float]:
        measure = measure_of(plan, of)
        worst = worst_of(plan, results, measure)
        return {seed: score(one, metric, measure, worst) for seed, one in runs(plan, results, of).items()}

    base = shown(cell(plan, (), group))
    aim = dict.fromkeys(base, metric.shown(plan.target or 0.0)) if goal is None else shown(goal)
    return {seed: metric.sign * (aim[seed] - base[seed]) for seed in base if seed in aim}
