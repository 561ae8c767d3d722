"""From records to verdicts: studies written by hand, nothing trained."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from glassformer.errors import SettingError
from glassformer.lab.analysis import analyse, best_factors, comparisons, strongest, undecided
from glassformer.lab.cells import cell
from glassformer.lab.plan import MAIN, Plan, parse
from glassformer.lab.record import Record, Results
from glassformer.lab.study import Finding, Study

HEAD = """
question = "Why is it so low?"
seeds = 10
{target}

[baseline]
preset = "attention-pool"
set = {{ "validation.share" = 0.1 }}
"""
FACTORS = """
[factors."sinusoidal"]
subject = "positions"
set = { "model.start" = "sinusoidal" }

[factors."wide positions"]
subject = "positions"
set = { "model.start" = "zero" }

[factors."rate 0.1"]
subject = "rate"
set = { "optimiser.lr" = 0.1 }

[factors."batch 16"]
subject = "batch"
set = { "training.batch" = 16 }
"""
REPEAT = """
[groups.repeat]
about = "as it was done before"
measure = "test"
set = { "validation.share" = 0.0 }

[factors."their positions"]
subject = "positions"
group = "repeat"
set = { "model.start" = "sinusoidal" }

[factors."their rate"]
subject = "rate"
group = "repeat"
set = { "optimiser.lr" = 0.003 }
"""
WAVE = np.array([0.5, -0.3, 0.1, -0.6, 0.4, -0.2, 0.7, -0.4, 0.2, -0.4])  # mean 0
CHIRP = np.array([0.4, 0.1, -0.5, 0.2, -0.2, 0.6, -0.3, -0.1, 0.1, -0.3])  # mean 0, otherwise unlike
Scores = Sequence[float | str | None] | np.ndarray  # percent; a word: why it failed; None: not run


def plan_of(factors: str = FACTORS, target: float | None = 0.85) -> Plan:
    return parse(HEAD.format(target=f"target = {target}" if target else "") + factors, "made up")


@dataclass
class Made:
    """Writes records for cells, by the factors in them."""

    plan: Plan
    results: Results
    tests: dict[str, float] = field(default_factory=dict)

    def put(self, factors: tuple[str, ...], scores: Scores, group: str = MAIN, test: float | None = None) -> None:
        key = cell(self.plan, factors, group).key
        pairs = zip(self.plan.seeds, scores, strict=False)
        self.results.add(record(key, seed, score, test) for seed, score in pairs if score is not None)

    def study(self) -> Study:
        return analyse(self.plan, self.results)


def record(key: str, seed: int, score: float | str | None, test: float | None) -> Record:
    if isinstance(score, str):
        return Record(key, seed, failed=score, machine="a desk")
    last = float(score or 0.0) / 100
    curve = (last / 2, last * 0.9, last)
    return Record(key, seed, validation=curve, test=last if test is None else test / 100, seconds=2.0, machine="a desk")


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Made]:
    def made(plan: Plan | None = None, cells: Mapping[tuple[str, ...], Scores] | None = None) -> Made:
        plan = plan or plan_of()
        study = Made(plan, Results(tmp_path / str(len(list(tmp_path.iterdir())))))
        for factors, scores in (cells or {}).items():
            study.put(factors, scores)
        return study

    return made


def additions(**changed: Scores) -> dict[tuple[str, ...], Scores]:
    """A baseline of 40 %; positions +30, the other start -5, rate +10, batch nothing."""
    names = {"sin": "sinusoidal", "start": "wide positions", "rate": "rate 0.1", "batch": "batch 16"}
    usual = {"sin": 70 + CHIRP, "start": 35 + CHIRP, "rate": 50 + CHIRP, "batch": 40 + WAVE + 2 * CHIRP}
    return {(): 40 + WAVE, **{(names[name],): scores for name, scores in (usual | changed).items()}}


BEST = ("sinusoidal", "rate 0.1")  # the first choice of `additions`
TOP = (*BEST, "batch 16")  # the one factor whose subject it leaves free


def with_best(best: Scores, top: Scores | None = None, **changed: Scores) -> dict[tuple[str, ...], Scores]:
    """Both stages: nothing helps on top of the first choice, unless told otherwise."""
    return {**additions(**changed), BEST: best, TOP: best if top is None else top}


def find(study: Study, *factors: str, kind: str = "add", group: str = MAIN) -> Finding:
    (found,) = (
        one
        for one in study.findings
        if (one.comparison.factors, one.comparison.kind, one.comparison.group) == (factors, kind, group)
    )
    return found


def test_the_words(make: Callable[..., Made]) -> None:
    study = make(cells=additions()).study()
    words = {one.comparison.factors[0]: one.word for one in study.findings if one.comparison.kind == "add"}
    assert words == {
        "sinusoidal": "explains",  # 30 of 45 points
        "wide positions": "hurts",
        "rate 0.1": "contributes",
        "batch 16": "not distinguishable",
    }
    assert [(rank.factor, rank.best, rank.worst) for rank in study.ranks] == [
        ("sinusoidal", 1, 1),
        ("rate 0.1", 2, 2),
        ("batch 16", 3, 3),
        ("wide positions", 4, 4),
    ]


def test_an_effect_is_the_paired_one(make: Callable[..., Made]) -> None:
    effect = find(make(cells=additions()).study(), "rate 0.1").effect
    assert effect is not None
    expected = stats.ttest_rel(50 + CHIRP, 40 + WAVE).confidence_interval(0.95)
    assert (effect.low, effect.high) == pytest.approx((expected.low, expected.high))
    assert effect.differences == pytest.approx(10 + CHIRP - WAVE)
    assert (effect.p, effect.p_holm) == (2 / 1024, 4 * 2 / 1024)
    said = find(make(cells=additions()).study(), "rate 0.1").evidence
    assert said == f"+10.0 points [{effect.low:.1f}, {effect.high:.1f}], 10 of 10 seeds up, p = 0.008 after Holm"


def test_half_of_the_gap_is_what_explains(make: Callable[..., Made]) -> None:
    for target, word in ((0.6, "explains"), (0.61, "contributes"), (0.3, "contributes")):
        study = make(plan_of(target=target), additions()).study()
        assert find(study, "rate 0.1").word == word
    assert "reached already" in make(plan_of(target=0.3), additions()).study().answer


def test_without_a_target_the_best_cell_is_the_goal(make: Callable[..., Made]) -> None:
    made = make(plan_of(target=None), additions())
    assert find(made.study(), "sinusoidal").word == "contributes"  # nothing to compare with yet
    made.put(BEST, 90 + CHIRP)
    assert find(made.study(), "sinusoidal").word == "contributes"  # nor here: something may help on top of it
    made.put(TOP, 90 + WAVE)
    study = made.study()
    assert find(study, "sinusoidal").word == "explains"  # 30 of 50
    assert find(study, "rate 0.1").word == "contributes"
    assert "it closes at least half of the 50.0 points to the best by itself" in study.answer


def test_a_tie_is_a_tie(make: Callable[..., Made]) -> None:
    study = make(cells=additions(rate=70 - CHIRP)).study()
    assert {rank.factor: (rank.best, rank.worst) for rank in study.ranks[:2]} == {
        "sinusoidal": (1, 2),
        "rate 0.1": (1, 2),
    }
    assert "rank 1-2 of 4" in study.answer


def test_too_few_seeds_cannot_decide(make: Callable[..., Made]) -> None:
    """Five seeds, however clear, have no p below 1/16."""
    few = {factors: scores[:5] for factors, scores in additions().items()}
    made = make(cells=few)
    study = made.study()
    found = find(study, "sinusoidal")
    assert found.word == "not decided"
    assert "5 seeds cannot decide: no p of theirs is below 0.062, after Holm over 4 0.25; it takes 8" in found.evidence
    assert {one.word for one in study.findings} == {"not decided"}
    assert cell(made.plan, ("batch 16",)).key in undecided(made.plan, made.results)
    decided = make(cells=additions())  # what is open there are pairs and what is on top, which were not run
    assert cell(made.plan, ("batch 16",)).key not in undecided(decided.plan, decided.results)
    assert {cell(made.plan, names).key for names in (BEST, TOP)} <= undecided(decided.plan, decided.results)


def test_a_plan_with_too_few_seeds_says_why(make: Callable[..., Made]) -> None:
    plan = parse(HEAD.format(target="").replace("seeds = 10", "seeds = 5") + FACTORS, "few")
    few = {factors: scores[:5] for factors, scores in additions().items()}
    assert any("5 seeds cannot decide about 4 factors" in note for note in make(plan, few).study().notes)


def test_two_seeds_have_no_interval(make: Callable[..., Made]) -> None:
    study = make(cells={(): 40 + WAVE[:2], ("rate 0.1",): [50.0, 51.0]}).study()
    found = find(study, "rate 0.1")
    assert (found.effect, found.word) == (None, "not decided")
    assert "2 seeds on both sides, 3 are the least" in found.evidence
    assert study.ranks == ()


def test_what_counts_alone_but_not_among_many(make: Callable[..., Made]) -> None:
    """Eight seeds up, two down by half as much: p = 0.02, four times that after Holm."""
    batch = 40 + WAVE + np.array([1.0] * 8 + [-0.5, -0.6])
    flat = additions(batch=batch, sin=40 + 2 * WAVE, rate=40 + WAVE + CHIRP, start=40 - WAVE)
    found = find(make(cells=flat).study(), "batch 16")
    assert found.effect is not None
    assert found.effect.low > 0
    assert found.effect.p < 0.05 < found.effect.p_holm
    assert found.word == "not decided"
    assert "one of 4 tried it may be chance" in found.evidence


def test_sure_of_the_direction_but_not_of_the_size(make: Callable[..., Made]) -> None:
    """All seeds up, one a hundred times as much: the exact test is sure, Student's interval is not."""
    batch = 40 + WAVE + np.array([0.1] * 9 + [30.0])
    found = find(make(cells=additions(batch=batch)).study(), "batch 16")
    assert found.effect is not None
    assert found.effect.p_holm < 0.05
    assert found.effect.low < 0
    assert found.word == "not decided"
    assert "so unevenly" in found.evidence


