"""One paragraph that answers the question of a plan, in plain English, from what was found.

First what explains, then what contributes, what does not, what the best combination reaches on the test set (the only
place where a group that is judged by validation looks at it), where adding and removing disagree, and what the plan's
own groups say.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from glassformer.lab.plan import MAIN
from glassformer.lab.ranks import tied
from glassformer.lab.scores import score
from glassformer.lab.statistics import interval
from glassformer.lab.study import Effect, Finding, Rank, Study, Summary, Word
from glassformer.lab.words import brackets, count, percent, points

HELPS = ("explains", "contributes")
MANY = 6  # names in a sentence


def answer(study: Study) -> str:
    parts = [
        opening(study),
        *causes(study),
        *on_top(study),
        *no_causes(study),
        *together(study),
        *both_ways(study),
        *crossed(study),
    ]
    for group in study.plan.groups:
        parts += of_group(study, group.name)
    return " ".join(part for part in parts if part)


def added(study: Study, group: str = MAIN, comparator: bool = False) -> list[Finding]:
    """Strongest first."""
    found = [
        one
        for one in study.findings
        if one.comparison.kind == "add"
        and one.comparison.group == group
        and study.plan.by_name[name_of(one)].comparator == comparator
    ]
    return sorted(found, key=lambda one: -one.effect.mean if one.effect else math.inf)


def name_of(finding: Finding) -> str:
    return finding.comparison.factors[0]


def with_word(findings: Iterable[Finding], *words: Word) -> list[Finding]:
    return [one for one in findings if one.word in words]


def opening(study: Study) -> str:
    base, target = study.baseline, study.plan.target
    if not len(base.scores):
        return ""
    reached = f"The baseline reaches {percent(base.mean)} on validation ({count(len(base.scores), 'seed')})"
    if target is None:
        return f"{reached}."
    gap = 100 * target - base.mean
    return f"{reached}, {gap:.1f} points below the target." if gap > 0 else f"{reached}: the target is reached already."


def causes(study: Study) -> list[str]:
    """By subject: its strongest level stands for it, the others that help are named with it."""
    found = added(study)
    helps = with_word(found, *HELPS)
    best = best_of_subjects(study, helps)
    explains, contributes = with_word(best, "explains"), with_word(best, "contributes")
    parts = []
    if explains:
        closes = "it closes" if len(explains) == 1 else "each closes"
        parts.append(f"What explains it: {listed(level_of(one, study, helps) for one in explains)}; {closes} at least ")
        parts[-1] += "half of the gap by itself."
    elif found:
        parts.append("No single factor explains it." if contributes else "No factor surely helps.")
    if contributes:
        parts.append(f"What contributes: {listed(level_of(one, study, helps) for one in contributes)}.")
    return parts


def level_of(finding: Finding, study: Study, helps: Iterable[Finding]) -> str:
    subject = subject_of(finding, study)
    others = [name_of(one) for one in helps if one is not finding and subject_of(one, study) == subject]
    return effect_of(finding, study) + (f", less so {listed(others)}" if others else "")


def subject_of(finding: Finding, study: Study) -> str:
    return study.plan.subject_of(study.plan.by_name[name_of(finding)])


def on_top(study: Study) -> list[str]:
    """What shows only where the strongest are in place."""
    found = [one for one in study.findings if one.comparison.kind == "top"]
    helps = with_word(sorted(found, key=lambda one: -one.effect.mean if one.effect else math.inf), *HELPS)
    best = best_of_subjects(study, helps)
    if not best:
        return []
    alone = {name_of(one): one for one in added(study)}
    hidden = [one for one in best if alone[name_of(one)].word not in HELPS]
    said = f"On top of {best[0].comparison.without.title}, {listed(effect_of(one) for one in best)} "
    said += verb(best, "contributes", "contribute")
    return [f"{said}, though alone {verb(hidden, 'it does', 'they do')} not show." if hidden == best else f"{said}."]


def no_causes(study: Study) -> list[str]:
    later = {name_of(one) for one in study.findings if one.comparison.kind == "top" and one.word in HELPS}
    found = [one for one in added(study) if name_of(one) not in later]
    same, worse, apart = (with_word(found, word) for word in ("not distinguishable", "hurts", "diverges"))
    open_ = with_word(found, "not decided")
    parts = []
    if same:
        parts.append(
            f"Suspected, but not distinguishable from no effect: {listed(effect_of(one, study) for one in same)}."
        )
    if worse:
        parts.append(f"What hurts: {listed(effect_of(one, study) for one in worse)}.")
    if apart:
        parts.append(f"Training diverges with {listed(name_of(one) for one in apart)}.")
    if open_:
        parts.append(f"Not decided: {listed(name_of(one) for one in open_)}.")
    for one in added(study, comparator=True):
        if one.effect:
            parts.append(f"For comparison, {name_of(one)}: {size(one.effect)}.")
    return parts


def together(study: Study) -> list[str]:
    best = study.best
    if best is None:
        return []
    name = " + ".join(best.cell.factors)
    mine, base = (on_test(summary) for summary in (best, study.baseline))
    if not len(mine):
        return [f"Together ({name}) they reach {percent(best.mean)} on validation."]
    said = f"Together ({name}) they reach {reached(mine)} on the test set"
    said += f", the baseline {percent(float(base.mean()))}" if len(base) else ""
    return [f"{said}{against(mine, study.plan.target)}."]


def on_test(summary: Summary) -> np.ndarray:
    return np.array([value for record in summary.records if (value := score(record, "test")) is not None])


def reached(values: np.ndarray) -> str:
    low, high = interval(values)
    return f"{percent(float(values.mean()))}" + (f" [{low:.1f}, {high:.1f}]" if len(values) > 1 else "")


def against(values: np.ndarray, target: float | None) -> str:
    if target is None:
        return ""
    low, high = interval(values)
    goal = f"the target of {100 * target:g} %"
    if low > 100 * target:
        return f": above {goal}"
    if high < 100 * target:
        return f": {100 * target - values.mean():.1f} points short of {goal}"
    return f": about {goal}, which lies in the interval"


def both_ways(study: Study) -> list[str]:
    """What adding to the baseline and removing from the best disagree about."""
    alone = {name_of(one): one for one in added(study)}
    removed = [one for one in study.findings if one.comparison.kind == "remove" and one.effect]
    idle, other = [], []
    for one in removed:
        first, second = alone[name_of(one)].effect, one.effect
        if one.word not in HELPS:
            idle.append(one)
        elif first and second and not overlap(first, second):
            other.append(
                f"{name_of(one)} {points(first)} added alone, {points(second)} {brackets(second)} among the others"
            )
    parts = []
    gone, bad = with_word(idle, "not distinguishable", "not decided"), with_word(idle, "hurts")
    if gone:
        parts.append(
            f"Where the others are, {listed(effect_of(one) for one in gone)} can be left out without a sure loss."
        )
    if bad:
        parts.append(f"Where the others are, {listed(effect_of(one) for one in bad)} {verb(bad, 'does', 'do')} harm.")
    if other:
        parts.append(f"What a factor is worth depends on the others: {'; '.join(other[:MANY])}.")
    return parts


def overlap(one: Effect, other: Effect) -> bool:
    return one.low <= other.high and other.low <= one.high


def crossed(study: Study) -> list[str]:
    found = [one for one in study.findings if one.comparison.kind == "pair"]
    parts = []
    for word in ("less than the sum", "more than the sum"):
        said = [
            f"{' and '.join(one.comparison.factors)} ({size(one.effect)})"
            for one in found
            if one.effect and one.word == word
        ]
        if said:
            parts.append(f"Worth {word.replace('the sum', 'their sum')} together: {listed(said)}.")
    return parts


def of_group(study: Study, group: str) -> list[str]:
    """What its own factors say, and whether its order of causes survives beside the main question's factors."""
    found = added(study, group)
    if not any(one.effect for one in found):
        return []
    about = study.plan.group(group).about
    opening = f"In the group {group}" + (f" ({about.rstrip('.')})" if about else "")
    helps = with_word(found, *HELPS)
    if not helps:
        return [f"{opening} no factor surely helps."]
    first = listed(effect_of(one) for one in best_of_subjects(study, helps))
    rest = [name_of(one) for one in found if one.word in ("not distinguishable", "hurts", "diverges")]
    without = f"; {listed(rest)} {'does' if len(rest) == 1 else 'do'} not help" if rest else ""
    return [f"{opening} the order of causes is {first}{without}.", survival(study, group)]


