"""A verdict in one word, and its evidence in one sentence. Each word is what a test says, never a mean alone.

explains       sure, up, and the 95 % interval of its share of the gap (Fieller) lies above one half
contributes    sure, up; that it closes half of the gap is not shown
hurts          sure, down
no effect      surely smaller than the margin, up or down (two one-sided tests, after Holm)
diverges       more than a tenth of its seeds surely fail (exact interval): NaN, no memory, no better than chance
not decided    none of these: neither an effect nor its absence is shown

Sure is what the test after Holm calls significant and whose 95 % interval excludes zero.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from glassformer.lab.cells import Kind
from glassformer.lab.plan import FEWEST
from glassformer.lab.rates import rate
from glassformer.lab.sample_size import LEVEL, seeds_needed, smallest_p
from glassformer.lab.scores import Paired
from glassformer.lab.study import Effect, Estimate, Failures, Verdict

HALF = 0.5  # of the gap: what "explains" it
OFTEN = 0.1  # of the seeds: failing more often is diverging


@dataclass(frozen=True)
class Circumstances:
    """What a verdict depends on beside the effect."""

    kind: Kind
    family: int  # comparisons that are tested together
    share: Estimate | None = None  # of the gap from the baseline to what would be good enough
    goal: str = "the target"
    margin: float = 1.0
    unit: str = "points"
    failing: Failures | None = None


def diverges(pairs: Paired) -> bool:
    return pairs.tried >= FEWEST and rate(len(pairs.failed), pairs.tried).low > OFTEN


def includes_zero(effect: Effect) -> bool:
    return effect.low <= 0 <= effect.high


def sure(effect: Effect) -> bool:
    return effect.p_holm <= LEVEL and not includes_zero(effect)


def is_small(effect: Effect) -> bool:
    """Surely smaller than the margin."""
    return effect.p_same <= LEVEL


def verdict_of(effect: Effect | None, pairs: Paired, about: Circumstances) -> Verdict:
    if diverges(pairs):
        return "diverges"
    if effect is None:
        return "not decided"
    if sure(effect):
        return sure_verdict(effect, about)
    return "no effect" if is_small(effect) and about.kind != "pair" else "not decided"


def sure_verdict(effect: Effect, about: Circumstances) -> Verdict:
    if about.kind == "pair":
        return "more than the sum" if effect.mean > 0 else "less than the sum"
    if effect.mean < 0:
        return "hurts"
    return "explains" if about.share is not None and about.share.low > HALF else "contributes"


def evidence(effect: Effect | None, pairs: Paired, word: Verdict, about: Circumstances) -> str:
    parts = [numbers(effect, about)] if effect else []
    if word in ("explains", "contributes") and about.share:
        parts.append(f"{share_text(about.share)} of the gap to {about.goal}")
    if word == "no effect" and effect:
        parts.append(f"surely within ±{about.margin:g} {about.unit}, {p_text(effect.p_same)} for that")
    if word == "not decided":
        parts.append(why_not(effect, pairs, about))
    if effect and effect.typical and (pairs.failed or pairs.failed_without):
        parts.append(f"the middle half of the seeds {spelt(effect.typical)}")
    if pairs.left_out:
        parts.append(f"{count(len(pairs.left_out), 'seed')} had a part in choosing these levels and {left_out(pairs)}")
    return "; ".join([*parts, *failing_text(pairs, about)])


def left_out(pairs: Paired) -> str:
    return "is left out" if len(pairs.left_out) == 1 else "are left out"


def failing_text(pairs: Paired, about: Circumstances) -> list[str]:
    said = []
    if pairs.failed:
        said.append(f"{failed_of(len(pairs.failed), pairs.tried)}: {reasons(pairs.failed.values())}")
    if pairs.failed_without:
        side = "in the baseline" if about.kind == "pair" else "without it"
        said.append(
            f"{side} {count(len(pairs.failed_without), 'seed')} failed: {reasons(pairs.failed_without.values())}"
        )
    if about.failing and about.failing.p_holm <= LEVEL:
        more = "more" if about.failing.with_ > about.failing.without else "less"
        said.append(f"it fails {more} often, {p_text(about.failing.p_holm)} (McNemar, after Holm)")
    return said


def failed_of(failed: int, tried: int) -> str:
    """
    >>> failed_of(2, 12)
    '2 of 12 seeds failed [2, 48 %]'
    """
    _, low, high = rate(failed, tried)
    return f"{failed} of {tried} seeds failed [{100 * low:.0f}, {100 * high:.0f} %]"


def numbers(effect: Effect, about: Circumstances) -> str:
    n = len(effect.differences)
    way = "up" if effect.mean >= 0 else "down"
    agree = sum(d > 0 if way == "up" else d < 0 for d in effect.differences)
    than = " against the sum of both" if about.kind == "pair" else ""
    holm = " after Holm" if about.family > 1 else ""
    return (
        f"{points(effect)} {about.unit}{than} {brackets(effect)}, {agree} of {n} seeds {way}, "
        f"{p_text(effect.p_holm)}{holm}"
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
        if effect.p_holm <= LEVEL:
            return "the seeds agree on the direction, but so unevenly that the interval includes zero"
        return f"neither an effect is shown nor that it is smaller than {about.margin:g} {about.unit}"
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
    width = effect.high - effect.low
    return 1 if width >= 0.5 else 2 if width >= 0.02 or not width else 3 if width >= 0.002 else 4


def spelt(one: Estimate) -> str:
    """
    >>> spelt(Estimate(1.234, -0.04, 2.5))
    '+1.2 [-0.0, 2.5]'
    """
    return f"{one.value:+.1f} [{one.low:.1f}, {one.high:.1f}]"


def share_text(share: Estimate) -> str:
    """
    >>> share_text(Estimate(1.14, 1.07, 1.223))
    '114 % [107, 122]'
    """
    low, high = ("∞" if abs(end) > 100 else f"{100 * end:.0f}" for end in (share.low, share.high))
    return f"{100 * share.value:.0f} % [{'-' if share.low < -100 else ''}{low}, {high}]"


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
