"""What answers the question of a plan, in plain English. Every sentence follows from a test and carries it (claims.py).

The first sentence names subjects alone. Then comes the answer with its numbers, eight sentences at most, what matters
most first: what explains, what contributes, what helps only on top of that, what all of it reaches on the test set (the
only place where a group that is judged by validation looks at it), which cells fail, what can be left out again, what
was suspected and is none. What has no room there stands in the tables. The last paragraph, where there is one, is about
what stands beside the question: other models, the plan's groups (beside.py).
"""

from collections.abc import Iterable, Sequence

import numpy as np

from glassformer.lab import claims
from glassformer.lab.beside import beside
from glassformer.lab.looks import level_used
from glassformer.lab.phrases import (
    FEW,
    HELPS,
    added,
    best_of_subjects,
    effect_of,
    failing_of,
    listed,
    margin_text,
    name_of,
    named,
    places,
    size,
    strongest_first,
    subject_of,
    verb,
    with_verdict,
)
from glassformer.lab.scores import on_test
from glassformer.lab.statistics import interval
from glassformer.lab.study import Claim, Finding, Sentence, Study, Summary
from glassformer.lab.verdict import count, failed_of, is_small

SENTENCES = 8


def conclusion(study: Study) -> tuple[Sentence, ...]:
    parts = [causes, on_top, together, failing, both_ways, no_causes, crossed]
    main = [sentence for part in parts for sentence in part(study)]
    return (*in_short(study), *main[:SENTENCES], *beside(study))


def answer_of(sentences: Iterable[Sentence]) -> str:
    """By paragraphs."""
    paragraphs: dict[int, list[str]] = {}
    for one in sentences:
        paragraphs.setdefault(one.paragraph, []).append(one.text)
    return "\n\n".join(" ".join(texts) for _, texts in sorted(paragraphs.items()))


def in_short(study: Study) -> list[Sentence]:
    """By subject alone, without a number; nothing where no factor surely helps."""
    found = added(study)
    best = best_of_subjects(study, with_verdict(found, *HELPS))
    if not best:
        return []
    by_subject: dict[str, list[Finding]] = {}
    for one in found:
        by_subject.setdefault(subject_of(one, study), []).append(one)
    told = {word: [subject_of(one, study) for one in with_verdict(best, word)] for word in HELPS}
    later = [
        one for one in helping_on_top(study) if subject_of(one, study) not in told["explains"] + told["contributes"]
    ]
    told["on top"] = [subject_of(one, study) for one in later]
    used = [*best, *later]
    for word in ("no effect", "not decided"):  # of a subject: all of its levels
        own = [name for name, levels in by_subject.items() if all(one.word == word for one in levels)]
        told[word] = [name for name in own if name not in told["on top"]]
        used += [one for name in told[word] for one in by_subject[name]]
    words = {
        "explains": "what explains it",
        "contributes": "what contributes",
        "on top": "what contributes on top of that",
        "no effect": f"what changes less than {margin_text(study)}",
        "not decided": "not decided",
    }
    text = "; ".join(f"{words[word]}: {listed(names)}" for word, names in told.items() if names)
    return [Sentence(f"In short, {text}.", 0, claims.of_findings(used))]


def causes(study: Study) -> list[Sentence]:
    """By subject: its strongest level stands for it, others of it with the same verdict are named with it."""
    found = added(study)
    best = best_of_subjects(study, with_verdict(found, *HELPS))
    explains, contributes = with_verdict(best, "explains"), with_verdict(best, "contributes")
    parts = []
    if explains:
        closes = verb(explains, "it closes", "each closes")
        names = listed((level_of(one, study) for one in explains), FEW)
        text = f"What explains it: {names}; {closes} at least half of the {gap(study)} by itself."
        parts.append(Sentence(text, 1, claims.of_findings(with_levels(explains, study))))
    elif is_good_enough(study):
        parts.append(target_reached(study))
    elif contributes and study.plan.target is not None:
        parts.append(Sentence("No single factor is shown to close half of the gap.", 1, none("none explains", found)))
    elif any(one.effect for one in found) and not contributes:
        parts.append(Sentence("No factor surely helps.", 1, none("none helps", found)))
    if contributes:
        text = f"What contributes: {listed((level_of(one, study) for one in contributes), FEW)}."
        parts.append(Sentence(text, 1, claims.of_findings(with_levels(contributes, study))))
    return parts


def none(kind: str, found: Sequence[Finding]) -> tuple[Claim, ...]:
    return (Claim(kind, tuple(name_of(one) for one in found), {}),)


def is_good_enough(study: Study) -> bool:
    """The baseline already, by its interval."""
    known = study.baseline.scores[~np.isnan(study.baseline.scores)]
    return against(known, study)[1] == better_side(study)


