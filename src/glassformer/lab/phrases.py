"""Names, numbers and lists as sentences of the answer have them."""

import math
from collections.abc import Iterable, Sequence

from glassformer.lab.metric import Metric
from glassformer.lab.plan import MAIN
from glassformer.lab.study import Effect, Finding, Rank, Study, Verdict
from glassformer.lab.verdict import brackets, failed_of, points, share_text

HELPS = ("explains", "contributes")
MANY = 6  # names in a list
FEW = 4  # where each has its numbers


def added(study: Study, group: str = MAIN, comparator: bool = False) -> list[Finding]:
    """Strongest first."""
    found = [
        one
        for one in study.findings
        if one.comparison.kind == "add"
        and one.comparison.group == group
        and study.plan.by_name[name_of(one)].comparator == comparator
    ]
    return strongest_first(found)


def strongest_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda one: -one.effect.mean if one.effect else math.inf)


def name_of(finding: Finding) -> str:
    return finding.comparison.factors[0]


def with_verdict(findings: Iterable[Finding], *words: Verdict) -> list[Finding]:
    return [one for one in findings if one.word in words]


def subject_of(finding: Finding, study: Study) -> str:
    return study.plan.subject_of(study.plan.by_name[name_of(finding)])


def named(findings: Sequence[Finding]) -> str:
    return listed(map(effect_of, findings), FEW)


def failing_of(finding: Finding) -> str:
    tried = finding.failing.of if finding.failing else 0
    return f"{name_of(finding)} ({failed_of(finding.failures, tried)})" if tried else name_of(finding)


def margin_text(study: Study) -> str:
    """
    "1 point", "0.01 nats".
    """
    metric = study.plan.metric
    unit = metric.unit.removesuffix("s") if metric.margin == 1 else metric.unit
    return f"{metric.margin:g} {unit}"


def strongest_of_subjects(study: Study, findings: Iterable[Finding]) -> list[Finding]:
    """Of findings that are in order."""
    unique: dict[str, Finding] = {}
    for one in findings:
        unique.setdefault(subject_of(one, study), one)
    return list(unique.values())


def best_of_subjects(study: Study, findings: Iterable[Finding]) -> list[Finding]:
    """One that explains stands for its subject, even where one that contributes has the larger mean."""
    explaining_first = sorted(findings, key=lambda one: one.word != "explains")
    return strongest_first(strongest_of_subjects(study, explaining_first))


def effect_of(finding: Finding, study: Study | None = None) -> str:
    """Its name, points and interval; with the study also its share of the gap and its rank interval."""
    inside = [size(finding)] if finding.effect else []
    if study and finding.share and finding.word in HELPS:
        inside.append(f"{share_text(finding.share)} of the gap")
    rank = next((one for one in study.ranks if one.factor == name_of(finding)), None) if study else None
    if rank and study:
        inside.append(rank_text(rank, len(study.ranks)))
    return f"{name_of(finding)} ({', '.join(inside)})" if inside else name_of(finding)


def rank_text(rank: Rank, of: int) -> str:
    places = f"{rank.best}" if rank.best == rank.worst else f"{rank.best}-{rank.worst}"
    return f"rank {places} of {of}"


def size(finding: Finding) -> str:
    effect = finding.effect
    return size_of(effect, finding.unit) if effect else ""


def size_of(effect: Effect, unit: str) -> str:
    return f"{points(effect)} {unit} {brackets(effect)}"


def listed(items: Iterable[str], most: int = MANY) -> str:
    """
    >>> listed(["a", "b", "c"]), listed("abcde", 3)
    ('a, b and c', 'a, b, c and 2 more')
    """
    names = list(items)
    names = [*names[:most], f"{len(names) - most} more"] if len(names) > most else names
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def verb(things: Sequence[object], one: str, several: str) -> str:
    return one if len(things) == 1 else several


def places(metric: Metric) -> int:
    """Of a gap: one less than of a level, and one at least."""
    return max(1, metric.places - 1)