@pytest.mark.parametrize(("failed", "word"), [(3, "contributes"), (4, "diverges")])
def test_failed_runs(make: Callable[..., Made], failed: int, word: str) -> None:
    rate = ["not finite in epoch 2"] * failed + list(50 + CHIRP[failed:])
    family = additions(rate=rate)
    if failed == 3:  # seven seeds suffice for a family of three
        family.pop(("batch 16",))
    study = make(cells=family).study()
    found = find(study, "rate 0.1")
    assert (found.word, found.failures) == (word, failed)
    assert found.effect is not None
    assert found.effect.differences == pytest.approx((10 + CHIRP - WAVE)[failed:])
    assert f"{failed} of 10 seeds failed: not finite in epoch 2" in found.evidence
    assert any(note.startswith(f"rate 0.1: {failed} of 10 runs failed") for note in study.notes)
    assert ("rate 0.1" in {rank.factor for rank in study.ranks}) == (word != "diverges")


def test_a_baseline_seed_that_failed_leaves_its_pair_out(make: Callable[..., Made]) -> None:
    cells = additions()
    cells[()] = ["out of memory", *(40 + WAVE[1:])]
    study = make(cells=cells).study()
    found = find(study, "sinusoidal")
    assert found.effect is not None
    assert len(found.effect.differences) == 9
    assert found.word == "explains"
    assert "without it 1 seed failed: out of memory" in found.evidence
    assert len(study.baseline.scores) == 9
    assert len(study.baseline.records) == 10


