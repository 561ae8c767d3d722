"""Data for which an earlier release wrote a sentence that its own numbers do not carry."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from glassformer.lab.analysis import analyse
from glassformer.lab.asked import look_of
from glassformer.lab.looks import ONLY, looks
from glassformer.lab.looks_log import LookedAt, add_look, read_looks
from glassformer.lab.plan import Arm
from glassformer.lab.record import Record, Results
from glassformer.lab.report.markdown import markdown
from glassformer.lab.report.terminal import summary

from .test_analysis import CHIRP, FACTORS, WAVE, Made, additions, find, plan_of

WIDE = np.array([24.0, -22.0, 18.0, -20.0, 21.0, -19.0, 17.0, -21.0, 23.0, -21.0])  # mean 0, far apart
TUNED = """
[groups.tuned]
tune = { "optimiser.lr" = [0.01, 0.2] }

[factors."tuned: sinusoidal"]
group = "tuned"
set = { "model.start" = "sinusoidal" }

[factors."tuned: batch 16"]
group = "tuned"
set = { "training.batch" = 16 }

[factors."tuned: zero"]
group = "tuned"
set = { "model.start" = "zero" }
"""


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Made]:
    def made(plan: object = None, **changed: object) -> Made:
        study = Made(plan or plan_of(), Results(tmp_path / str(len(list(tmp_path.iterdir())))))  # type: ignore[arg-type]
        for factors, scores in additions(**changed).items():  # type: ignore[arg-type]
            study.put(factors, scores)
        return study

    return made


def test_a_level_that_explains_stands_for_its_subject(make: Callable[..., Made]) -> None:
    """Another one has the larger mean, and is not shown to close half of the gap."""
    study = make(sin=68 + 1.3 * WIDE, start=66 + CHIRP, rate=40 + WAVE).study()
    assert (find(study, "sinusoidal").word, find(study, "wide positions").word) == ("contributes", "explains")
    assert "No single factor" not in study.answer
    assert "what explains it: positions" in study.answer
    assert "What explains it: wide positions (+26.0" in study.answer


def test_the_largest_mean_is_not_ascribed_to_a_factor_that_has_it_not(make: Callable[..., Made]) -> None:
    """What has the largest mean is not sure: half of its seeds are far down."""
    repeat = (
        '[groups.repeat]\nset = { "training.epochs" = 3 }\n[factors."their rate"]\ngroup = "repeat"\nsubject = "rate"\n'
    )
    made = make(plan_of(FACTORS + repeat + 'set = { "optimiser.lr" = 0.1 }\n'), batch=78 + 2.4 * WIDE)
    made.put((), 38 + WAVE, "repeat")
    made.put(("their rate",), 60 + CHIRP, "repeat")
    study = made.study()
    assert find(study, "batch 16").word == "not decided"
    assert study.ranks[0].factor == "batch 16"
    assert "what helps is their rate" in study.answer
    assert "largest mean" not in study.answer
    assert "comes first" not in study.answer


def test_on_top_is_not_called_undecided(make: Callable[..., Made]) -> None:
    made = make()
    first = ("sinusoidal", "rate 0.1")
    made.put(first, 80 + WAVE)
    made.put((*first, "batch 16"), 84 + CHIRP)
    answer = made.study().answer
    assert "what contributes on top of that: batch" in answer
    assert "not decided" not in answer.split(".")[0]


def test_a_baseline_near_the_target_is_neither_below_nor_above_it(make: Callable[..., Made]) -> None:
    study = make(plan_of(target=0.4), sin=40 - WAVE, rate=40 + 2 * WAVE, start=40 + CHIRP).study()
    said = "The baseline has 40.0 % on validation (10 seeds): about the target of 40 %, which lies in the interval."
    assert said in study.answer
    assert "-0.0 points" not in study.answer


def test_how_failed_runs_count_is_told_as_it_is_done(make: Callable[..., Made]) -> None:
    bad = [70.0] * 9 + ["not finite in epoch 2"]
    both = [70.0] * 8 + [9.0, "not finite in epoch 2"]
    ended = [70.0] * 9 + [9.0]
    for scores, said in ((bad, "; they count as 10.0 %."), (ended, "; they count as they ended.")):
        assert said in make(sin=scores).study().answer
    assert "; they count as they ended, without a number as 10.0 %." in make(sin=both).study().answer


def test_ranks_shares_and_labels_are_held_to_the_level_of_the_look(make: Callable[..., Made]) -> None:
    made = make(rate=50.9 + CHIRP, start=50 + WAVE)
    strict = replace(ONLY, level=1e-5, number=2, spent=0.05)
    usual, held = made.study(), analyse(made.plan, made.results, look=strict)
    shares = [find(one, "sinusoidal").share for one in (usual, held)]
    assert shares[0] is not None
    assert shares[1] is not None
    assert shares[1].low < shares[0].low < shares[0].high < shares[1].high
    ties = [{one.factor: one.tied for one in study.ranks}["rate 0.1"] for study in (usual, held)]
    assert ties[0] == ()
    assert "wide positions" in ties[1]
    assert "97.5 % interval" in summary(replace(held, look=replace(strict, level=0.025)))
    assert "| 97.5 % |" in markdown(replace(held, look=replace(strict, level=0.025)))
    assert "| 95 % |" in markdown(usual)


def test_tuned_arms_are_compared_with_what_they_do_untuned(make: Callable[..., Made]) -> None:
    made = make(plan_of(FACTORS + TUNED))
    for names in ((), ("tuned: sinusoidal",), ("tuned: batch 16",), ("tuned: zero",)):
        made.plan.arms[names, "tuned"] = Arm({"optimiser.lr": 0.2}, "optimiser.lr = 0.2: best of 2")
    made.put((), 60 + WAVE, "tuned")
    made.put(("tuned: sinusoidal",), 60 + CHIRP, "tuned")
    made.put(("tuned: batch 16",), 70 + CHIRP, "tuned")
    made.put(("tuned: zero",), 58 + CHIRP, "tuned")
    study = made.study()
    assert (
        "Each at its own best optimiser.lr: sinusoidal no longer surely helps; batch 16 surely helps, which untuned is "
        "not shown; wide positions does not surely help either way."
    ) in study.answer
    assert "It found no sure gain" not in study.answer
    settled, elsewhere = study.notes[-2:]
    assert settled.startswith("Settled for each arm of the group tuned before it was compared: baseline (optimiser.lr")
    assert elsewhere.startswith("Each factor is tried elsewhere with all other settings as they are in its reference")


def test_looks_that_were_planned_after_a_report_do_not_take_it_back(make: Callable[..., Made]) -> None:
    made = make(sin=40 - WAVE, start=40 + CHIRP, rate=40 + 2 * WAVE)
    folder = made.results.path.parent
    plan = replace(made.plan, seeds=(*made.plan.seeds, 11, 12), looks=(10, 12))
    grown = Made(plan, made.results)
    for factors in additions():
        grown.put(factors, np.full(12, 50.0))
    planned = looks((10, 12))
    assert look_of(plan, Results(folder)) == planned[-1]
    add_look(folder, LookedAt(10, 50, level=planned[0].level))
    assert look_of(plan, Results(folder)) == planned[-1]
    add_look(folder, LookedAt(10, 50))  # as it was reported on, without looks: all of the 5 %
    assert len(read_looks(folder)) == 2
    look = look_of(plan, Results(folder))
    assert (look.level, look.spent, look.planned) == (planned[-1].level, pytest.approx(0.05 + planned[-1].level), False)
    (told, *_) = analyse(plan, Results(folder), look=look).warnings
    assert "have a false alarm in at most 6.82 % of studies" in told
    line = (folder / "looks.jsonl").read_text().splitlines()[0]
    (folder / "looks.jsonl").write_text(line.replace(f', "level": {planned[0].level!r}', "") + "\n")
    assert look_of(plan, Results(folder)) == look  # a line of an earlier release does not say what it used


def test_a_run_that_failed_late_is_no_best_rate(tmp_path: Path) -> None:
    from glassformer.lab.arms import mean_of
    from glassformer.lab.cells import cell

    plan = plan_of()
    results, one = Results(tmp_path), cell(plan, ())
    made = {seed: Record(one.key, seed, validation=(0.9,)) for seed in plan.tune_seeds}
    results.add(made.values())
    assert mean_of(plan, results, one) == pytest.approx(90.0)
    results = Results(tmp_path / "failed")
    failed = replace(made[plan.tune_seeds[0]], failed="not finite in epoch 2")  # its first epoch was a good one
    results.add([failed, *(made[seed] for seed in plan.tune_seeds[1:])])
    assert mean_of(plan, results, one) == -np.inf