def survival(study: Study, group: str) -> str:
    theirs = order(study, group)
    ours = order(study, MAIN)
    if not ours:
        return ""
    names = {rank.factor: rank for rank in study.ranks}
    told = [tell(study, names, theirs, ours)]
    seen = {subject_of(one, study) for one in added(study, group)}
    missed = [subject for subject in ours if subject in seen and subject not in theirs]
    if missed:
        best = [effect_of(ours[subject], study) for subject in missed]
        told.append(f"It saw no gain from {listed(missed)}; among all values tried there is one: {listed(best)}.")
    return " ".join(told)


def tell(study: Study, ranks: dict[str, Rank], theirs: dict[str, Finding], ours: dict[str, Finding]) -> str:
    """Compares the group's first cause with what comes first among all."""
    first, leader = next(iter(theirs)), next(iter(ours))
    allowed = f"With all factors of the study allowed, {name_of(ours[leader])} comes first"
    if first not in ours:
        return f"{allowed}, and {first} {'does not surely help' if tried(study, first) else 'was not tried again'}."
    as_before = " as well" if leader == first else ""
    open_ = [subject for subject in ours if subject != leader and is_tied(ranks, ours[leader], ours[subject])]
    if open_:
        rivals = listed(name_of(ours[subject]) for subject in open_)
        return f"{allowed}{as_before}, but cannot be told apart from {rivals}: the first place is open."
    if leader != first:
        return f"{allowed}, before {name_of(ours[first])}: the order does not survive."
    same = [subject for subject in ours if subject in theirs] == [subject for subject in theirs if subject in ours]
    return f"{allowed}{as_before}: the order {'survives' if same else 'changes behind it'}."