def test_all_runs_failed(make: Callable[..., Made]) -> None:
    study = make(cells=additions(rate=["not finite in epoch 1"] * 10)).study()
    assert find(study, "rate 0.1").word == "diverges"
    assert find(study, "rate 0.1").effect is None
    assert "; training diverges with rate 0.1." in study.answer
    broken = next(one for one in study.cells if one.cell.factors == ("rate 0.1",))
    assert math.isnan(broken.mean)
    assert len(broken.scores) == 0


def test_what_is_combined_is_chosen_by_validation_alone(make: Callable[..., Made]) -> None:
    made = make()
    for factors, scores in additions(start=60 + WAVE).items():
        made.put(factors, scores, test=99.0 if factors == ("wide positions",) else 1.0)
    assert strongest(made.plan, made.results) == ["sinusoidal", "rate 0.1"]  # one level of each subject
    assert best_factors(made.plan, made.results) == ("sinusoidal", "rate 0.1")


def test_pairs_and_removals_come_when_all_additions_are_there(make: Callable[..., Made]) -> None:
    cells = additions()
    cells[("batch 16",)] = list(cells[("batch 16",)][:9])
    made = make(cells=cells)
    assert {one.kind for one in comparisons(made.plan, made.results)} == {"add"}
    made.put(("batch 16",), [None] * 9 + [40.1])
    second = [("pair", ("sinusoidal", "rate 0.1")), ("top", ("batch 16",))]
    found = comparisons(made.plan, made.results)
    assert [(one.kind, one.factors) for one in found[4:]] == second
    assert (found[-1].without.factors, found[-1].with_.factors) == (BEST, TOP)
    made.put(BEST, 75 + WAVE)
    made.put(TOP, 75 + CHIRP[:9])
    assert [(one.kind, one.factors) for one in comparisons(made.plan, made.results)[4:]] == second
    made.put(TOP, [None] * 9 + [75.0])
    third = [("remove", ("sinusoidal",)), ("remove", ("rate 0.1",))]
    assert [(one.kind, one.factors) for one in comparisons(made.plan, made.results)[4:]] == second + third


