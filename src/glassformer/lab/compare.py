"""Runs against each other on the same test samples: which answers better, by how much, and how sure that is.

One run a side: over samples, about these two sets of weights. Several seeds a side: over samples of the mean over
seeds, and over seeds; what is then said of the recipes must hold in both. Words follow from the tests alone:

better, worse                  p after Holm is at most 0.05 and the 95 % interval excludes zero
equivalent within the margin   p of TOST after Holm is at most 0.05
not decided                    neither

Holm's correction is over the pairs that are compared by one score. The score that decides is the task's: right answers
where it knows right and wrong, else the loss; the other scores are shown with their numbers, and without a word.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, takewhile
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from glassformer.errors import DataError, SettingError
from glassformer.lab.over_seeds import OverSeeds, over_seeds
from glassformer.lab.paired_samples import (
    bootstrap,
    bootstrap_p,
    equivalence_p,
    mcnemar,
    percentiles,
    tango_equivalence_p,
    tango_interval,
)
from glassformer.lab.sample_size import LEVEL
from glassformer.lab.statistics import holm
from glassformer.names import nearest
from glassformer.predict.per_sample import PerSample, Sums, open_finished, score_each
from glassformer.predict.run import Run
from glassformer.train.run_folder import RunFolder

SHARE = 100.0  # shown in percent
SCORES = ["accuracy", "exact match", "loss"]
Word = Literal["better", "worse", "equivalent within the margin", "not decided", ""]


class Score(NamedTuple):
    name: str
    unit: str  # of a difference
    scale: float  # shown is the raw number times this
    higher: bool  # is better


@dataclass(frozen=True)
class Side:
    """One run, or one recipe with several seeds."""

    name: str
    paths: tuple[Path, ...]
    seeds: tuple[int, ...]
    found: tuple[PerSample, ...]

    def sums(self, score: Score) -> list[Sums]:
        return [of for one in self.found if (of := one.loss if score.name == "loss" else one.right) is not None]

    def mean(self, score: Score) -> Sums:
        """Of every sample, over seeds."""
        sums = self.sums(score)
        return Sums(np.mean([one.value for one in sums], axis=0), np.mean([one.weight for one in sums], axis=0))

    def scores(self, score: Score) -> list[float]:
        return [score.scale * one.score for one in self.sums(score)]


@dataclass(frozen=True)
class Difference:
    """Of one pair by one score: second less first, in the score's unit."""

    first: str
    second: str
    score: Score
    values: tuple[float, float]
    mean: float
    low: float  # 95 % interval over samples
    high: float
    test: Literal["exact McNemar", "bootstrap"]
    only: tuple[int, int] | None  # samples that only the first, only the second has right; None: not counted so
    p: float
    seeds: OverSeeds | None = None
    margin: float | None = None
    p_equivalent: float | None = None  # the larger of those over samples and over seeds
    p_holm: float = 1.0
    p_seeds_holm: float | None = None
    p_equivalent_holm: float | None = None
    pairs: int = 1  # corrected over so many
    word: Word = ""

    @property
    def decided_over_samples(self) -> bool:
        return self.p_holm <= LEVEL and not self.low <= 0 <= self.high

    @property
    def decided_over_seeds(self) -> bool:
        found = self.seeds
        return found is None or ((self.p_seeds_holm or 0.0) <= LEVEL and not found.low <= 0 <= found.high)

    @property
    def gains(self) -> bool:
        return (self.mean > 0) == self.score.higher


@dataclass(frozen=True)
class Compared:
    task: str
    samples: int
    data: tuple[str, ...]  # the names under which it was read
    sides: tuple[Side, ...]
    differences: tuple[Difference, ...]  # by the deciding score first, then by the others
    by: str  # the score that decides
    notes: tuple[str, ...] = field(default=())


def compare(
    sides: Sequence[Sequence[str | Path]],
    *,
    data: str = "",
    by: str = "",
    margin: float | None = None,
    first_only: bool = False,
    listener: Callable[[Path], None] = lambda path: None,
) -> Compared:
    """Each side is a run folder, a folder of several seeds, or several run folders.

    data         another data set than the runs' own
    by           the score that decides: accuracy, "exact match" or loss; nothing: the task's
    margin       in the score's unit (points, nats): what makes no difference; then equivalence is tested, too
    first_only   every side against the first, rather than all pairs
    """
    must_be_several(sides)
    must_be_margin(margin)
    must_be_score(by)
    paths = [[path for one in side for path in of_seeds(Path(one))] for side in sides]
    must_differ(paths)
    named, read, runs = names_of(sides, paths), [], []
    for name, side in zip(named, paths, strict=True):
        opened = [open_finished(path) for path in side]
        found = []
        for run in opened:
            must_do_the_same(run, runs)
            found.append(score_each(run, data))
            must_be_paired(run, found[-1], runs[0] if runs else run, read[0].found[0] if read else found[0])
            runs.append(replace(run, params=None))
            listener(run.path)
        read.append(Side(name, tuple(side), tuple(run.recipe.training.seed for run in opened), tuple(found)))
    scores = scores_of(runs[0], read)
    chosen = next((one for one in scores if one.name == (by or scores[0].name)), None)
    if chosen is None:
        there = ", ".join(one.name for one in scores)
        raise SettingError(f"compare: the task {runs[0].recipe.task.name} has no score {by!r} here; there is {there}")
    pairs = [(read[0], one) for one in read[1:]] if first_only else list(combinations(read, 2))
    ordered = [chosen, *(one for one in scores if one is not chosen)]
    differences = [one for score in ordered for one in family(pairs, score, margin if score is chosen else None)]
    return Compared(
        task=runs[0].recipe.task.name,
        samples=len(read[0].found[0].loss.value),
        data=tuple(dict.fromkeys(data or run.recipe.data for run in runs)),
        sides=tuple(read),
        differences=tuple(replace(one, word=word_of(one)) if one.score is chosen else one for one in differences),
        by=chosen.name,
        notes=tuple(notes_of(read, runs, scores)),
    )


