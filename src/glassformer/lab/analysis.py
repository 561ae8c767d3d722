"""From records to findings: what each factor does, what is combined, what it all says.

Stage 1 is every factor added alone. When the ranked ones of the main question are there with all seeds, the first
choice is made, on validation: of every subject the level that helps most, if any surely helps. Stage 2 crosses the
strongest in pairs, and adds to the first choice what showed nothing alone: with a rate far too small, nothing else
does. What helps there makes the first choice the best cell; stage 3 takes each of its factors out again.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from glassformer.lab.arms import tuned
from glassformer.lab.cells import Cell, Comparison, additions, cell, on_top, pairs, removals
from glassformer.lab.conclusion import answer_of, conclusion
from glassformer.lab.looks import ONLY, Look, level_used
from glassformer.lab.plan import FEWEST, MAIN, Factor, Plan
from glassformer.lab.ranks import ranks
from glassformer.lab.rates import paired_p, rate
from glassformer.lab.record import Record, Results
from glassformer.lab.sample_size import LEVEL, seeds_needed, smallest_p
from glassformer.lab.scores import (
    Paired,
    epochs_to,
    failures,
    gaps_of,
    measure_of,
    paired,
    runs,
    summarise,
    unit_of,
    worst_of,
)
from glassformer.lab.shape import warnings
from glassformer.lab.share_of_gap import share_of_gap
from glassformer.lab.statistics import EXACT, effects, holm, power
from glassformer.lab.study import Effect, Estimate, Failures, Finding, Rank, Study, Summary
from glassformer.lab.verdict import Circumstances, count, diverges, evidence, is_small, reasons, sure, verdict_of

SIZE = 1.5  # standard deviations of the differences: an effect that nobody wants to miss
LIKELY = 0.8  # the power one wants for it


@dataclass(frozen=True)
class Examined:
    """One comparison, its differences, and their effect among its family."""

    comparison: Comparison
    pairs: Paired
    effect: Effect | None
    family: int
    failing: Failures | None = None

    @property
    def factor(self) -> str:
        return self.comparison.factors[0]

    @property
    def helps(self) -> bool:
        return self.effect is not None and not diverges(self.pairs) and sure(self.effect) and self.effect.mean > 0


def analyse(plan: Plan, results: Results, skipped: Sequence[str] = (), command: str = "", look: Look = ONLY) -> Study:
    """The study as it stands; of an unfinished one, what can be said by now. `look`: what may be used of the 5 %."""
    if look.decides and not look.last:
        plan = replace(plan, seeds=plan.seeds[: look.seeds])  # those that came later wait for the next look
    tested = examine(plan, results, comparisons(plan, results), look)
    base = summarise(plan, results, cell(plan, ()))
    best = best_cell(plan, results)
    cells = every_cell(plan, results, tested, best)
    gaps = {one.comparison.group: gap_of(plan, results, one.comparison.group, cells, best) for one in tested}
    found = [find(plan, results, one, look, *gaps[one.comparison.group]) for one in tested]
    failed = {(one.cell.key, seed): why for one in cells for seed, why in failures(plan, results, one.records).items()}
    study = Study(
        plan=plan,
        baseline=base,
        cells=cells,
        findings=tuple(found),
        ranks=ranked(plan, tested, look),
        best=best,
        answer="",
        notes=notes(plan, tested, skipped, best),
        seconds=sum(record.seconds for record in used(cells)),
        machines=dict(Counter(record.machine or "unknown" for record in used(cells))),
        command=command,
        warnings=warnings(plan, found, len(used(cells)), len(failed), look),
        group_ranks={group.name: ranked(plan, tested, look, group.name) for group in plan.groups},
        look=look,
        tuned=tuned(plan, results),
        failed=failed,
        worst={measure: worst_of(plan, results, measure) for measure in ("validation", "test")},
    )
    sentences = conclusion(study)
    return replace(study, sentences=sentences, answer=answer_of(sentences))


def comparisons(plan: Plan, results: Results) -> list[Comparison]:
    """All that can be asked for by now: additions, then pairs, then removals."""
    found = additions(plan)
    if not stage_1_is_complete(plan, results):
        return found
    crossed = [pair for pair in pairs(plan, strongest(plan, results)[: plan.pairs]) if both_count(plan, pair)]
    found += [*crossed, *later_additions(plan, results)]
    if not stage_2_is_complete(plan, results):
        return found
    best = cell(plan, best_factors(plan, results))
    return [*found, *(one for one in removals(plan, best) if one.without.key != best.key)]


def stage_1_is_complete(plan: Plan, results: Results) -> bool:
    return all_there(plan, results, [one for one in additions(plan) if is_ranked(plan, one)])


def stage_2_is_complete(plan: Plan, results: Results) -> bool:
    return stage_1_is_complete(plan, results) and all_there(plan, results, later_additions(plan, results))


def all_there(plan: Plan, results: Results, asked: Iterable[Comparison]) -> bool:
    return all(
        (side.key, seed) in results
        for one in asked
        for side in sides(one)
        for seed in results.expected(side.key, plan.seeds)  # an arm that stopped at a look has fewer
    )


def later_additions(plan: Plan, results: Results) -> list[Comparison]:
    first = first_choice(plan, results)
    return on_top(plan, cell(plan, first)) if first else []


def both_count(plan: Plan, pair: Comparison) -> bool:
    """Not where one of the two overwrites the other."""
    return pair.with_.key not in {cell(plan, (name,), pair.group).key for name in pair.factors}


def undecided(plan: Plan, results: Results) -> set[str]:
    """Keys of the cells that more seeds would tell more about."""
    tested = examine(plan, results, comparisons(plan, results))
    open_ = [one for one in tested if verdict_of(one.effect, one.pairs, circumstances(plan, one)) == "not decided"]
    return {side.key for one in open_ for side in sides(one.comparison)}


def strongest(plan: Plan, results: Results) -> list[str]:
    """Of each subject the level that helps most, among those that surely help over the baseline; strongest first."""
    chosen: dict[str, str] = {}
    for one in helping(plan, results):
        factor = plan.by_name[one.factor]
        if not factor.on:
            chosen.setdefault(plan.subject_of(factor), factor.name)
    return list(chosen.values())


def best_factors(plan: Plan, results: Results) -> tuple[str, ...]:
    """The first choice, and of each subject that it leaves free what surely helps most on top of it."""
    first = first_choice(plan, results)
    helps = [one for one in examine(plan, results, later_additions(plan, results)) if one.helps]
    chosen: dict[str, str] = {}
    for one in sorted(helps, key=lambda one: -mean_of(one)):
        chosen.setdefault(plan.subject_of(plan.by_name[one.factor]), one.factor)
    return tuple(factor.name for factor in plan.factors if factor.name in {*first, *chosen.values()})


def first_choice(plan: Plan, results: Results) -> tuple[str, ...]:
    """The strongest of all subjects together, and what helps on top of them where its subject is free."""
    chosen = {plan.subject_of(plan.by_name[name]): name for name in strongest(plan, results)}
    for one in helping(plan, results):
        factor = plan.by_name[one.factor]
        if factor.on and set(factor.on) <= set(chosen.values()):
            chosen.setdefault(plan.subject_of(factor), factor.name)
    return tuple(factor.name for factor in plan.factors if factor.name in chosen.values())


def helping(plan: Plan, results: Results) -> list[Examined]:
    """Of the main question, by validation, strongest first; what is not to be combined is left out.

    So is what surely helps by less than the margin: combined, it may do harm (twice the steps at a rate far too small).
    """
    asked = [one for one in additions(plan) if is_ranked(plan, one)]
    found = [one for one in examine(plan, results, asked) if one.helps and plan.by_name[one.factor].combine]
    helps = [one for one in found if one.effect and not is_small(one.effect)]
    return sorted(helps, key=lambda one: -mean_of(one))


def mean_of(one: Examined) -> float:
    return one.effect.mean if one.effect else -math.inf


def is_ranked(plan: Plan, comparison: Comparison) -> bool:
    return comparison.kind == "add" and factor_of(plan, comparison) in plan.ranked


def factor_of(plan: Plan, comparison: Comparison) -> Factor:
    return plan.by_name[comparison.factors[0]]


def sides(comparison: Comparison) -> tuple[Cell, Cell]:
    return comparison.without, comparison.with_


def examine(plan: Plan, results: Results, asked: Iterable[Comparison], look: Look = ONLY) -> list[Examined]:
    """Families for Holm: additions of one group (comparators apart), pairs, removals."""
    families: dict[tuple[str, str, bool], list[tuple[int, Comparison, Paired]]] = {}
    for place, one in enumerate(asked):
        comparator = one.kind == "add" and factor_of(plan, one).comparator
        family = families.setdefault((one.kind, one.group, comparator), [])
        family.append((place, one, paired(plan, results, one)))
    found: list[tuple[int, Examined]] = []
    for family in families.values():
        enough = [place for place, _, two in family if len(two.differences) >= FEWEST]
        values = [two.values for place, _, two in family if place in enough]
        by_place = dict(zip(enough, effects(values, plan.metric.margin, look), strict=True))
        size = max(len(enough), 1)
        failing = failures_in(two for _, _, two in family)
        for (place, one, two), own in zip(family, failing, strict=True):
            found.append((place, Examined(one, two, by_place.get(place), size, own)))
    return [one for _, one in sorted(found, key=lambda item: item[0])]


def failures_in(family: Iterable[Paired]) -> list[Failures | None]:
    """Of comparisons that are tested together; None where nothing failed."""
    pairs = list(family)
    p = np.array([paired_p(*two.only) for two in pairs])
    return [
        Failures(
            with_=len(two.failed),
            without=len(two.failed_without),
            of=two.tried,
            rate=rate(len(two.failed), two.tried),
            rate_without=rate(len(two.failed_without), two.both),
            p=float(own),
            p_holm=float(corrected),
        )
        if two.failed or two.failed_without
        else None
        for two, own, corrected in zip(pairs, p, holm(p), strict=True)
    ]


def circumstances(plan: Plan, one: Examined, share: Estimate | None = None, goal: str = "") -> Circumstances:
    unit = unit_of(plan, one.comparison)
    return Circumstances(one.comparison.kind, one.family, share, goal, plan.metric.margin, unit, failing=one.failing)


def find(plan: Plan, results: Results, one: Examined, look: Look, gaps: Mapping[int, float], goal: str) -> Finding:
    share = share_of(one, gaps, level_used(look))
    about = circumstances(plan, one, share, goal)
    word = verdict_of(one.effect, one.pairs, about)
    without, with_ = (
        epochs_to(plan.target, runs(plan, results, side).values(), plan.metric) for side in sides(one.comparison)
    )
    return Finding(
        comparison=one.comparison,
        effect=one.effect,
        word=word,
        evidence=evidence(one.effect, one.pairs, word, about),
        failures=len(one.pairs.failed),
        to_target=(without, with_),
        share=share,
        failing=one.failing,
        margin=about.margin,
        unit=about.unit,
        left_out=one.pairs.left_out,
    )


def share_of(one: Examined, gaps: Mapping[int, float], level: float) -> Estimate | None:
    """Of the gap, by the seeds that have both."""
    both = [seed for seed in one.pairs.differences if seed in gaps]
    if one.effect is None or one.comparison.kind == "pair" or len(both) < FEWEST:
        return None
    return share_of_gap(
        np.array([one.pairs.differences[seed] for seed in both]), np.array([gaps[seed] for seed in both]), level
    )


def gap_of(
    plan: Plan, results: Results, group: str, cells: Iterable[Summary], best: Summary | None
) -> tuple[Mapping[int, float], str]:
    """By seed, from the group's baseline to the target; without one, to the best cell. Nothing: there is no such."""
    metric = plan.metric
    if plan.target is not None:
        suffix = f" {metric.suffix}" if metric.suffix else ""
        return gaps_of(plan, results, group, None), f"the target of {metric.shown(plan.target):g}{suffix}"
    if group == MAIN:
        return (gaps_of(plan, results, group, best.cell) if best else {}), "the best combination"
    known = [one for one in cells if one.cell.group == group and not math.isnan(one.mean)]
    top = max(known, key=lambda one: metric.sign * one.mean, default=None)
    return (gaps_of(plan, results, group, top.cell) if top else {}), "the best of its group"