def is_tied(ranks: dict[str, Rank], one: Finding, other: Finding) -> bool:
    a, b = ranks.get(name_of(one)), ranks.get(name_of(other))
    return a is not None and b is not None and tied(a, b)


def tried(study: Study, subject: str) -> bool:
    return any(subject_of(one, study) == subject for one in added(study))


def order(study: Study, group: str) -> dict[str, Finding]:
    """Subjects that help, by their best level, strongest first."""
    helps = best_of_subjects(study, with_word(added(study, group), *HELPS))
    return {subject_of(one, study): one for one in helps}


def best_of_subjects(study: Study, findings: Iterable[Finding]) -> list[Finding]:
    unique: dict[str, Finding] = {}
    for one in findings:
        unique.setdefault(subject_of(one, study), one)
    return list(unique.values())


def effect_of(finding: Finding, study: Study | None = None) -> str:
    """Its name, points and interval; with the study also its rank interval."""
    inside = [size(finding.effect)] if finding.effect else []
    rank = next((one for one in study.ranks if one.factor == name_of(finding)), None) if study else None
    if rank and study:
        inside.append(rank_text(rank, len(study.ranks)))
    return f"{name_of(finding)} ({', '.join(inside)})" if inside else name_of(finding)


def rank_text(rank: Rank, of: int) -> str:
    places = f"{rank.best}" if rank.best == rank.worst else f"{rank.best}-{rank.worst}"
    return f"rank {places} of {of}"


def size(effect: Effect) -> str:
    return f"{points(effect)} points {brackets(effect)}"


def listed(items: Iterable[str]) -> str:
    """
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    names = list(items)
    names = [*names[: MANY - 1], f"{len(names) - MANY + 1} more"] if len(names) > MANY else names
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def verb(things: Sequence[object], one: str, several: str) -> str:
    return one if len(things) == 1 else several
