"""A verdict in one word, and its evidence in one sentence.

explains              sure, up, and at least half of the gap from the baseline to the target
contributes           sure, up, but less of it
hurts                 sure, down
not distinguishable   the interval includes zero, with as many seeds as it takes
diverges              a third of the seeds with the factor failed, or more
not decided           too few seeds, or the interval and the corrected test do not say the same

Sure is what the exact test after Holm calls significant and whose 95 % interval excludes zero.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from glassformer.lab.cells import Kind
from glassformer.lab.plan import FEWEST
from glassformer.lab.sample_size import LEVEL, seeds_needed, smallest_p
from glassformer.lab.scores import Paired
from glassformer.lab.study import Effect, Verdict

HALF = 0.5  # of the gap: what "explains" it


@dataclass(frozen=True)
class Circumstances:
    """What a verdict depends on beside the effect."""

    kind: Kind
    family: int  # comparisons that are tested together
    gap: float | None = None  # points from the baseline to what would be good enough
    goal: str = "the target"


def diverges(pairs: Paired) -> bool:
    return pairs.tried >= FEWEST and 3 * len(pairs.failed) >= pairs.tried


def includes_zero(effect: Effect) -> bool:
    return effect.low <= 0 <= effect.high


def sure(effect: Effect) -> bool:
    return effect.p_holm <= LEVEL and not includes_zero(effect)


def verdict_of(effect: Effect | None, pairs: Paired, about: Circumstances) -> Verdict:
    if diverges(pairs):
        return "diverges"
    if effect is None:
        return "not decided"
    if sure(effect):
        return sure_verdict(effect, about)
    enough = len(effect.differences) >= seeds_needed(about.family)
    return "not distinguishable" if enough and includes_zero(effect) and effect.p_holm > LEVEL else "not decided"


def sure_verdict(effect: Effect, about: Circumstances) -> Verdict:
    if about.kind == "pair":
        return "more than the sum" if effect.mean > 0 else "less than the sum"
    if effect.mean < 0:
        return "hurts"
    return "explains" if about.gap and effect.mean >= HALF * about.gap else "contributes"


def evidence(effect: Effect | None, pairs: Paired, word: Verdict, about: Circumstances) -> str:
    parts = [numbers(effect, about)] if effect else []
    if word == "explains" and effect and about.gap:
        parts.append(f"{100 * effect.mean / about.gap:.0f} % of the {about.gap:.1f} points to {about.goal}")
    if word == "not decided":
        parts.append(why_not(effect, pairs, about))
    if pairs.failed:
        parts.append(f"{len(pairs.failed)} of {pairs.tried} seeds failed: {reasons(pairs.failed.values())}")
    if pairs.failed_without:
        side = "in the baseline" if about.kind == "pair" else "without it"
        parts.append(
            f"{side} {count(len(pairs.failed_without), 'seed')} failed: {reasons(pairs.failed_without.values())}"
        )
    return "; ".join(parts)


def numbers(effect: Effect, about: Circumstances) -> str:
    n = len(effect.differences)
    way = "up" if effect.mean >= 0 else "down"
    agree = sum(d > 0 if way == "up" else d < 0 for d in effect.differences)
    than = " against the sum of both" if about.kind == "pair" else ""
    holm = " after Holm" if about.family > 1 else ""
    return (
        f"{points(effect)} points{than} {brackets(effect)}, {agree} of {n} seeds {way}, {p_text(effect.p_holm)}{holm}"
    )


def why_not(effect: Effect | None, pairs: Paired, about: Circumstances) -> str:
    if effect is None:
        return f"{count(len(pairs.differences), 'seed')} on both sides, {FEWEST} are the least for an interval"
    n, needed = len(effect.differences), seeds_needed(about.family)
    if n < needed:
        least = smallest_p(n)
        holm = f", after Holm over {about.family} {min(1.0, least * about.family):.2g}" if about.family > 1 else ""
        return f"{n} seeds cannot decide: no p of theirs is below {least:.2g}{holm}; it takes {needed}"
    if includes_zero(effect):
        return (
            "the seeds agree on the direction, but so unevenly that the interval includes zero; more seeds would tell"
        )
    return f"by itself it would count, one of {about.family} tried it may be chance; more seeds would tell"


def points(effect: Effect) -> str:
    return f"{rounded(effect.mean, effect):+.{decimals(effect)}f}"


def brackets(effect: Effect) -> str:
    places = decimals(effect)
    return f"[{rounded(effect.low, effect):.{places}f}, {rounded(effect.high, effect):.{places}f}]"


def rounded(value: float, effect: Effect) -> float:
    """Never -0.0."""
    return round(value, decimals(effect)) + 0.0


def decimals(effect: Effect) -> int:
    """As many as the interval deserves."""
    return 1 if effect.high - effect.low >= 0.5 else 2


def p_text(p: float) -> str:
    """
    >>> p_text(0.0039), p_text(0.25), p_text(1e-5)
    ('p = 0.004', 'p = 0.25', 'p < 0.001')
    """
    if p < 0.001:
        return "p < 0.001"
    return f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def reasons(given: Iterable[str]) -> str:
    """The commonest first."""
    return ", ".join(reason for reason, _ in Counter(given).most_common(3))


def count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def percent(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{value:.1f} %"