def of_seeds(path: Path) -> list[Path]:
    """The runs in a folder: itself, or those of its seeds."""
    folder = RunFolder(path)
    _, seeds = folder.recipe_and_seeds()
    return [folder.of_seed(seed).path for seed in seeds] or [path]


def must_be_margin(margin: float | None) -> None:
    if margin is not None and not margin > 0:
        raise SettingError(f"compare: a margin of {margin:g} came, expected a number above 0")


def must_be_score(name: str) -> None:
    if name and name not in SCORES:
        raise SettingError(f"compare: no score is called {name!r}{nearest(name, SCORES)}; known: {', '.join(SCORES)}")


def must_be_several(sides: Sequence[object]) -> None:
    if len(sides) < 2:
        raise SettingError(
            "compare: one side came, expected two or more: glassformer compare RUN RUN, or with several seeds each "
            "glassformer compare A-1 A-2 --with B-1 B-2"
        )


def must_differ(sides: Sequence[Sequence[Path]]) -> None:
    seen: set[Path] = set()
    for path in (path for side in sides for path in side):
        if path.resolve() in seen:
            raise SettingError(f"compare: {path} came twice; name every run once")
        seen.add(path.resolve())


def names_of(sides: Sequence[Sequence[str | Path]], paths: Sequence[Sequence[Path]]) -> list[str]:
    """A folder's name, or what the names of several begin with; where that tells nothing apart, whole paths."""
    found = [alike([Path(one).resolve().name for one in given]) for given in sides]
    if all(found) and len(set(found)) == len(found):
        return found
    return [
        str(given[0]) if len(given) == 1 else f"side {i} ({side[0]}, …)"
        for i, (given, side) in enumerate(zip(sides, paths, strict=True), 1)
    ]


def alike(names: Sequence[str]) -> str:
    """
    >>> alike(["wide-1", "wide-2"]), alike(["wide-1"]), alike(["a", "b"])
    ('wide', 'wide-1', '')
    """
    if len(names) == 1:
        return names[0]
    return "".join(c[0] for c in takewhile(lambda c: len(set(c)) == 1, zip(*names, strict=False))).rstrip("-_. ")


def must_do_the_same(run: Run, others: Sequence[Run]) -> None:
    if not others:
        return
    first = others[0]
    if run.recipe.task.name != first.recipe.task.name:
        raise DataError(
            f"{run.path}: its task is {run.recipe.task.name}, that of {first.path} is {first.recipe.task.name}; "
            "compare runs of one task"
        )
    if run.recipe.output_axis == "classes" and len(run.classes) != len(first.classes):
        raise DataError(
            f"{run.path}: it knows {len(run.classes)} classes, {first.path} knows {len(first.classes)}; compare runs "
            "that answer the same question"
        )


def must_be_paired(run: Run, found: PerSample, first: Run, of_first: PerSample) -> None:
    """The same samples in the same order: by what is in them, not by what they are called."""
    if found.samples == of_first.samples:
        return
    if not found.source or found.source != of_first.source:
        count, other = len(found.loss.value), len(of_first.loss.value)
        raise DataError(
            f"{run.path}: its test samples ({run.recipe.data}: {count:,}) are not those of {first.path} "
            f"({first.recipe.data}: {other:,}), so that nothing can be paired; score all on one data set with --data "
            "NAME, and of running text compare runs with one tokeniser and one context"
        )
    if found.labels != of_first.labels and not run.recipe.task.whole:
        raise DataError(
            f"{run.path}: it reads the texts of {first.path} with another tokeniser, so that their labels are not the "
            "same ones; compare runs with one tokeniser"
        )


def scores_of(run: Run, sides: Sequence[Side]) -> list[Score]:
    """Right answers first, where there are any; the loss where all have the same labels."""
    found, every = [], [one for side in sides for one in side.found]
    knows = all(one.right is not None for one in every)
    if knows:
        found.append(Score("exact match" if run.recipe.task.whole else "accuracy", "points", SHARE, True))
    if len({one.labels for one in every}) == 1:
        found.append(Score("loss", "nats" if knows else "", 1.0, False))
    if run.recipe.task.by_loss and len(found) == 2:
        found.reverse()
    return found


