"""What stands beside the question: other models, and the plan's groups, whose order may survive or not.

An order is what the corrected pairwise test says (ranks.py). Where it leaves a pair open, the answer says so.
"""

from collections.abc import Sequence
from itertools import pairwise

from glassformer.lab import claims
from glassformer.lab.phrases import (
    FEW,
    HELPS,
    added,
    best_of_subjects,
    effect_of,
    listed,
    margin_text,
    name_of,
    named,
    strongest_of_subjects,
    subject_of,
    verb,
    with_verdict,
)
from glassformer.lab.plan import MAIN
from glassformer.lab.study import Finding, Rank, Sentence, Study


def beside(study: Study) -> list[Sentence]:
    found = [one for one in added(study, comparator=True) if one.effect]
    said = []
    if found:
        said.append(Sentence(f"For comparison: {named(found)}.", 2, claims.of_findings(found, "compared")))
    for group in study.plan.groups:
        said += of_group(study, group.name)
    return said


def of_group(study: Study, group: str) -> list[Sentence]:
    """What its own factors say, and whether its order of causes survives beside the main question's factors."""
    found = added(study, group)
    if not any(one.effect for one in found):
        return []
    about = study.plan.group(group).about
    opening = f"In the group {group}" + (f" ({about.rstrip('.')})" if about else "")
    helps = with_verdict(found, *HELPS)
    if not helps:
        used = (claims.Claim("none helps", tuple(map(name_of, found)), {}, "add", group),)
        return [Sentence(f"{opening} no factor surely helps.", 2, used)]
    best = best_of_subjects(study, helps)
    names = listed((effect_of(one) for one in best), FEW)
    orders = in_order(best, study.group_ranks.get(group, ()), group)
    sure = len(best) > 1 and all(one.kind == "stronger" for one in orders)
    text = f"{opening} {'the order of causes is' if sure else 'what helps is'} {names}"
    rest = {"no effect": f"surely worth less than {margin_text(study)}: ", "not decided": "not decided: "}
    for word in ("hurts", *rest):
        own = [name_of(one) for one in found if one.word == word]
        if own:
            text += f"; {rest[word]}{listed(own)}" if word in rest else f"; {listed(own)} {verb(own, 'hurts', 'hurt')}"
    others = [one for one in found if one.word in ("hurts", *rest)]
    used = (*claims.of_findings(best), *claims.of_findings(others), *(orders if sure else ()))
    return [Sentence(f"{text}.", 2, used), *survival(study, group)]


def in_order(found: Sequence[Finding], ranks: Sequence[Rank], group: str) -> tuple[claims.Claim, ...]:
    """Of every one and the next."""
    names = [name_of(one) for one in found]
    return tuple(claims.of_order(a, b, ranks, group) for a, b in pairwise(names))


def survival(study: Study, group: str) -> list[Sentence]:
    if study.plan.group(group).tune:
        return untuned(study, group)
    theirs, ours = order(study, group), order(study, MAIN)
    if not ours:
        return []
    told = tell(study, theirs, ours)
    seen = {subject_of(one, study) for one in added(study, group)}
    missed = [subject for subject in ours if subject in seen and subject not in theirs]
    if missed:
        best = [ours[subject] for subject in missed]
        text = (
            f"It found no sure gain from {listed(missed)}; among all values tried there is one: "
            f"{listed((effect_of(one, study) for one in best), FEW)}."
        )
        unseen = [one for one in added(study, group) if subject_of(one, study) in missed]
        told.append(Sentence(text, 2, (*claims.of_findings(best), *claims.of_findings(unseen))))
    return told


def untuned(study: Study, group: str) -> list[Sentence]:
    """A group whose arms are tuned: what becomes of the main question's factors when each has its own best settings.

    The same change of the recipe, but for what is tuned, is the same factor. Each word is its own test's.
    """
    found = [(one, twin) for one in added(study, group) if (twin := untuned_twin(study, one, group)) is not None]
    words = {
        (True, True): ("still surely helps", "still surely help"),
        (True, False): ("no longer surely helps", "no longer surely help"),
        (False, True): ("surely helps, which untuned is not shown", "surely help, which untuned is not shown"),
        (False, False): ("does not surely help either way", "do not surely help either way"),
    }
    parts, used = [], []
    for (before, after), said in words.items():
        own = [(one, twin) for one, twin in found if (twin.word in HELPS, one.word in HELPS) == (before, after)]
        if own:
            names = listed(name_of(twin) for _, twin in own)
            parts.append(f"{names} {verb(own, *said)}")
            used += claims.of_findings((twin for _, twin in own), "" if before else "not sure")
            used += claims.of_findings((one for one, _ in own), "" if after else "not sure")
    if not parts:
        return []
    return [Sentence(f"Each at its own best {settings_tuned(study, group)}: {'; '.join(parts)}.", 2, tuple(used))]


def settings_tuned(study: Study, group: str) -> str:
    return listed(study.plan.group(group).tune or {})


def untuned_twin(study: Study, finding: Finding, group: str) -> Finding | None:
    """Of the main question."""
    tuned = set(study.plan.group(group).tune or {})

    def rest(name: str) -> dict[str, object]:
        return {key: value for key, value in study.plan.by_name[name].changes.items() if key not in tuned}

    mine = rest(name_of(finding))
    same = [
        one for one in added(study) if mine and rest(name_of(one)) == mine and not study.plan.by_name[name_of(one)].on
    ]
    return same[0] if same else None


def tell(study: Study, theirs: dict[str, Finding], ours: dict[str, Finding]) -> list[Sentence]:
    """Compares the group's first cause with what comes first among all; nothing where that is not told by a test."""
    first, leader = next(iter(theirs)), next(iter(ours))
    name = name_of(ours[leader])
    allowed = f"With all factors of the study allowed, {name} comes first"
    rank = next((one for one in study.ranks if one.factor == name), None)
    own = {one.name for one in study.plan.ranked if study.plan.subject_of(one) == leader}
    if rank is None or rank.point > 1:  # what has a larger mean is not sure
        return []
    open_ = [other for other in rank.tied if other not in own]
    if open_:
        text = f"With all factors of the study allowed, {name} has the largest mean and cannot be told apart from "
        used = tuple(claims.of_order(name, other, study.ranks) for other in open_)
        return [Sentence(f"{text}{listed(open_)}: the first place is open.", 2, used)]
    used = tuple(claims.of_order(name, other.factor, study.ranks) for other in study.ranks if other.factor not in own)
    if first not in ours:
        known = [one for one in added(study) if subject_of(one, study) == first]
        text = f"{allowed}, and {first} {'does not surely help' if known else 'was not tried again'}."
        return [Sentence(text, 2, (*used, claims.Claim("none helps", tuple(map(name_of, known)), {})))]
    if leader != first:
        return [Sentence(f"{allowed}, before {name_of(ours[first])}: the order does not survive.", 2, used)]
    shared = [ours[subject] for subject in theirs if subject in ours]
    orders = in_order(shared, study.ranks, MAIN)
    kept = all(one.kind == "stronger" for one in orders) and shared == [one for one in ours.values() if one in shared]
    text = f"{allowed} as well{': the order survives' if kept else ''}."
    return [Sentence(text, 2, (*used, *(orders if kept else ())))]


def order(study: Study, group: str) -> dict[str, Finding]:
    """Subjects that help, by their best level, strongest first."""
    helps = strongest_of_subjects(study, with_verdict(added(study, group), *HELPS))
    return {subject_of(one, study): one for one in helps}
