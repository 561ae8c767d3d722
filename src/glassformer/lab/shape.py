"""Does this study look like one for which its own numbers were simulated to fail? Then it says so.

skewed     the skewness of the differences, without its sign, is above 0.8 in the mean over the factors of a family.
           From about there on (a true skewness of 1.3) Student's interval alone covers less than 93 %; the lab's own
           covers 93.6 % or more up to a skewness of 2. Its false alarms stay below 5.5 % as long as most factors are
           skewed the same way, as near a ceiling; skewed both ways they do not (13 to 28 %)
failing    a run gave no usable model. A mean over seeds of which some collapse depends on how many happen to be seen:
           with one in ten, 12 seeds see none in 28 % of cells, and the interval covers 65 to 72 %

A family, not a factor, is judged: twelve seeds tell hardly anything of a shape, and a mean that is wrong by chance
comes from just those seeds that do not show the tail. False alarms are many only if many factors are like that, and
then it is seen.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from glassformer.lab.looks import Look
from glassformer.lab.plan import Plan
from glassformer.lab.rates import rate
from glassformer.lab.study import Effect, Finding

SKEWED = 0.8  # |skewness|, the mean over a family
NAMES = {
    "add": "the factors",
    "top": "what is added to the first choice",
    "remove": "what is taken away",
    "pair": "the pairs",
}


def warnings(plan: Plan, findings: Sequence[Finding], runs: int, failed: int, look: Look) -> tuple[str, ...]:
    return (*of_looks(look), *of_skewness(findings), *of_failures(plan, runs, failed))


def is_skewed(family: Sequence[Effect]) -> bool:
    return mean_skewness(family) > SKEWED


def mean_skewness(family: Sequence[Effect]) -> float:
    """Without its sign."""
    return float(np.mean([abs(one.skewness) for one in family])) if family else 0.0


def of_skewness(findings: Sequence[Finding]) -> list[str]:
    said = []
    for (kind, group), family in families(findings).items():
        if is_skewed(family):
            where = NAMES[kind] + (f" of {group}" if group else "")
            said.append(
                f"The differences of {where} are skewed ({mean_skewness(family):.1f} in the mean; from {SKEWED:g} on "
                "Student's interval alone is too narrow). Intervals and p allow for it; if factors are skewed both "
                "ways, more than 5 % of studies have a false alarm: look at the interquartile mean and at the "
                "probability of improvement as well."
            )
    return said


def families(findings: Iterable[Finding]) -> dict[tuple[str, str], list[Effect]]:
    found: dict[tuple[str, str], list[Effect]] = {}
    for one in findings:
        if one.effect:
            found.setdefault((one.comparison.kind, one.comparison.group), []).append(one.effect)
    return found


def of_failures(plan: Plan, runs: int, failed: int) -> list[str]:
    """Over all runs: a cell that shows none may still have some."""
    if not failed:
        return []
    seeds = len(plan.seeds)
    _, low, high = rate(failed, runs)
    return [
        f"{failed} of {runs:,} runs gave no usable model [{100 * low:.1f}, {100 * high:.1f} %]. They count as they "
        "ended, or as chance. Where seeds fail, the interval of a mean does not hold: it depends on how many happen to "
        f"be among {seeds}. A cell that shows none may still fail in up to {100 * rate(0, seeds).high:.0f} % of seeds."
    ]


def of_looks(look: Look) -> list[str]:
    if look.last and look.planned and look.number == 1:
        return []
    if not look.decides:
        return [f"Nothing is decided yet: the first look is not reached with {look.seeds} seeds."]
    kind = f"look {look.number}, at {look.seeds} seeds"
    if look.planned:
        return [
            f"This is {kind}: p is held to {look.level:.3g} of the 5 %, and intervals are as wide as that asks for."
        ]
    return [
        f"It went on after a report that no look was planned for: this is {kind}, held to {look.level:.3g}; all "
        f"reports of this study together have a false alarm in at most {100 * look.spent:.3g} % of studies."
    ]