def family(pairs: Sequence[tuple[Side, Side]], score: Score, margin: float | None) -> list[Difference]:
    """All pairs by one score, corrected over them."""
    found = [difference(*pair, score, margin) for pair in pairs]
    p_holm = holm(np.array([one.p for one in found]))
    p_seeds = corrected([one.seeds.p if one.seeds else None for one in found])
    p_equivalent = corrected([one.p_equivalent for one in found])
    return [
        replace(one, p_holm=float(p), p_seeds_holm=of_seeds, p_equivalent_holm=equal, pairs=len(found))
        for one, p, of_seeds, equal in zip(found, p_holm, p_seeds, p_equivalent, strict=True)
    ]


def corrected(p: Sequence[float | None]) -> list[float | None]:
    """Holm over those that there are."""
    there = [i for i, one in enumerate(p) if one is not None]
    by_place = dict(zip(there, holm(np.array([p[i] for i in there], float)).tolist() if there else [], strict=True))
    return [by_place.get(i) for i in range(len(p))]


def difference(first: Side, second: Side, score: Score, margin: float | None) -> Difference:
    a, b = first.mean(score), second.mean(score)
    exact = len(first.paths) == len(second.paths) == 1 and a.is_right_or_wrong and b.is_right_or_wrong
    over = right_and_wrong(a, b, score, margin) if exact else by_bootstrap(a, b, score, margin)
    values = float(np.mean(first.scores(score))), float(np.mean(second.scores(score)))
    seeds, equal = of_both(first, second, score), over.p_equivalent
    if margin is not None and equal is not None and seeds:
        equal = max(equal, seeds.equivalence_p(values[1] - values[0], margin))
    return Difference(
        first=first.name,
        second=second.name,
        score=score,
        values=values,
        mean=values[1] - values[0],
        low=over.low,
        high=over.high,
        test="exact McNemar" if exact else "bootstrap",
        only=over.only,
        p=over.p,
        seeds=seeds,
        margin=margin,
        p_equivalent=equal,
    )


class OverSamples(NamedTuple):
    low: float
    high: float
    p: float
    p_equivalent: float | None
    only: tuple[int, int] | None = None


def right_and_wrong(a: Sums, b: Sums, score: Score, margin: float | None) -> OverSamples:
    *only, p = mcnemar(a, b)
    counts = only[0], only[1], len(a.value)
    low, high = (score.scale * end for end in tango_interval(*counts))
    equal = None if margin is None else tango_equivalence_p(*counts, min(margin / score.scale, 1.0))
    return OverSamples(low, high, p, equal, counts[:2])


def by_bootstrap(a: Sums, b: Sums, score: Score, margin: float | None) -> OverSamples:
    drawn = score.scale * bootstrap(a, b)
    equal = None if margin is None else equivalence_p(drawn, margin)
    if equal is not None and margin is not None and score.scale == SHARE:
        equal = max(equal, (1 - min(margin / SHARE, 1.0)) ** len(a.value))
    return OverSamples(*percentiles(drawn), bootstrap_p(drawn), equal)


def of_both(first: Side, second: Side, score: Score) -> OverSeeds | None:
    """By seed where both sides have the same ones."""
    sides = [dict(zip(side.seeds, side.scores(score), strict=True)) for side in (first, second)]
    each_once = all(len(by_seed) == len(side.paths) for by_seed, side in zip(sides, (first, second), strict=True))
    if each_once and sides[0].keys() == sides[1].keys():
        order = sorted(sides[0])
        return over_seeds(*([by_seed[seed] for seed in order] for by_seed in sides), paired=True)
    return over_seeds(first.scores(score), second.scores(score), paired=False)


def word_of(one: Difference) -> Word:
    if one.decided_over_samples and one.decided_over_seeds:
        return "better" if one.gains else "worse"
    if one.p_equivalent_holm is not None and one.p_equivalent_holm <= LEVEL:
        return "equivalent within the margin"
    return "not decided"


def notes_of(sides: Sequence[Side], runs: Sequence[Run], scores: Sequence[Score]) -> list[str]:
    found, start = [], 0
    for side in sides:
        own = runs[start : start + len(side.paths)]
        start += len(own)
        recipes = {repr(replace(run.recipe, training=replace(run.recipe.training, seed=0))) for run in own}
        if len(recipes) > 1:
            found.append(f"The runs of {side.name} differ in more than their seeds: this is not one recipe.")
        if len(set(side.seeds)) < len(side.seeds):
            found.append(f"Two runs of {side.name} have the same seed.")
    if runs[0].recipe.task.by_steps:
        found.append("Windows of one text depend on each other: the interval over samples may be too narrow.")
    if all(one.name != "loss" for one in scores):
        found.append("Losses are not compared: the runs have different tokenisers, and so other labels.")
    if len({run.classes for run in runs}) > 1:
        found.append("The classes of the runs have other names; labels are compared by number.")
    return found
