"""From records to verdicts: studies written by hand, nothing trained."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.special import logit

from glassformer.errors import SettingError
from glassformer.lab.analysis import analyse, best_factors, comparisons, strongest, undecided
from glassformer.lab.cells import cell
from glassformer.lab.claims import RULES, said
from glassformer.lab.looks import looks, unplanned
from glassformer.lab.metric import LOSS
from glassformer.lab.plan import MAIN, Plan, parse
from glassformer.lab.record import Record, Results
from glassformer.lab.report.markdown import markdown
from glassformer.lab.report.page import page
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
        "batch 16": "no effect",  # surely within a point
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
    assert effect.high == pytest.approx(expected.high)
    assert expected.low - 0.05 < effect.low < expected.low  # they are a little skewed
    assert effect.differences == pytest.approx(10 + CHIRP - WAVE)
    assert (effect.p, effect.p_holm) == (2 / 1024, 4 * 2 / 1024)
    said = find(make(cells=additions()).study(), "rate 0.1").evidence
    start = f"+10.0 points [{effect.low:.1f}, {effect.high:.1f}], 10 of 10 seeds up, p = 0.008 after Holm; "
    assert said == f"{start}22 % [21, 23] of the gap to the target of 85 %"


def test_half_of_the_gap_is_what_explains(make: Callable[..., Made]) -> None:
    """By the interval of the share: 10 of 18 points surely are, 10 of 20 may be less."""
    for target, word in ((0.58, "explains"), (0.6, "contributes"), (0.61, "contributes"), (0.3, "contributes")):
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
    """Eight seeds up, two down by less: p = 0.02, four times that after Holm."""
    batch = 40 + WAVE + 3 * np.array([1.2, 0.9, 0.8, 1.1, -0.3, 0.2, 0.6, -0.4, 0.5, 0.7])
    flat = additions(batch=batch, sin=40 + 2 * WAVE, rate=40 + WAVE + CHIRP, start=40 - WAVE)
    found = find(make(cells=flat).study(), "batch 16")
    assert found.effect is not None
    assert found.effect.low > 0
    assert found.effect.p < 0.05 < found.effect.p_holm
    assert found.word == "not decided"
    assert "one of 4 tried it may be chance" in found.evidence


def test_sure_of_the_direction_but_not_of_the_size(make: Callable[..., Made]) -> None:
    """Nine seeds up alike, one as far down: the test is sure, the interval, which sees the skewness, is not."""
    plan = plan_of(FACTORS.partition('[factors."batch 16"]')[0].partition('[factors."wide positions"]')[0])
    up = np.array([2, 2.1, 1.9, 2.2, 2, 2, 1.8, -2, 2.1, 1.9])
    found = find(make(plan, {(): 40 + WAVE, ("sinusoidal",): 40 + WAVE + up}).study(), "sinusoidal")
    assert found.effect is not None
    assert found.effect.p_flip < 0.05
    assert found.effect.low < 0 < found.effect.mean
    assert found.word == "not decided"
    one_seed = np.array([0.1] * 9 + [30.0])  # nine hardly up, one by far: the exact test alone would be sure
    found = find(make(cells=additions(batch=40 + WAVE + one_seed)).study(), "batch 16")
    assert found.effect is not None
    assert found.effect.p_flip == 2 / 1024
    assert found.effect.p > 0.3
    assert found.word == "not decided"
    assert found.effect.typical is not None
    assert found.effect.typical.value == pytest.approx(0.1)


@pytest.mark.parametrize(("failed", "word"), [(3, "not decided"), (4, "diverges")])
def test_failed_runs(make: Callable[..., Made], failed: int, word: str) -> None:
    rate = ["not finite in epoch 2"] * failed + list(50 + CHIRP[failed:])
    study = make(cells=additions(rate=rate)).study()
    found = find(study, "rate 0.1")
    assert (found.word, found.failures) == (word, failed)
    assert found.effect is not None
    survived = (10 + CHIRP - WAVE)[failed:].tolist()
    assert found.effect.differences == pytest.approx([*(10 - 40 - WAVE[:failed]), *survived])  # chance is 10 %
    assert f"{failed} of 10 seeds failed [{'7, 65' if failed == 3 else '12, 74'} %]: not finite" in found.evidence
    assert "the middle half of the seeds" in found.evidence
    assert found.failing is not None
    assert (found.failing.with_, found.failing.without, found.failing.of) == (failed, 0, 10)
    assert found.failing.p == stats.binomtest(failed, failed).pvalue
    assert any(f"{failed} of 50 runs gave no usable model" in warning for warning in study.warnings)
    assert any(note.startswith(f"rate 0.1: {failed} of 10 runs failed") for note in study.notes)
    assert ("rate 0.1" in {rank.factor for rank in study.ranks}) == (word != "diverges")


def test_a_seed_that_collapsed_is_told(make: Callable[..., Made]) -> None:
    """10.5 % of ten classes: a run with a number, and no better than always the same answer."""
    rate = [10.5, *(50 + CHIRP[1:])]
    study = make(cells=additions(rate=rate)).study()
    found = find(study, "rate 0.1")
    assert (found.failures, found.word) == (1, "not decided")
    assert found.effect is not None
    assert found.effect.differences[0] == pytest.approx(10.5 - 40.5)
    assert "1 of 10 seeds failed [0, 45 %]: no better than chance" in found.evidence
    assert "Runs that gave no usable model: rate 0.1 (1 of 10 seeds failed [0, 45 %])" in study.answer


def test_a_baseline_that_diverges_can_be_cured(make: Callable[..., Made]) -> None:
    """All of its runs fail; with the rate none does."""
    cells = additions(sin=["not finite in epoch 1"] * 10, start=["not finite in epoch 1"] * 10)
    cells[()] = ["not finite in epoch 1"] * 10
    cells[("batch 16",)] = ["out of memory"] * 10
    study = make(cells=cells).study()
    found = find(study, "rate 0.1")
    assert found.word == "explains"
    assert found.effect is not None
    assert found.effect.mean == pytest.approx(40)  # from chance
    assert found.failing is not None
    assert (found.failing.without, found.failing.p, found.failing.p_holm) == (10, 2 / 1024, 4 * 2 / 1024)
    assert "it fails less often, p = 0.008 (McNemar, after Holm)" in found.evidence
    assert "What explains it: rate 0.1 (+40.0 points" in study.answer
    assert "baseline (10 of 10 seeds failed [69, 100 %])" in study.answer
    assert find(study, "batch 16").word == "diverges"


def test_a_baseline_seed_that_failed_counts_as_chance(make: Callable[..., Made]) -> None:
    cells = additions()
    cells[()] = ["out of memory", *(40 + WAVE[1:])]
    study = make(cells=cells).study()
    found = find(study, "sinusoidal")
    assert found.effect is not None
    assert found.effect.differences[0] == pytest.approx(70 + CHIRP[0] - 10)
    assert found.word == "explains"
    assert "without it 1 seed failed: out of memory" in found.evidence
    assert study.baseline.scores.tolist() == pytest.approx([10.0, *(40 + WAVE[1:])])
    assert study.baseline.failing is not None
    assert len(study.baseline.records) == 10


def test_all_runs_failed(make: Callable[..., Made]) -> None:
    study = make(cells=additions(rate=["not finite in epoch 1"] * 10)).study()
    assert find(study, "rate 0.1").word == "diverges"
    assert "; training fails with rate 0.1 (10 of 10 seeds failed [69, 100 %])." in study.answer
    broken = next(one for one in study.cells if one.cell.factors == ("rate 0.1",))
    assert broken.scores.tolist() == [10.0] * 10


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
    assert (alone.word, later.word) == ("no effect", "contributes")
    assert later.effect is not None
    expected = stats.ttest_rel(87 + CHIRP, 75 + WAVE).confidence_interval(0.95)
    assert (later.effect.low, later.effect.high) == pytest.approx((expected.low, expected.high), abs=0.05)
    assert later.effect.p_holm == later.effect.p == 2 / 1024  # a family of its own
    assert best_factors(made.plan, made.results) == TOP
    assert study.best is not None
    assert study.best.cell.factors == TOP
    assert (
        f"On top of sinusoidal + rate 0.1, batch 16 (+12.0 points [{later.effect.low:.1f}, {later.effect.high:.1f}]) "
        "contributes; alone: no effect."
    ) in study.answer
    assert study.answer.count("batch 16") == 2  # there and in the best, and not among what was suspected in vain
    assert [rank.factor for rank in study.ranks] == ["sinusoidal", "rate 0.1", "batch 16", "wide positions"]
    removed = [one for one in study.findings if one.comparison.kind == "remove"]
    assert [one.comparison.factors for one in removed] == [(name,) for name in TOP]
    assert find(study, "batch 16", kind="remove").effect == later.effect  # the same two cells


@pytest.mark.parametrize(
    ("top", "batch", "said"),
    [
        (97 + CHIRP, 40 + 2 * CHIRP, "batch 16 (+22.0 points [21.5, 22.4]) contributes; alone: no effect"),
        (98.5 + CHIRP, 35 + CHIRP, "batch 16 (+23.5 points [23.0, 23.9]) closes at least half of the gap; "
                                   "alone: hurts"),
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


def test_what_surely_helps_by_less_than_the_margin_is_not_combined(make: Callable[..., Made]) -> None:
    made = make(cells=with_best(75 + CHIRP, batch=40.3 + WAVE + CHIRP / 10))
    study = made.study()
    assert find(study, "batch 16").word == "contributes"
    assert study.best is not None
    assert study.best.cell.factors == BEST


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
        (77.8, "not decided", ""),
    ],
)
def test_a_pair_is_the_interaction(make: Callable[..., Made], both: float, word: str, said: str) -> None:
    made = make(cells=additions())
    """In log-odds: 70 and 50 % from 40 % add up to 77.8 %."""
    made.put(("sinusoidal", "rate 0.1"), both + 2 * CHIRP - WAVE)
    study = made.study()
    found = find(study, "sinusoidal", "rate 0.1", kind="pair")
    assert found.effect is not None
    ab, a, b, base = (logit(x / 100) for x in (both + 2 * CHIRP - WAVE, 70 + CHIRP, 50 + CHIRP, 40 + WAVE))
    assert found.effect.differences == pytest.approx(ab - a - b + base)
    assert (found.unit, found.left_out) == ("log-odds", ())
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
    assert (alone.word, among.word) == ("contributes", "no effect")
    assert among.effect is not None
    assert among.effect.differences == pytest.approx(WAVE - CHIRP)
    assert "Within that combination rate 0.1 (+0.0 points" in study.answer
    assert "is worth less than 1 point." in study.answer
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
    assert (
        short == "In short, what explains it: positions; what contributes: rate; what changes less than 1 point: batch."
    )
    first, rest = whole.split("it closes at least half of the 45.0 points to the target by itself.")
    assert first.startswith("What explains it: sinusoidal (+30.0 points [")
    assert "rank 1 of 4" in first
    assert "What contributes: rate 0.1 (+10.0 points [" in rest
    assert "The baseline has 40.0 % on validation (10 seeds), 45.0 points below the target." in rest
    assert "Suspected, and surely worth less than 1 point: batch 16 (" in rest
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
    assert {one.word for one in study.findings if one.comparison.kind == "add"} >= {"not decided", "hurts"}
    _, main, beside = study.answer.split("\n\n")
    sentences = re.split(r"(?<=\.) (?=[A-Z])", main)
    assert len(sentences) <= 8
    assert [one[: one.index(" ")] for one in sentences] == [
        *("What", "What", "On", "Together", "Suspected,", "What", "Worth")
    ]
    (suspected,) = (one for one in sentences if one.startswith("Suspected"))
    assert suspected.count(" points [") == 4
    assert re.search(r"\) and \d+ more; not decided: idle", suspected)
    assert sentences[-2].startswith("What hurts: bad 6 (-16.0 points [")  # the worst first
    assert sentences[-2].endswith("and 4 more.")
    assert beside.startswith("For comparison: another (+54.0 points [")
    assert "In the group repeat" in beside
    assert len(f"{main} {beside}".split()) < 300


def test_every_sentence_carries_what_it_rests_on(make: Callable[..., Made]) -> None:
    study = make(cells=with_best(90 + CHIRP, 91 + WAVE)).study()
    assert study.answer == "\n\n".join(
        " ".join(one.text for one in study.sentences if one.paragraph == i) for i in (0, 1)
    )
    assert all(one.claims for one in study.sentences)
    assert {claim.kind for one in study.sentences for claim in one.claims} <= set(RULES)
    first = study.sentences[1]
    assert first.text.startswith("What explains it: sinusoidal")
    (claim,) = first.claims
    found = find(study, "sinusoidal")
    assert found.effect is not None
    assert found.share is not None
    assert (claim.kind, claim.factors) == ("explains", ("sinusoidal",))
    assert claim.numbers["p_holm"] == found.effect.p_holm
    assert claim.numbers["share_low"] == found.share.low > 0.5
    assert "sinusoidal: explains (p after Holm ≤ 0.05, the interval above 0" in said(claim)


def test_no_effect_takes_a_test_of_its_own(make: Callable[..., Made]) -> None:
    """An interval around 0 that reaches beyond a point says nothing."""
    wide = 40 + WAVE + 4 * np.array([0.5, -0.4, 0.3, -0.5, 0.4, -0.3, 0.2, -0.3, 0.5, -0.4])
    study = make(cells=additions(batch=wide)).study()
    found = find(study, "batch 16")
    assert found.effect is not None
    assert found.effect.low < 0 < found.effect.high
    assert found.effect.p_same > 0.05
    assert found.word == "not decided"
    assert "neither an effect is shown nor that it is smaller than 1 points" in found.evidence
    assert "Not decided: batch 16." in study.answer
    assert "no effect" not in study.answer


def test_levels_are_judged_by_seeds_that_did_not_choose_them(make: Callable[..., Made]) -> None:
    """Without the first fold the other start would have been the better one: that fold judges no pair."""
    lucky = np.zeros(10)
    lucky[::3] = 3.0
    cells = additions(sin=69 + CHIRP + lucky, start=70 + CHIRP)
    made = make(cells=cells)
    made.put(("sinusoidal", "rate 0.1"), 78 + CHIRP)
    found = find(made.study(), "sinusoidal", "rate 0.1", kind="pair")
    assert found.left_out == (1, 4, 7, 10)
    assert found.effect is not None
    assert len(found.effect.differences) == 6
    assert "4 seeds had a part in choosing these levels and are left out" in found.evidence


def test_a_study_whose_differences_are_skewed_warns(make: Callable[..., Made]) -> None:
    tail = np.array([0.1, 0.2, 0.1, 0.3, 0.2, 0.1, 0.4, 0.2, 6.0, 0.3])
    skewed = additions(sin=50 + tail, start=45 + 2 * tail, rate=42 - tail, batch=40 + tail[::-1])
    skewed[()] = np.full(10, 40.0)
    (warning,) = make(cells=skewed).study().warnings
    assert warning.startswith("The differences of the factors are skewed (3.1 in the mean; from 0.8 on Student's")
    assert make(cells=additions()).study().warnings == ()


def test_a_look_in_between_is_held_to_its_level(make: Callable[..., Made]) -> None:
    made = make(cells=additions())
    first, last = looks([10, 20])
    early = analyse(made.plan, made.results, look=first)
    effect, usual = find(early, "rate 0.1").effect, find(made.study(), "rate 0.1").effect
    assert effect is not None
    assert usual is not None
    assert effect.p_holm == pytest.approx(usual.p_holm * 0.05 / first.level)
    assert effect.low < usual.low
    assert find(early, "rate 0.1").word == "not decided"
    assert "This is look 1, at 10 seeds: p is held to 0.00557 of the 5 %" in early.warnings[0]
    assert not made.study().warnings
    assert last.last
    grown = analyse(made.plan, made.results, look=unplanned([8], 10))
    assert "have a false alarm in at most 7.5 % of studies" in grown.warnings[0]


def test_a_metric_of_which_less_is_better(make: Callable[..., Made]) -> None:
    """Losses: the baseline at 1.2, one factor at 0.5, one at 1.6, one at 1.2; good enough is 0.6."""
    plan = replace(plan_of(target=None), metric=LOSS, target=0.6)
    made = make(plan)
    means = {(): 1.2, ("sinusoidal",): 0.5, ("wide positions",): 1.6, ("rate 0.1",): 1.15, ("batch 16",): 1.2}
    for i, (factors, mean) in enumerate(means.items()):
        noise = 0.01 * np.roll(WAVE, i)
        key = cell(plan, factors).key
        made.results.add(
            Record(key, seed, scores={"loss": (2.0, mean + one)}, test_scores={"loss": mean + one}, outcome="ok")
            for seed, one in zip(plan.seeds, noise, strict=True)
        )
    study = made.study()
    words = {one.comparison.factors[0]: one.word for one in study.findings if one.comparison.kind == "add"}
    assert words == {
        "sinusoidal": "explains",
        "wide positions": "hurts",
        "rate 0.1": "contributes",
        "batch 16": "no effect",
    }
    effect = find(study, "sinusoidal").effect
    assert effect is not None
    assert effect.mean == pytest.approx(0.7)  # a gain
    assert "What explains it: sinusoidal (+0.70" in study.answer
    assert "at least half of the 0.60 nats to the target" in study.answer
    assert "The baseline has 1.200 on validation (10 seeds), 0.60 nats above the target." in study.answer
    assert [rank.factor for rank in study.ranks] == ["sinusoidal", "rate 0.1", "batch 16", "wide positions"]
    html = page(study)
    assert "nats of validation loss, less is better, against the baseline" in html
    assert "epoch; validation loss" in html
    assert " %" not in markdown(study).partition("## Every cell")[2].partition("##")[0].replace("95 %", "")


def test_levels_of_one_subject_are_told_together(make: Callable[..., Made]) -> None:
    answer = make(cells=additions(start=60 + WAVE)).study().answer
    assert ", also" not in answer  # 20 of 45 points are not surely half
    assert answer.count("wide positions") == 0
    answer = make(cells=additions(start=66 + WAVE)).study().answer
    assert ", rank 1 of 4), also wide positions; it closes" in answer


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
    assert "In the group repeat (as it was done before) what helps is their positions (+38.0" in study.answer
    assert "; their rate hurts." in study.answer


def test_whether_the_groups_order_survives(make: Callable[..., Made]) -> None:
    kept, lost, even = (group_study(make, score + sign * CHIRP) for score, sign in ((50, 1), (85, 1), (70, -1)))
    assert "sinusoidal comes first as well: the order survives" in kept.answer
    assert "rate 0.1 comes first, before sinusoidal: the order does not survive" in lost.answer
    assert "It found no sure gain from rate; among all values tried there is one: rate 0.1 (+45.0" in lost.answer
    assert "the first place is open" in even.answer


def test_what_counts_is_the_last_epoch_of_a_run_that_went_well(make: Callable[..., Made]) -> None:
    made = make()
    for seed in made.plan.seeds:
        failed = "not finite in epoch 4" if seed == 3 else ""
        made.results.add([Record(cell(made.plan, ()).key, seed, failed, validation=(0.2, 0.9, 0.5), test=0.3)])
    baseline = made.study().baseline
    assert baseline.scores.tolist() == [50.0, 50.0, 10.0, *[50.0] * 7]  # what failed counts as chance
    assert baseline.mean == 46.0


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