def target_of(study: Study) -> float | None:
    """As it is shown."""
    return None if study.plan.target is None else study.plan.metric.shown(study.plan.target)


def target_reached(study: Study) -> Sentence:
    base = study.baseline
    claim = level(study, base, base.scores, better_side(study), target=target_of(study) or 0.0)
    return Sentence(f"The target is reached already: the {baseline(study)}.", 1, (claim,))


def better_side(study: Study) -> str:
    return "above the target" if study.plan.metric.higher else "below the target"


def gap(study: Study) -> str:
    """From the baseline to what would be good enough."""
    metric, target = study.plan.metric, target_of(study)
    if target is not None:
        return f"{metric.sign * (target - study.baseline.mean):.{places(metric)}f} {metric.unit} to the target"
    if study.best is None:
        return "gap"
    return f"{metric.sign * (study.best.mean - study.baseline.mean):.{places(metric)}f} {metric.unit} to the best"


def baseline(study: Study) -> str:
    base, metric = study.baseline, study.plan.metric
    there = int((~np.isnan(base.scores)).sum())
    return f"baseline has {metric.level(base.mean)} on validation ({count(there, 'seed')})"


def level_of(finding: Finding, study: Study) -> str:
    others = [name_of(one) for one in with_levels([finding], study) if one is not finding]
    return effect_of(finding, study) + (f", also {listed(others)}" if others else "")


def with_levels(findings: Iterable[Finding], study: Study) -> list[Finding]:
    """And the other levels of their subjects that have the same verdict."""
    found = []
    for one in findings:
        same = [other for other in added(study) if subject_of(other, study) == subject_of(one, study)]
        found += [one, *(other for other in same if other.word == one.word and other is not one)]
    return found


def on_top(study: Study) -> list[Sentence]:
    """What shows only where the strongest are in place."""
    best = helping_on_top(study)
    if not best:
        return []
    said = f"On top of {best[0].comparison.without.title}, {listed((effect_of(one) for one in best), FEW)} "
    if all(one.word == "explains" for one in best):
        said += f"{verb(best, 'closes', 'each close')} at least half of the gap"
    else:
        said += verb(best, "contributes", "contribute")
    alone = [one for one in added(study) if name_of(one) in map(name_of, best)]
    words = list(dict.fromkeys(one.word for one in alone))
    before = f"; alone: {', '.join(words)}" if words else ""
    return [Sentence(f"{said}{before}.", 1, (*claims.of_findings(best), *claims.of_findings(alone)))]


def helping_on_top(study: Study) -> list[Finding]:
    found = [one for one in study.findings if one.comparison.kind == "top"]
    return best_of_subjects(study, with_verdict(strongest_first(found), *HELPS))


def no_causes(study: Study) -> list[Sentence]:
    later = {name_of(one) for one in study.findings if one.comparison.kind == "top" and one.word in HELPS}
    found = [one for one in added(study) if name_of(one) not in later]
    same, worse, apart, open_ = (
        with_verdict(found, word) for word in ("no effect", "hurts", "diverges", "not decided")
    )
    parts, bad = [], []
    if same:
        parts.append(f"Suspected, and surely worth less than {margin_text(study)}: {named(same)}")
    if open_:
        parts.append(f"{'n' if parts else 'N'}ot decided: {listed(map(name_of, open_))}")
    if worse:
        bad.append(f"What hurts: {named(list(reversed(worse)))}")
    if apart:
        bad.append(f"{'t' if bad else 'T'}raining fails with {listed(map(failing_of, apart), FEW)}")
    both = ((parts, [*same, *open_]), (bad, [*worse, *apart]))
    return [Sentence(f"{'; '.join(said)}.", 1, claims.of_findings(used)) for said, used in both if said]


def together(study: Study) -> list[Sentence]:
    """What the best reaches; before there is one, where it all begins."""
    best, metric = study.best, study.plan.metric
    if best is None:
        base = study.baseline
        if not len(base.scores) or is_good_enough(study):
            return []
        return [from_where(study)]
    names = best.cell.factors
    said = f"With {names[0]} it reaches " if len(names) == 1 else f"Together ({' + '.join(names)}) they reach "
    mine, base = (on_test(study, summary.records) for summary in (best, study.baseline))
    if not len(mine):
        return [Sentence(f"{said}{metric.level(best.mean)} on validation.", 1, (level(study, best, best.scores),))]
    said += f"{reached(mine, study)} on the test set"
    said += f", the baseline {metric.level(float(base.mean()))}" if len(base) else ""
    against_target, kind = against(mine, study)
    more = {"target": target_of(study) or 0.0} if kind != "level" else {}
    claim = level(study, best, mine, kind, test=1.0, **more)
    also = (level(study, study.baseline, base, test=1.0),) if len(base) else ()
    return [Sentence(f"{said}{against_target}.", 1, (claim, *also))]