def test_what_helps_only_on_top_is_found(make: Callable[..., Made]) -> None:
    """Alone the batch does nothing; where positions and rate are right it is worth 12 points."""
    made = make(cells=with_best(75 + WAVE, 87 + CHIRP))
    study = made.study()
    alone, later = find(study, "batch 16"), find(study, "batch 16", kind="top")
    assert (alone.word, later.word) == ("not distinguishable", "contributes")
    assert later.effect is not None
    expected = stats.ttest_rel(87 + CHIRP, 75 + WAVE).confidence_interval(0.95)
    assert (later.effect.low, later.effect.high) == pytest.approx((expected.low, expected.high))
    assert later.effect.p_holm == later.effect.p == 2 / 1024  # a family of its own
    assert best_factors(made.plan, made.results) == TOP
    assert study.best is not None
    assert study.best.cell.factors == TOP
    assert (
        f"On top of sinusoidal + rate 0.1, batch 16 (+12.0 points [{expected.low:.1f}, {expected.high:.1f}]) "
        "contributes, though alone it does not show."
    ) in study.answer
    assert study.answer.count("batch 16") == 2  # there and in the best, and not among what was suspected in vain
    assert [rank.factor for rank in study.ranks] == ["sinusoidal", "rate 0.1", "batch 16", "wide positions"]
    removed = [one for one in study.findings if one.comparison.kind == "remove"]
    assert [one.comparison.factors for one in removed] == [(name,) for name in TOP]
    assert find(study, "batch 16", kind="remove").effect == later.effect  # the same two cells


@pytest.mark.parametrize(
    ("top", "batch", "said"),
    [
        (97 + CHIRP, 40 + 2 * CHIRP, "batch 16 (+22.0 points [21.6, 22.4]) contributes, though alone it does not show"),
        (98 + CHIRP, 35 + CHIRP, "batch 16 (+23.0 points [22.6, 23.4]) closes at least half of the gap, though alone "
                                 "it does not help"),
        (75 + CHIRP, 40 + 2 * CHIRP, ""),
        (70 + CHIRP, 40 + 2 * CHIRP, ""),
    ],
    ids=["contributes", "explains", "nothing", "hurts"],
)  # fmt: skip
def test_what_is_said_of_a_factor_on_top(make: Callable[..., Made], top: Scores, batch: Scores, said: str) -> None:
    """The gap is 45 points: 22.5 are half of it."""
    made = make(cells=with_best(75 + WAVE, top, batch=batch))
    study = made.study()
    assert (f"On top of sinusoidal + rate 0.1, {said}." in study.answer) if said else ("On top" not in study.answer)
    assert (best_factors(made.plan, made.results) == TOP) == bool(said)


