"""What answers the question of a plan, in plain English, from what was found.

The first sentence names subjects alone. Then comes the answer with its numbers, six sentences at most, what matters
most first: what explains, what contributes, what helps only on top of that, what all of it reaches on the test set (the
only place where a group that is judged by validation looks at it), what can be left out again, what was suspected and
is none. What has no room there stands in the tables. The last paragraph, where there is one, is about what stands
beside the question: other models, the plan's groups.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from glassformer.lab.plan import MAIN
from glassformer.lab.ranks import tied
from glassformer.lab.scores import score
from glassformer.lab.statistics import interval
from glassformer.lab.study import Effect, Finding, Rank, Study, Summary, Verdict
from glassformer.lab.verdict import brackets, count, percent, points

HELPS = ("explains", "contributes")
SENTENCES = 6
MANY = 6  # names in a list
FEW = 4  # where each has its numbers


def conclusion(study: Study) -> str:
    main = [*causes(study), *on_top(study), *together(study), *both_ways(study), *no_causes(study), *crossed(study)]
    beside = compared(study)
    for group in study.plan.groups:
        beside += of_group(study, group.name)
    paragraphs = (in_short(study), " ".join(main[:SENTENCES]), " ".join(part for part in beside if part))
    return "\n\n".join(part for part in paragraphs if part)


def in_short(study: Study) -> str:
    """By subject alone, without a number; nothing where no factor surely helps."""
    found = added(study)
    best = best_of_subjects(study, with_verdict(found, *HELPS))
    explain, contribute = ([subject_of(one, study) for one in with_verdict(best, word)] for word in HELPS)
    tried = dict.fromkeys(subject_of(one, study) for one in found)
    idle = [
        subject
        for subject in tried
        if all(one.word == "not distinguishable" for one in found if subject_of(one, study) == subject)
    ]
    if not explain and not contribute:
        return ""
    told = {"explains it": explain, "contributes": contribute, "does not": idle}
    return f"In short, what {'; what '.join(f'{word}: {listed(names)}' for word, names in told.items() if names)}."


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


def causes(study: Study) -> list[str]:
    """By subject: its strongest level stands for it, the others that help are named with it."""
    found = added(study)
    helps = with_verdict(found, *HELPS)
    best = best_of_subjects(study, helps)
    explains, contributes = with_verdict(best, "explains"), with_verdict(best, "contributes")
    parts = []
    if explains:
        closes = verb(explains, "it closes", "each closes")
        names = listed((level_of(one, study, helps) for one in explains), FEW)
        parts.append(f"What explains it: {names}; {closes} at least half of the {gap(study)} by itself.")
    elif is_good_enough(study):
        parts.append(f"The target is reached already: the {baseline(study)}.")
    elif any(one.effect for one in found):
        parts.append("No single factor explains it." if contributes else "No factor surely helps.")
    if contributes:
        parts.append(f"What contributes: {listed((level_of(one, study, helps) for one in contributes), FEW)}.")
    return parts


def is_good_enough(study: Study) -> bool:
    return study.plan.target is not None and study.baseline.mean >= 100 * study.plan.target


def gap(study: Study) -> str:
    """From the baseline to what would be good enough."""
    if study.plan.target is not None:
        return f"{100 * study.plan.target - study.baseline.mean:.1f} points to the target"
    return "gap" if study.best is None else f"{study.best.mean - study.baseline.mean:.1f} points to the best"


def baseline(study: Study) -> str:
    base = study.baseline
    return f"baseline has {percent(base.mean)} on validation ({count(len(base.scores), 'seed')})"


def level_of(finding: Finding, study: Study, helps: Iterable[Finding]) -> str:
    subject = subject_of(finding, study)
    others = [name_of(one) for one in helps if one is not finding and subject_of(one, study) == subject]
    return effect_of(finding, study) + (f", less so {listed(others)}" if others else "")


def subject_of(finding: Finding, study: Study) -> str:
    return study.plan.subject_of(study.plan.by_name[name_of(finding)])


def on_top(study: Study) -> list[str]:
    """What shows only where the strongest are in place."""
    found = [one for one in study.findings if one.comparison.kind == "top"]
    helps = with_verdict(strongest_first(found), *HELPS)
    best = best_of_subjects(study, helps)
    if not best:
        return []
    said = f"On top of {best[0].comparison.without.title}, {listed((effect_of(one) for one in best), FEW)} "
    if all(one.word == "explains" for one in best):
        said += f"{verb(best, 'closes', 'each close')} at least half of the gap"
    else:
        said += verb(best, "contributes", "contribute")
    alone = [one for one in added(study) if name_of(one) in map(name_of, best)]
    shows = "help" if with_verdict(alone, "hurts", "diverges") else "show"
    return [f"{said}, though alone {verb(best, 'it does', 'they do')} not {shows}."]


def no_causes(study: Study) -> list[str]:
    later = {name_of(one) for one in study.findings if one.comparison.kind == "top" and one.word in HELPS}
    found = [one for one in added(study) if name_of(one) not in later]
    same, worse, apart = (with_verdict(found, word) for word in ("not distinguishable", "hurts", "diverges"))
    open_ = with_verdict(found, "not decided")
    parts = []
    if same:
        parts.append(f"Suspected, but not distinguishable from no effect: {listed(map(effect_of, same), FEW)}")
    if open_:
        parts.append(f"{'n' if parts else 'N'}ot decided: {listed(map(name_of, open_))}")
    bad = []
    if worse:
        bad.append(f"What hurts: {listed(map(effect_of, reversed(worse)), FEW)}")
    if apart:
        bad.append(f"{'t' if bad else 'T'}raining diverges with {listed(map(name_of, apart))}")
    return [f"{'; '.join(said)}." for said in (parts, bad) if said]


def together(study: Study) -> list[str]:
    """What the best reaches; before there is one, where it all begins."""
    best = study.best
    if best is None:
        known = len(study.baseline.scores) and not is_good_enough(study)
        below = f", {gap(study).replace('to', 'below')}" if study.plan.target is not None else ""
        return [f"The {baseline(study)}{below}."] if known else []
    names = best.cell.factors
    said = f"With {names[0]} it reaches " if len(names) == 1 else f"Together ({' + '.join(names)}) they reach "
    mine, base = (on_test(summary) for summary in (best, study.baseline))
    if not len(mine):
        return [f"{said}{percent(best.mean)} on validation."]
    said += f"{reached(mine)} on the test set"
    said += f", the baseline {percent(float(base.mean()))}" if len(base) else ""
    return [f"{said}{against(mine, study.plan.target)}."]


def compared(study: Study) -> list[str]:
    found = [one for one in added(study, comparator=True) if one.effect]
    return [f"For comparison: {listed(map(effect_of, found), FEW)}."] if found else []


def on_test(summary: Summary) -> np.ndarray:
    return np.array([value for record in summary.records if (value := score(record, "test")) is not None])


def reached(values: np.ndarray) -> str:
    low, high = interval(values)
    return f"{percent(float(values.mean()))}" + (f" [{low:.1f}, {high:.1f}]" if len(values) > 1 else "")


def against(values: np.ndarray, target: float | None) -> str:
    if target is None or len(values) < 2:
        return ""
    low, high = interval(values)
    goal = f"the target of {100 * target:g} %"
    if low > 100 * target:
        return f": above {goal}"
    if high < 100 * target:
        return f": {100 * target - values.mean():.1f} points short of {goal}"
    return f": about {goal}, which lies in the interval"


def both_ways(study: Study) -> list[str]:
    """What helps alone, or on top of the first choice, and not where all the others are."""
    removed = [one for one in study.findings if one.comparison.kind == "remove" and one.effect]
    bad, gone = with_verdict(removed, "hurts"), with_verdict(removed, "not distinguishable")
    parts = []
    if bad:
        parts.append(f"{listed(map(effect_of, bad), FEW)} {verb(bad, 'does', 'do')} harm")
    if gone:
        parts.append(
            f"{listed(map(effect_of, gone), FEW)} can {verb(gone, '', 'each ')}be left out without a sure loss"
        )
    return [f"Within that combination {', and '.join(parts)}."] if parts else []


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
            parts.append(f"{'w' if parts else 'W'}orth {word.replace('the sum', 'their sum')} together: ")
            parts[-1] += listed(said, FEW)
    return [f"{'; '.join(parts)}."] if parts else []


def of_group(study: Study, group: str) -> list[str]:
    """What its own factors say, and whether its order of causes survives beside the main question's factors."""
    found = added(study, group)
    if not any(one.effect for one in found):
        return []
    about = study.plan.group(group).about
    opening = f"In the group {group}" + (f" ({about.rstrip('.')})" if about else "")
    helps = with_verdict(found, *HELPS)
    if not helps:
        return [f"{opening} no factor surely helps."]
    first = listed((effect_of(one) for one in best_of_subjects(study, helps)), FEW)
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
        told.append(f"It saw no gain from {listed(missed)}; among all values tried there is one: {listed(best, FEW)}.")
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
    helps = best_of_subjects(study, with_verdict(added(study, group), *HELPS))
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