def best_cell(plan: Plan, results: Results) -> Summary | None:
    """None: nothing surely helps, or it has not been run yet."""
    if not stage_2_is_complete(plan, results):
        return None
    factors = best_factors(plan, results)
    summary = summarise(plan, results, cell(plan, factors)) if factors else None
    return summary if summary and summary.records else None


def every_cell(plan: Plan, results: Results, tested: Iterable[Examined], best: Summary | None) -> tuple[Summary, ...]:
    """Each recipe once in each measure, the baseline first."""
    asked = [cell(plan, ())]
    for one in tested:
        asked += sides(one.comparison)
    unique: dict[tuple[str, str], Cell] = {}
    for one in asked:
        unique.setdefault((one.key, measure_of(plan, one)), one)
    found = [summarise(plan, results, one) for one in unique.values() if results.of(one.key)]
    keys = {one.cell.key for one in found}
    return (*found, *([best] if best and best.cell.key not in keys else []))


def used(cells: Iterable[Summary]) -> list[Record]:
    return list({record.place: record for one in cells for record in one.records}.values())


def ranked(plan: Plan, tested: Iterable[Examined], look: Look, group: str = MAIN) -> tuple[Rank, ...]:
    """Of one group's factors, comparators left out; those that diverge have no rank."""
    return ranks(
        {
            one.factor: one.pairs.differences
            for one in tested
            if one.comparison.kind == "add"
            and one.comparison.group == group
            and not factor_of(plan, one.comparison).comparator
            and one.effect
            and not diverges(one.pairs)
        },
        level_used(look),
    )


