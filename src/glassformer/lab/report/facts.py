"""What every format shows, taken from the study in one order: the strongest first, what was not decided last."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from glassformer.lab.looks import level_used
from glassformer.lab.plan import MAIN
from glassformer.lab.record import Record
from glassformer.lab.scores import on_test
from glassformer.lab.study import Effect, Finding, Rank, Study, Summary

TOP = 4  # causes that are looked at closely
TIE = "marks a tie: compared seed by seed, the corrected test does not tell it from some other factor."


class Seed(NamedTuple):
    """One dot."""

    seed: int | None  # None: the study does not say whose it is
    difference: float
    without: float | None = None  # as it is shown
    with_: float | None = None


@dataclass(frozen=True)
class Line:
    """One factor of the interval plot and of the tables."""

    name: str
    hypothesis: str
    finding: Finding
    rank: Rank | None
    tied: bool  # the corrected pairwise test does not tell it from some other
    seeds: tuple[Seed, ...]

    @property
    def effect(self) -> Effect | None:
        return self.finding.effect


class Section(NamedTuple):
    """Lines that stand apart from the ranked ones: they are compared with something else than the baseline."""

    title: str
    about: str
    lines: list[Line]
    measure: str  # what an effect is a difference of, and against what


class BothWays(NamedTuple):
    name: str
    add: Line
    remove: Line


class Shown(NamedTuple):
    """A cell with the part it plays."""

    label: str
    summary: Summary


class Machine(NamedTuple):
    name: str
    runs: int
    failed: int
    seconds: float
    engines: tuple[str, ...]


def answer(study: Study) -> list[str]:
    """By paragraphs."""
    return study.answer.split("\n\n") if study.answer else ["There is no answer yet: too little has run."]


def ranked(study: Study) -> list[Line]:
    """The causes of the main question, as they are ranked."""
    names = {factor.name for factor in study.plan.ranked}
    return in_order(line(study, found) for found in of_kind(study, "add") if found.comparison.factors[0] in names)


def comparators(study: Study) -> list[Line]:
    """Other models altogether."""
    names = {factor.name for factor in study.plan.factors if factor.comparator and factor.group == MAIN}
    return in_order(line(study, found) for found in of_kind(study, "add") if found.comparison.factors[0] in names)


def apart(study: Study) -> list[Section]:
    """What helps on top of the first choice, then the groups that have a baseline of their own."""
    return [*on_top(study), *groups(study)]


def on_top(study: Study) -> list[Section]:
    found = of_kind(study, "top")
    if not found:
        return []
    first = found[0].comparison.without
    about = (
        f"Each factor is added to {first.title}, the first choice: what shows only where the strongest are in place. "
        "The choice was made with the same seeds, which favours it a little; what helps here helps in spite of that."
    )
    measure = f"{difference_of(study, MAIN)}, against the first choice"
    return [Section(f"On top of {first.title}", about, in_order(line(study, one) for one in found), measure)]


def groups(study: Study) -> list[Section]:
    shown = []
    for group in study.plan.groups:
        found = [one for one in of_kind(study, "add") if one.comparison.group == group.name]
        measure = f"{difference_of(study, group.name)}, against the group's baseline"
        lines = in_order(line(study, one) for one in found)
        shown += [Section(f"Group {group.name}", group.about, lines, measure)] if lines else []
    return shown


def both_ways(study: Study) -> list[BothWays]:
    """What a factor is worth alone, and where all the others are."""
    added = {found.comparison.factors: found for found in of_kind(study, "add")}
    return [
        BothWays(found.comparison.factors[0], line(study, added[found.comparison.factors]), line(study, found))
        for found in of_kind(study, "remove")
        if found.comparison.factors in added
    ]


def pairs(study: Study) -> list[Finding]:
    return of_kind(study, "pair")


def of_kind(study: Study, kind: str) -> list[Finding]:
    return [found for found in study.findings if found.comparison.kind == kind]


def line(study: Study, found: Finding) -> Line:
    name = found.comparison.factors[0]
    rank = next((rank for rank in study.ranks if rank.factor == name), None) if found.comparison.kind == "add" else None
    return Line(
        name=name,
        hypothesis=hypothesis(study, found),
        finding=found,
        rank=rank,
        tied=rank is not None and bool(rank.tied),
        seeds=seeds(study, found),
    )


def hypothesis(study: Study, found: Finding) -> str:
    """And what the factor was added to, if not to the baseline."""
    factor = study.plan.by_name[found.comparison.factors[0]]
    added = f"added to {' + '.join(factor.on)}" if factor.on else ""
    return "; ".join(filter(None, [factor.hypothesis, added]))


def in_order(lines: Iterable[Line]) -> list[Line]:
    def place(one: Line) -> tuple[float, float]:
        return (one.rank.point if one.rank else math.inf, -one.effect.mean if one.effect else math.inf)

    return sorted(lines, key=place)


def seeds(study: Study, found: Finding) -> tuple[Seed, ...]:
    """Each difference with its seed and both sides, where the cells of the study lead to the same differences."""
    if found.effect is None:
        return ()
    differences = found.effect.differences
    without, with_ = (
        scores(study, side.group, side.key) for side in (found.comparison.without, found.comparison.with_)
    )
    both = [seed for seed in without if seed in with_]
    sign = study.plan.metric.sign
    told = [Seed(seed, sign * (with_[seed] - without[seed]), without[seed], with_[seed]) for seed in both]
    same = len(told) == len(differences) and all(
        math.isclose(one.difference, difference, abs_tol=1e-6)
        for one, difference in zip(told, differences, strict=True)
    )
    return tuple(told) if same else tuple(Seed(None, difference) for difference in differences)


def scores(study: Study, group: str, key: str) -> dict[int, float]:
    """As it is shown, by seed."""
    summary = summary_of(study, group, key)
    return scores_of(summary) if summary else {}


def scores_of(summary: Summary) -> dict[int, float]:
    seeds = [record.seed for record in summary.records]
    known = dict(zip(seeds, summary.scores.tolist(), strict=True)) if len(seeds) == len(summary.scores) else {}
    return {seed: value for seed, value in known.items() if not math.isnan(value)}


def summary_of(study: Study, group: str, key: str) -> Summary | None:
    same = [summary for summary in study.cells if key_of(summary) == key]
    return next((summary for summary in same if summary.cell.group == group), same[0] if same else None)


def key_of(summary: Summary) -> str:
    """As its records have it: to work it out from the recipe takes a while."""
    return summary.records[0].key if summary.records else summary.cell.key


def top(study: Study, most: int = TOP) -> list[Line]:
    """The strongest causes, of each subject one."""
    chosen: dict[str, Line] = {}
    for one in ranked(study):
        if one.finding.word in ("explains", "contributes"):
            chosen.setdefault(study.plan.subject_of(study.plan.by_name[one.name]), one)
    return list(chosen.values())[:most]


def closely(study: Study) -> list[Shown]:
    """The cells that are looked at closely: the baseline, the strongest causes, the best."""
    shown = [Shown("baseline", study.baseline)]
    for one in top(study):
        summary = summary_of(study, MAIN, one.finding.comparison.with_.key)
        if summary is not None:
            shown.append(Shown(summary.cell.title, summary))
    if study.best is not None and key_of(study.best) not in {key_of(one.summary) for one in shown}:
        shown.append(Shown("best combination", study.best))
    return shown


def title_of(study: Study, summary: Summary) -> str:
    """Of a cell; a group's own baseline is told from the study's."""
    return f"{summary.cell.title} ({summary.cell.group})" if summary.cell.group != MAIN else summary.cell.title


def inside(study: Study) -> tuple[list[Shown], list[tuple[str, list[list[float]]]]]:
    """What the lens saw: the cells, and of each thing it measured the values of all seeds, cell by cell."""
    cells = [one for one in closely(study) if any(record.inside for record in one.summary.records)]
    names: dict[str, None] = {}
    for one in cells:
        for record in one.summary.records:
            names.update(dict.fromkeys(record.inside))
    values = [
        (name, [[r.inside[name] for r in well(one.summary) if name in r.inside] for one in cells]) for name in names
    ]
    return cells, [(name, columns) for name, columns in values if any(columns)]


def well(summary: Summary) -> list[Record]:
    return [record for record in summary.records if not record.failed]


def mean_of(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return statistics.fmean(known) if known else None


def epochs(summary: Summary) -> float | None:
    return mean_of(len(record.loss) or len(record.validation) or None for record in well(summary))


def test_of(study: Study, summary: Summary) -> float | None:
    """As it is shown, the mean over seeds; failed runs count as chance."""
    known = on_test(study, summary.records)
    return float(known.mean()) if len(known) else None


def records(study: Study) -> list[tuple[Summary, Record]]:
    """Every run once, with its cell: the same recipe may stand in two groups, under two measures."""
    found: dict[tuple[str, int], tuple[Summary, Record]] = {}
    for summary in study.cells:
        for record in summary.records:
            found.setdefault(record.place, (summary, record))
    return list(found.values())


def machines(study: Study) -> list[Machine]:
    found = []
    for name, runs in study.machines.items():
        own = [record for _, record in records(study) if (record.machine or "unknown") == name]
        engines = tuple(dict.fromkeys(record.engine for record in own if record.engine))
        failed = sum(record.place in study.failed for record in own)
        found.append(Machine(name, runs, failed, sum(record.seconds for record in own), engines))
    return found


def measure_of(study: Study, group: str) -> str:
    return f"{study.plan.group(group).measure} {study.plan.metric.name}"


def coverage(study: Study) -> str:
    """Of the intervals of differences: "95 %", more where looks in between are paid for."""
    return f"{100 * (1 - level_used(study.look)):.3g} %"


def difference_of(study: Study, group: str) -> str:
    """What an effect is a difference of, up being better: "percentage points of validation accuracy"."""
    metric = study.plan.metric
    unit = "percentage points" if metric.suffix == "%" else metric.unit
    return f"{unit} of {measure_of(study, group)}" + ("" if metric.higher else ", less is better")


def level_of(study: Study) -> str:
    """What a cell's score is: "accuracy, %"."""
    metric = study.plan.metric
    return f"{metric.name}, {metric.suffix}" if metric.suffix else metric.name


def target_of(study: Study) -> str:
    metric = study.plan.metric
    return f"{metric.shown(study.plan.target or 0.0):g}" + (f" {metric.suffix}" if metric.suffix else "")