def test_of_one_subject_on_top_the_better_level_is_chosen(make: Callable[..., Made]) -> None:
    more = '\n[factors."batch 128"]\nsubject = "batch"\nset = { "training.batch" = 128 }\n'
    cells = with_best(75 + WAVE, 80 + CHIRP) | {("batch 128",): 40 - WAVE, (*BEST, "batch 128"): 83 + CHIRP}
    made = make(plan_of(FACTORS + more), cells)
    assert best_factors(made.plan, made.results) == (*BEST, "batch 128")
    study = made.study()
    assert study.answer.count("batch 128 (+8.0 points") == 1
    assert "batch 16" not in study.answer
    effect = find(study, "batch 16", kind="top").effect
    assert effect is not None
    assert effect.p_holm == 2 * 2 / 1024


def test_where_nothing_helps_alone_there_is_nothing_to_be_on_top_of(make: Callable[..., Made]) -> None:
    made = make(cells=additions(sin=40 - WAVE, rate=40 + 2 * WAVE))
    assert {one.kind for one in comparisons(made.plan, made.results)} == {"add"}


def test_one_factor_alone_is_not_called_a_combination(make: Callable[..., Made]) -> None:
    flat = additions(rate=40 - WAVE)
    made = make(cells=flat | {("sinusoidal", "rate 0.1"): 70 + CHIRP, ("sinusoidal", "batch 16"): 70 + WAVE})
    answer = made.study().answer
    assert "With sinusoidal it reaches 70.0 % [" in answer
    assert "Together" not in answer


def test_factors_that_are_not_to_be_combined_or_stand_on_others(make: Callable[..., Made]) -> None:
    more = """
[factors."slow"]
combine = false
set = { "model.width" = 64 }

[factors."smoothing on rate"]
on = "rate 0.1"
set = { "training.label_smoothing" = 0.1 }

[factors."heads on slow"]
on = "slow"
set = { "model.hidden" = 64 }
"""
    cells = additions() | {("slow",): 80 + WAVE, ("rate 0.1", "smoothing on rate"): 60 + CHIRP}
    made = make(plan_of(FACTORS + more), cells | {("slow", "heads on slow"): 90 + WAVE})
    assert strongest(made.plan, made.results) == ["sinusoidal", "rate 0.1"]
    assert best_factors(made.plan, made.results) == ("sinusoidal", "rate 0.1", "smoothing on rate")
    effect = find(made.study(), "smoothing on rate").effect
    assert effect is not None
    assert effect.mean == pytest.approx(10)  # over the rate, not over the baseline


@pytest.mark.parametrize(
    ("both", "word", "said"),
    [
        (72.0, "less than the sum", "Worth less than their sum together"),
        (95.0, "more than the sum", "Worth more than their sum together"),
        (80.0, "not distinguishable", ""),
    ],
)
def test_a_pair_is_the_interaction(make: Callable[..., Made], both: float, word: str, said: str) -> None:
    made = make(cells=additions())
    made.put(("sinusoidal", "rate 0.1"), both + 2 * CHIRP - WAVE)
    study = made.study()
    found = find(study, "sinusoidal", "rate 0.1", kind="pair")
    assert found.effect is not None
    assert found.effect.mean == pytest.approx(both - 70 - 50 + 40)
    assert found.effect.differences == pytest.approx([both - 80] * 10)
    assert found.word == word
    assert said in study.answer
    assert ("their sum" in study.answer) == bool(said)


def test_add_and_remove_disagree(make: Callable[..., Made]) -> None:
    """The best is no better than positions alone: among them the rate is worth nothing."""
    made = make(cells=additions())
    made.put(BEST, 70 + WAVE, test=69.0)
    made.put(TOP, 70 + CHIRP)
    study = made.study()
    alone, among = find(study, "rate 0.1"), find(study, "rate 0.1", kind="remove")
    assert (alone.word, among.word) == ("contributes", "not distinguishable")
    assert among.effect is not None
    assert among.effect.differences == pytest.approx(WAVE - CHIRP)
    assert "Within that combination rate 0.1 (+0.0 points" in study.answer
    assert "can be left out without a sure loss" in study.answer
    assert study.best is not None
    assert study.best.mean == pytest.approx(70)
    assert "on the test set, the baseline 40.0 %: 16.0 points short of the target of 85 %" in study.answer


