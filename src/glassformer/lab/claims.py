"""The rules that sentences of the answer follow from. A sentence is written when its rule holds, and carries it.

`Claim.numbers` holds what decides, so that anybody can check the rule again; tests/lab/recompute.py does.
"""

import math
from collections.abc import Iterable

from glassformer.lab.rates import rate
from glassformer.lab.study import Claim, Effect, Finding, Rank, Summary
from glassformer.lab.verdict import p_text

RULES = {
    "explains": "p after Holm ≤ 0.05, the interval above 0, and the interval of its share of the gap above 50 %",
    "contributes": "p after Holm ≤ 0.05 and the interval above 0; half of the gap is not shown",
    "hurts": "p after Holm ≤ 0.05 and the interval below 0",
    "no effect": "two one-sided tests against the margin: p after Holm ≤ 0.05",
    "small": "two one-sided tests against the margin: p after Holm ≤ 0.05",
    "not decided": "neither an effect (p after Holm ≤ 0.05, interval without 0) nor its absence (two one-sided tests)",
    "diverges": "the exact interval of its failure rate lies above 10 %",
    "more than the sum": "p after Holm ≤ 0.05 and the interval above 0, on seeds that did not choose the levels",
    "less than the sum": "p after Holm ≤ 0.05 and the interval below 0, on seeds that did not choose the levels",
    "not sure": "not: p after Holm ≤ 0.05 and the interval above 0",
    "none explains": "no factor has p after Holm ≤ 0.05 and an interval of its share of the gap above 50 %",
    "none helps": "no factor has p after Holm ≤ 0.05 and an interval above 0",
    "compared": "the mean of the differences with its interval",
    "stronger": "compared seed by seed: Student's p, after Holm over every two factors, at most the level",
    "tied": "compared seed by seed: Student's p, after Holm over every two factors, above the level",
    "failing": "runs counted; the interval is Clopper and Pearson's, exact",
    "counted": "runs that are there, of those that the plan asks for by now",
    "level": "the mean over seeds with its interval",
    "above the target": "the interval of the mean lies above the target",
    "below the target": "the interval of the mean lies below the target",
    "about the target": "the interval of the mean includes the target",
}


def of_finding(finding: Finding, kind: str = "") -> Claim:
    """That its verdict is so; `kind` where something else is claimed of it."""
    compared = finding.comparison
    numbers = of_effect(finding.effect)
    if finding.share:
        numbers |= {"share_low": finding.share.low, "share_high": finding.share.high}
    numbers["margin"] = finding.margin
    if finding.failures:
        numbers["failed"] = float(finding.failures)
    return Claim(kind or finding.word, compared.factors, finite(numbers), compared.kind, compared.group)


def of_effect(effect: Effect | None) -> dict[str, float | None]:
    if effect is None:
        return {}
    return {
        "mean": effect.mean,
        "low": effect.low,
        "high": effect.high,
        "p_holm": effect.p_holm,
        "p_same": effect.p_same,
    }


def of_findings(findings: Iterable[Finding], kind: str = "") -> tuple[Claim, ...]:
    return tuple(of_finding(one, kind) for one in findings)


def of_order(one: str, other: str, ranks: Iterable[Rank], group: str = "") -> Claim:
    """Whether the test tells these two apart."""
    open_ = next((other in rank.tied for rank in ranks if rank.factor == one), True)
    return Claim("tied" if open_ else "stronger", (one, other), {}, "rank", group)


def of_cell(summary: Summary, kind: str, mean: float, low: float, high: float, **more: float) -> Claim:
    return Claim(kind, summary.cell.factors, finite({"mean": mean, "low": low, "high": high, **more}), "cell")


def of_failing(summary: Summary, failed: int) -> Claim:
    value, low, high = rate(failed, len(summary.records))
    numbers: dict[str, float | None] = {"failed": float(failed), "of": float(len(summary.records))}
    numbers |= {"rate": value, "low": low, "high": high}
    return Claim("failing", summary.cell.factors, numbers, "cell", summary.cell.group)


def finite(numbers: dict[str, float | None] | dict[str, float]) -> dict[str, float | None]:
    return {name: value if value is not None and math.isfinite(value) else None for name, value in numbers.items()}


def said(claim: Claim) -> str:
    """One line for the reader who asks what a sentence rests on."""
    numbers, parts = claim.numbers, []
    low, high, p, same = (numbers.get(name) for name in ("low", "high", "p_holm", "p_same"))
    if p is not None:
        parts.append(f"{p_text(p)} after Holm")
    if low is not None and high is not None:
        parts.append(f"interval [{low:.4g}, {high:.4g}]")
    if claim.kind in ("no effect", "small", "not decided") and same is not None:
        parts.append(f"within ±{numbers.get('margin') or 0:g}: {p_text(same)}")
    share = numbers.get("share_low")
    if claim.kind in ("explains", "contributes") and share is not None:
        parts.append(f"share of the gap from {100 * share:.0f} %")
    if claim.kind == "failing":
        parts.append(f"{numbers['failed']:.0f} of {numbers['of']:.0f} runs")
    about = " and ".join(claim.factors) or "baseline"
    return f"{about}: {claim.kind} ({RULES[claim.kind]})" + (f": {', '.join(parts)}" if parts else "")