def notes(plan: Plan, tested: Sequence[Examined], skipped: Sequence[str], best: Summary | None) -> tuple[str, ...]:
    found = few_seeds(plan, tested)
    for one in tested:
        if one.pairs.failed:
            title, failed = one.comparison.with_.title, one.pairs.failed
            said = f"{title}: {len(failed)} of {one.pairs.tried} runs failed: {reasons(failed.values())}"
            found += [said] if said not in found else []
    if plan.ranked and best is None:
        found.append("There is no best combination: " + why_no_best(tested, plan))
    found += how_fair(plan)
    found += [f"Skipped: {one}" for one in skipped]
    return tuple(found)


def how_fair(plan: Plan) -> list[str]:
    """What was settled for arms, and where nothing was."""
    groups: dict[str, list[str]] = {}
    for (names, group), arm in plan.arms.items():
        groups.setdefault(group, []).append(f"{' + '.join(names) or 'baseline'} ({arm.about})")
    found = [
        f"Settled for each arm{f' of the group {group}' if group else ''} before it was compared: {'; '.join(arms)}."
        for group, arms in groups.items()
    ]
    if any(factor.group not in groups for factor in plan.factors):
        where = " elsewhere" if groups else ""
        found.append(
            f"Each factor is tried{where} with all other settings as they are in its reference; none was tuned again "
            "for it."
        )
    return found