def test_what_few_seeds_have_not_decided_is_not_said_to_be_of_no_use(make: Callable[..., Made]) -> None:
    """Six seeds of the best: no removal can be sure, however much is lost."""
    more = '\n[factors."smooth"]\nset = { "training.label_smoothing" = 0.1 }\n'
    cells = with_best(75 + WAVE, 87 + CHIRP) | {("smooth",): 40 - WAVE, (*BEST, "smooth"): 80 + CHIRP}
    cells |= {(*TOP, "smooth"): 92 + WAVE[:5], ("rate 0.1", *TOP[2:], "smooth"): 50 + CHIRP[:5]}
    study = make(plan_of(FACTORS + more), cells).study()
    assert find(study, "sinusoidal", kind="remove").word == "not decided"
    assert "left out" not in study.answer


def test_the_best_against_the_target_is_read_on_the_test_set(make: Callable[..., Made]) -> None:
    made = make(cells=additions() | {TOP: 97 + CHIRP})
    for seed, value in zip(made.plan.seeds, 92 + WAVE, strict=True):
        made.results.add([Record(cell(made.plan, BEST).key, seed, validation=(0.5, 0.97), test=value / 100)])
    answer = made.study().answer
    low, high = stats.ttest_1samp(92 + WAVE, 0).confidence_interval(0.95)
    assert f"they reach 92.0 % [{low:.1f}, {high:.1f}] on the test set" in answer
    assert "above the target of 85 %" in answer
    assert "97" not in answer


def test_one_run_of_the_best_has_no_interval_to_be_judged_by(make: Callable[..., Made]) -> None:
    more = '\n[factors."smooth"]\nset = { "training.label_smoothing" = 0.1 }\n'
    cells = with_best(75 + WAVE, 87 + CHIRP) | {("smooth",): 40 - WAVE, (*BEST, "smooth"): 80 + CHIRP}
    made = make(plan_of(FACTORS + more), cells | {(*TOP, "smooth"): [92.0]})
    assert "+ batch 16 + smooth) they reach 92.0 % on the test set, the baseline 40.0 %." in made.study().answer


def test_the_paragraph_of_a_whole_study(make: Callable[..., Made]) -> None:
    study = make(cells=additions()).study()
    short, _, whole = study.answer.partition("\n\n")
    assert short == "In short, what explains it: positions; what contributes: rate; what does not: batch."
    first, rest = whole.split("it closes at least half of the 45.0 points to the target by itself.")
    assert first.startswith("What explains it: sinusoidal (+30.0 points [")
    assert "rank 1 of 4" in first
    assert "What contributes: rate 0.1 (+10.0 points [" in rest
    assert "The baseline has 40.0 % on validation (10 seeds), 45.0 points below the target." in rest
    assert "not distinguishable from no effect: batch 16 (" in rest
    assert "What hurts: wide positions (-5.0 points [" in rest
    assert "?" not in study.answer