def from_where(study: Study) -> Sentence:
    """Where it all begins; against the target as far as the interval says."""
    base = study.baseline
    known = base.scores[~np.isnan(base.scores)]
    text, kind = against(known, study)
    worse = {"above": "below", "below": "above"}[better_side(study).split()[0]]
    if kind == f"{worse} the target":
        text = f", {gap(study).replace('to', worse)}"
    more = {"target": target_of(study) or 0.0} if kind != "level" else {}
    return Sentence(f"The {baseline(study)}{text}.", 1, (level(study, base, known, kind, **more),))


def level(study: Study, summary: Summary, scores: np.ndarray, kind: str = "level", **more: float) -> Claim:
    known = scores[~np.isnan(scores)]
    low, high = interval(known, level_used(study.look))
    return claims.of_cell(summary, kind, float(known.mean()), float(low), float(high), **more)


def reached(values: np.ndarray, study: Study) -> str:
    metric = study.plan.metric
    low, high = interval(values, level_used(study.look))
    return metric.level(float(values.mean())) + (
        f" [{low:.{metric.places}f}, {high:.{metric.places}f}]" if len(values) > 1 else ""
    )


def against(values: np.ndarray, study: Study) -> tuple[str, str]:
    """In words, and the rule of it."""
    target, metric = target_of(study), study.plan.metric
    if target is None or len(values) < 2:
        return "", "level"
    low, high = interval(values, level_used(study.look))
    goal = f"the target of {target:g}{f' {metric.suffix}' if metric.suffix else ''}"
    if low > target or high < target:
        side = "above" if low > target else "below"
        if (low > target) == metric.higher:
            return f": {side} {goal}", f"{side} the target"
        return f": {abs(target - values.mean()):.{places(metric)}f} {metric.unit} short of {goal}", f"{side} the target"
    return f": about {goal}, which lies in the interval", "about the target"


def failing(study: Study) -> list[Sentence]:
    """Cells in which runs gave no usable model, the most often first; those told as diverging are left to that."""
    told = {one.comparison.with_.key for one in study.findings if one.word == "diverges"}
    found = [(one, round(one.failing.value * len(one.records))) for one in study.cells if one.failing]
    found = [(one, failed) for one, failed in found if one.records[0].key not in told or not one.cell.factors]
    if not found:
        return []
    found.sort(key=lambda both: -both[1] / len(both[0].records))
    names = [f"{one.cell.title} ({failed_of(failed, len(one.records))})" for one, failed in found]
    used = tuple(claims.of_failing(one, failed) for one, failed in found)
    text = f"Runs that gave no usable model: {listed(names, FEW)}; {counting(study, [one for one, _ in found])}."
    return [Sentence(text, 1, used)]


def counting(study: Study, cells: Sequence[Summary]) -> str:
    """How runs without a usable model count: with what they ended with; where that is no number, as the worst."""
    failed = [(one, record) for one in cells for record in one.records if record.place in study.failed]
    without = [one for one, record in failed if record.failed]
    ended = "" if len(without) == len(failed) else "they count as they ended"
    if not without:
        return ended
    measures = dict.fromkeys(study.plan.group(one.cell.group).measure for one in without)
    worst = " or ".join(study.plan.metric.level(study.worst[measure]) for measure in measures)
    return f"{ended}, without a number as {worst}" if ended else f"they count as {worst}"


def both_ways(study: Study) -> list[Sentence]:
    """What helps alone, or on top of the first choice, and not where all the others are."""
    removed = [one for one in study.findings if one.comparison.kind == "remove" and one.effect]
    bad = with_verdict(removed, "hurts")
    little = [one for one in removed if one.effect and is_small(one.effect) and one not in bad]
    parts = []
    if bad:
        parts.append(f"{named(bad)} {verb(bad, 'does', 'do')} harm")
    if little:
        parts.append(f"{named(little)} {verb(little, 'is', 'are each')} worth less than {margin_text(study)}")
    used = (*claims.of_findings(bad), *claims.of_findings(little, "small"))
    return [Sentence(f"Within that combination {', and '.join(parts)}.", 1, used)] if parts else []


def crossed(study: Study) -> list[Sentence]:
    found = [one for one in study.findings if one.comparison.kind == "pair" and one.effect]
    parts, used = [], []
    for word in ("less than the sum", "more than the sum"):
        own = with_verdict(found, word)
        said = [f"{' and '.join(one.comparison.factors)} ({size(one)})" for one in own]
        if said:
            parts.append(f"{'w' if parts else 'W'}orth {word.replace('the sum', 'their sum')} together: ")
            parts[-1] += listed(said, FEW)
            used += own
    return [Sentence(f"{'; '.join(parts)}.", 1, claims.of_findings(used))] if parts else []
