"""What is run next, with a clock and costs made up."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from glassformer.lab import run
from glassformer.lab.asked import Job, Pair
from glassformer.lab.cells import Cell, cell
from glassformer.lab.record import Record, Results
from glassformer.lab.schedule import Schedule, skipped
from glassformer.train.recipe import Recipe

from .small import small_plan

FACTORS = "".join(
    f'[factors.{name}]\nsubject = "{name}"\nset = {{ "training.{setting}" = {value} }}\n'
    for name, setting, value in (("cheap", "batch", 20), ("dear", "epochs", 9), ("dearest", "epochs", 20))
)
SECONDS = {"baseline": 2.0, "cheap": 1.0, "dear": 9.0, "dearest": 20.0}


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Made:
    """A schedule whose runs take what SECONDS says."""

    def __init__(self, folder: Path, budget: float | None) -> None:
        self.plan = small_plan(folder, FACTORS)
        self.cells = [cell(self.plan, names) for names in ((), ("cheap",), ("dear",), ("dearest",))]
        self.results, self.clock = Results(folder / "study"), Clock()
        self.schedule = Schedule(self.results, budget, self.clock)
        self.ran: list[tuple[str, int]] = []

    def asked(self, seeds: Sequence[int] = range(1, 8)) -> list[Pair]:
        """Each cell against the baseline."""
        base = self.cells[0]
        return [
            tuple({one.key: Job(one, seed) for one in (base, other)}.values()) for seed in seeds for other in self.cells
        ]

    def run_all(self) -> list[tuple[str, int]]:
        while (job := self.schedule.next(self.asked())) is not None:
            self.finish(job.cell, job.seed)
        return self.ran

    def finish(self, one: Cell, seed: int) -> None:
        seconds = SECONDS[one.title]
        self.clock.now += seconds
        epochs = one.recipe.training.epochs
        self.results.add(
            [Record(one.key, seed, loss=(1.0,) * epochs, steps=10 * epochs, seconds=seconds, parameters=5)]
        )
        self.ran.append((one.title, seed))


def test_without_a_budget_everything_is_run_once(tmp_path: Path) -> None:
    made = Made(tmp_path, None)
    ran = made.run_all()
    assert len(ran) == len(set(ran)) == 4 * 7
    assert skipped(made.schedule, made.asked()) == {}


def test_a_run_is_handed_out_once_and_what_others_did_is_not(tmp_path: Path) -> None:
    made = Made(tmp_path, None)
    first = made.schedule.next(made.asked([1, 2]))
    second = made.schedule.next(made.asked([1, 2]))
    assert first is not None
    assert second is not None
    assert first.place != second.place
    others = [Record(one.key, seed) for one in made.cells for seed in (1, 2)]
    Results(made.results.path.parent).add([one for one in others if one.place not in (first.place, second.place)])
    assert made.schedule.next(made.asked([1, 2])) is None


def test_three_seeds_everywhere_come_first_and_cheap_cells_before_dear_ones(tmp_path: Path) -> None:
    made = Made(tmp_path, 3 * sum(SECONDS.values()) + 0.5)
    ran = made.run_all()
    assert Counter(title for title, _ in ran) == dict.fromkeys(SECONDS, 3)
    known = [run for run in ran[4:] if run[0] != "baseline"]  # before, nobody knew what things cost
    assert [title for title, _ in known] == sorted((title for title, _ in known), key=lambda title: SECONDS[title])
    assert skipped(made.schedule, made.asked()) == dict.fromkeys(SECONDS, 4)


@pytest.mark.parametrize("budget", [8.0, 20.0, 31.0, 50.0, 77.0])
def test_a_run_is_never_left_without_its_partner(budget: float, tmp_path: Path) -> None:
    made = Made(tmp_path, budget)
    ran = set(made.run_all())
    assert ran
    assert [run for run in ran if ("baseline", run[1]) not in ran] == []
    lonely = {seed for title, seed in ran if title == "baseline"} - {seed for title, seed in ran if title != "baseline"}
    assert len(lonely) <= 2  # while nobody knew what the partner would cost


def test_then_come_cells_that_are_undecided(tmp_path: Path) -> None:
    made = Made(tmp_path, 3 * sum(SECONDS.values()) + 40)
    made.schedule.undecided = lambda: {made.cells[0].key, made.cells[2].key}
    more = Counter(title for title, _ in made.run_all()[12:])
    # 4 seeds of the baseline (8 s), 3 of dear (27 s), then what the rest of 5 s is enough for: cheap ones
    assert more == {"baseline": 4, "dear": 3, "cheap": 4}


def test_the_budget_is_kept(tmp_path: Path) -> None:
    for budget in (7.0, 33.0, 120.0):
        (tmp_path / str(budget)).mkdir()
        made = Made(tmp_path / str(budget), budget)
        made.run_all()
        assert budget - SECONDS["dearest"] <= made.clock.now - 100 <= budget
        left = skipped(made.schedule, made.asked())
        assert sum(left.values()) == 28 - len(made.ran)


def test_what_a_cell_costs_is_guessed_before_and_known_after(tmp_path: Path) -> None:
    made = Made(tmp_path, 100)
    base, cheap, dear, _ = made.cells
    assert made.schedule.cost(base) == 0
    made.finish(base, 1)
    assert made.schedule.cost(base) == made.schedule.cost(cheap) == 2
    assert made.schedule.cost(dear) == pytest.approx(9)  # 2 s for 2 epochs
    made.finish(cheap, 1)
    assert made.schedule.cost(cheap) == 1


def test_a_study_on_a_budget_says_what_it_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = small_plan(tmp_path, FACTORS)
    titles = {one.key: one.title for one in (cell(plan, names) for names in ((), ("cheap",), ("dear",), ("dearest",)))}
    clock = Clock()

    def fake(key: str, recipe: Recipe, *_: object) -> Record:
        clock.now += SECONDS[titles[key]]
        curve = (0.4 + 0.01 * recipe.training.seed,) * recipe.training.epochs
        return Record(key, recipe.training.seed, "", curve, curve, 0.5, 20, SECONDS[titles[key]], 50, outcome="ok")

    monkeypatch.setattr(run, "train_one", fake)
    monkeypatch.setattr(run, "Schedule", partial(Schedule, clock=clock))
    study = run.investigate(plan, tmp_path / "study", jobs=1, budget=3 * sum(SECONDS.values()) + 0.5)
    left = [note for note in study.notes if note.startswith("Skipped: ")]
    assert left == [f"Skipped: {title}: 4 seeds" for title in SECONDS]
    told: list[Any] = [finding.word for finding in study.findings]
    assert told == ["not decided"] * 3
    whole = run.investigate(plan, tmp_path / "study", jobs=1)
    assert not [note for note in whole.notes if note.startswith("Skipped: ")]
    assert len(whole.baseline.records) == 7