def test_the_answer_stays_short(make: Callable[..., Made]) -> None:
    """Twenty factors that do nothing, seven that hurt, and everything else there is to say."""
    idle = {f"idle {i}": f'set = {{ "optimiser.momentum" = 0.{100 + i} }}' for i in range(20)}
    bad = {f"bad {i}": f'subject = "bad"\nset = {{ "model.hidden" = {40 + i} }}' for i in range(7)}
    other = {"another": 'comparator = true\nset = { "model.width" = 64 }'}
    more = "".join(f'\n[factors."{name}"]\n{text}\n' for name, text in (idle | bad | other).items())
    plan = plan_of(FACTORS + REPEAT + more).text.replace("seeds = 10", "seeds = 12")
    cells = with_best(75 + WAVE, 87 + CHIRP) | {
        ("another",): 94 + CHIRP,
        TOP[1:]: 45 + WAVE,
        (TOP[0], TOP[2]): 70 + CHIRP,
    }
    cells |= {(name,): 40 + (-1) ** i * WAVE + CHIRP for i, name in enumerate(idle)}
    cells |= {(name,): 30 + CHIRP - i for i, name in enumerate(bad)}
    cells |= {(*BEST, name): 75 + (-1) ** i * WAVE + CHIRP for i, name in enumerate(idle)}
    cells |= {(*BEST, name): 65 + CHIRP for name in bad}
    longer = {factors: [*scores, *scores[:2]] for factors, scores in cells.items()}
    made = make(parse(plan, "long"), longer)
    for factors, scores in {(): 38 + WAVE, ("their positions",): 76 + CHIRP, ("their rate",): 30 + CHIRP}.items():
        made.put(factors, [*scores, *scores[:2]], "repeat")
    study = made.study()
    assert {one.word for one in study.findings if one.comparison.kind == "add"} >= {"not distinguishable", "hurts"}
    _, main, beside = study.answer.split("\n\n")
    sentences = re.split(r"(?<=\.) (?=[A-Z])", main)
    assert len(sentences) <= 6
    assert [one[: one.index(" ")] for one in sentences] == ["What", "What", "On", "Together", "Suspected,", "What"]
    (suspected,) = (one for one in sentences if one.startswith("Suspected"))
    assert (suspected.count(" points ["), suspected.count("and 16 more")) == (4, 1)
    assert sentences[-1].startswith("What hurts: bad 6 (-16.0 points [")  # the worst first
    assert sentences[-1].endswith("and 4 more.")
    assert beside.startswith("For comparison: another (+54.0 points [")
    assert "In the group repeat" in beside
    assert len(f"{main} {beside}".split()) < 230


def test_levels_of_one_subject_are_told_together(make: Callable[..., Made]) -> None:
    answer = make(cells=additions(start=60 + WAVE)).study().answer
    assert ", rank 1 of 4), less so wide positions; it closes" in answer
    assert answer.count("wide positions") == 1


def test_nothing_helps(make: Callable[..., Made]) -> None:
    flat = additions(sin=40 - WAVE, rate=40 + 2 * WAVE)
    study = make(cells=flat).study()
    assert "No factor surely helps." in study.answer
    assert study.best is None
    assert any("no factor surely helps" in note for note in study.notes)
    assert strongest(study.plan, make(cells=flat).results) == []


def test_a_comparator_stands_beside(make: Callable[..., Made]) -> None:
    other = '\n[factors."another"]\ncomparator = true\nset = { "model.width" = 64 }\n'
    cells = additions() | {("another",): 94 + WAVE}
    study = make(plan_of(FACTORS + other), cells).study()
    found = find(study, "another")
    assert found.effect is not None
    assert found.effect.p_holm == found.effect.p  # a family of its own
    assert find(study, "sinusoidal").effect.p_holm == 4 * 2 / 1024  # pyright: ignore[reportOptionalMemberAccess]
    assert "another" not in {rank.factor for rank in study.ranks}
    assert "For comparison: another (+54.0" in study.answer
    assert study.best is None or "another" not in study.best.cell.factors


def group_study(make: Callable[..., Made], rate: Scores) -> Study:
    made = make(plan_of(FACTORS + REPEAT), additions(rate=rate))
    made.put((), 38 + WAVE, "repeat")
    made.put(("their positions",), 76 + CHIRP, "repeat")
    made.put(("their rate",), 30 + CHIRP, "repeat")
    return made.study()


def test_a_group_has_its_own_baseline_measure_and_family(make: Callable[..., Made]) -> None:
    study = group_study(make, 50 + CHIRP)
    found = find(study, "their positions", group="repeat")
    assert found.effect is not None
    assert found.effect.mean == pytest.approx(38)
    assert found.effect.p_holm == 2 * 2 / 1024
    assert found.word == "explains"
    assert find(study, "their rate", group="repeat").word == "hurts"
    assert {rank.factor for rank in study.ranks} == {"sinusoidal", "wide positions", "rate 0.1", "batch 16"}
    assert "In the group repeat (as it was done before) the order of causes is their positions (+38.0" in study.answer
    assert "their rate does not help" in study.answer