def few_seeds(plan: Plan, tested: Sequence[Examined]) -> list[str]:
    """Why fewer cannot decide, and what they may miss."""
    n, family = len(plan.seeds), max((one.family for one in tested if one.comparison.kind == "add"), default=1)
    needed = seeds_needed(family)
    if n < needed:
        return [
            f"{n} seeds cannot decide about {count(family, 'factor')}: the smallest p that {n} paired seeds can give "
            f"is 2 / 2^{n} = {smallest_p(n):.2g}, and Holm over {family} asks for {LEVEL / family:.2g}; "
            f"it takes {needed} seeds."
        ]
    found = power(n, family, SIZE)
    if found >= LIKELY:
        return []
    enough = next((more for more in range(n + 1, EXACT + 1) if power(more, family, SIZE) >= LIKELY), 2 * n)
    return [
        f"With {n} seeds, one real effect of {SIZE:g} standard deviations among {family} factors is found in "
        f"{100 * found:.0f} % of studies; {enough} seeds would find it in 80 % or more."
    ]


def why_no_best(tested: Sequence[Examined], plan: Plan) -> str:
    asked = [one for one in tested if is_ranked(plan, one.comparison)]
    if any(one.helps for one in asked):
        return "it has not been run yet, or what helps is not to be combined."
    return "no factor surely helps."