def test_whether_the_groups_order_survives(make: Callable[..., Made]) -> None:
    kept, lost, even = (group_study(make, score + sign * CHIRP) for score, sign in ((50, 1), (85, 1), (70, -1)))
    assert "sinusoidal comes first as well: the order survives" in kept.answer
    assert "rate 0.1 comes first, before sinusoidal: the order does not survive" in lost.answer
    assert "It saw no gain from rate; among all values tried there is one: rate 0.1 (+45.0" in lost.answer
    assert "the first place is open" in even.answer


def test_what_counts_is_the_last_epoch_of_a_run_that_went_well(make: Callable[..., Made]) -> None:
    made = make()
    for seed in made.plan.seeds:
        failed = "not finite in epoch 4" if seed == 3 else ""
        made.results.add([Record(cell(made.plan, ()).key, seed, failed, validation=(0.2, 0.9, 0.5), test=0.3)])
    baseline = made.study().baseline
    assert baseline.scores.tolist() == [50.0] * 9
    assert (baseline.mean, baseline.spread, baseline.low, baseline.high) == (50.0, 0.0, 50.0, 50.0)


def test_time_to_target(make: Callable[..., Made]) -> None:
    """Curves are 50, 90 and 100 % of the last value, after epochs 1, 2 and 3."""
    study = make(plan_of(target=0.45), additions()).study()
    assert find(study, "sinusoidal").to_target == (None, 2.0)
    assert find(study, "rate 0.1").to_target == (None, 2.5)  # 45 % in epoch 2 by half of the seeds, the rest in 3
    assert find(make(plan_of(target=None), additions()).study(), "sinusoidal").to_target == (None, None)


def test_validation_that_is_not_there_is_a_mistake(make: Callable[..., Made]) -> None:
    plan = parse(HEAD.format(target="").replace("0.1 }}", "0.0 }}").replace("= 0.1 }", "= 0.0 }") + FACTORS, "blind")
    with pytest.raises(SettingError, match=r"blind: .*nothing is held out.*measure = 'test'"):
        make(plan).study()


def test_an_empty_study_says_so(make: Callable[..., Made]) -> None:
    study = make().study()
    assert {one.word for one in study.findings} == {"not decided"}
    assert (study.cells, study.ranks, study.best, study.seconds) == ((), (), None, 0.0)
    assert "Not decided: sinusoidal, wide positions, rate 0.1 and batch 16." in study.answer


def test_what_was_spent_and_skipped(make: Callable[..., Made]) -> None:
    made = make(cells=additions())
    study = analyse(made.plan, made.results, ["sinusoidal + rate 0.1: 10 seeds"], "glassformer investigate x")
    assert (study.seconds, study.machines, study.command) == (100.0, {"a desk": 50}, "glassformer investigate x")
    assert "Skipped: sinusoidal + rate 0.1: 10 seeds" in study.notes
    assert study.cells[0].cell.title == "baseline"
    assert len(study.cells) == 5


def test_seeds_that_the_plan_does_not_name_do_not_count(make: Callable[..., Made]) -> None:
    made = make(cells=additions())
    made.results.add([Record(cell(made.plan, ()).key, 99, validation=(0.99,), test=0.99)])
    assert made.study().baseline.mean == pytest.approx(40)


def test_a_large_family_is_told_what_its_seeds_may_miss(make: Callable[..., Made]) -> None:
    many = "".join(f'\n[factors."rate {i}"]\nset = {{ "optimiser.lr" = {0.2 + i / 100} }}\n' for i in range(12))
    cells = additions() | {(f"rate {i}",): 40 + (-1) ** i * CHIRP + i / 100 for i in range(12)}
    notes = make(plan_of(FACTORS + many), cells).study().notes
    assert any("With 10 seeds, one real effect of 1.5 standard deviations among 16 factors" in note for note in notes)
    assert not any("With 10 seeds" in note for note in make(cells=additions()).study().notes)
