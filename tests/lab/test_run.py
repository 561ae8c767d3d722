"""A study as it runs: paired seeds, the test set read once, failures as results, and whatever interrupts it."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from glassformer.errors import CheckpointError, DataError, EngineError, FileError
from glassformer.lab import one_run, run
from glassformer.lab.analysis import analyse
from glassformer.lab.asked import cells_of, open_study
from glassformer.lab.cells import additions, cell, key_by_path, key_of
from glassformer.lab.folder import begin, plan_of
from glassformer.lab.one_run import loaded, train_one
from glassformer.lab.plan import Plan, changed
from glassformer.lab.publish import publish
from glassformer.lab.record import FILE, Record, Results, parse
from glassformer.lab.run import investigate
from glassformer.train.engines import choose
from glassformer.train.loop import split, with_seed
from glassformer.train.presets import preset
from glassformer.train.resolve import resolved
from glassformer.train.rng import make_order

from .small import FACTORS, lines_of, numbers_of, plan_file, small_plan, untimed

ENGINES = ("native", "jax")
DIVERGES = '[factors.far]\nsubject = "rate"\nset = { "optimiser.lr" = 1e30 }\n'


class Watched:
    """An engine that tells what it was given."""

    def __init__(self, engine: Any, seen: dict[str, Any]) -> None:
        self.engine, self.seen = engine, seen
        seen.update(first=None, orders=[], scored=[])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def start(self, params: Any) -> Any:
        self.seen["first"] = jax.tree.map(np.array, params)
        return self.engine.start(params)

    def batches(self, orders: list[np.ndarray], epoch: int) -> Any:
        self.seen["orders"] += [order.tolist() for order in orders]
        return self.engine.batches(orders, epoch)

    def score(self, params: Any, samples: Any) -> Any:
        self.seen["scored"].append(len(samples.labels))
        return self.engine.score(params, samples)


def watched(plan: Plan, factors: tuple[str, ...], seed: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """One run, seen from the engine."""
    seen: dict[str, Any] = {}
    with monkeypatch.context() as patch:
        patch.setattr(one_run, "choose", lambda *given: Watched(choose(*given), seen))
        record = train_one("key", with_seed(plan.recipe(factors), seed))
    assert not record.failed
    return seen


def same_weights(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


@pytest.mark.parametrize("engine", [pytest.param("native", marks=pytest.mark.slow), "jax"])
def test_a_seed_means_the_same_first_weights_and_the_same_order_in_both_arms(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = small_plan(tmp_path, FACTORS + '[factors.wide]\nset = { "model.hidden" = [9] }\n', engine=engine)
    base = watched(plan, (), 3, monkeypatch)
    assert len(base["orders"]) == 2
    assert base["orders"][0] != base["orders"][1]
    for factor in ("fast", "batch"):
        with_ = watched(plan, (factor,), 3, monkeypatch)
        assert same_weights(with_["first"], base["first"])
        assert with_["orders"] == base["orders"]
    assert watched(plan, ("wide",), 3, monkeypatch)["orders"] == base["orders"]
    other = watched(plan, (), 4, monkeypatch)
    assert not same_weights(other["first"], base["first"])
    assert other["orders"] != base["orders"]
    elsewhere = small_plan(tmp_path, engine="jax" if engine == "native" else "native")
    assert same_weights(watched(elsewhere, (), 3, monkeypatch)["first"], base["first"])


@pytest.mark.parametrize("engine", ENGINES)
def test_the_test_set_is_read_once_when_all_is_over(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = small_plan(tmp_path, engine=engine)
    data = loaded(plan.baseline)
    train, held_out = split(plan.baseline, data)
    tests, held = len(data.test.labels), len(held_out.labels)  # pyright: ignore
    assert len({len(train.labels), tests, held}) == 3
    assert watched(plan, ("fast",), 1, monkeypatch)["scored"] == [held, held, tests]


def test_a_record_says_what_a_training_run_of_the_recipe_finds(tmp_path: Path) -> None:
    plan = small_plan(tmp_path)
    recipe = with_seed(plan.recipe(["fast"]), 5)
    record = train_one("key", recipe)
    data = loaded(recipe)
    whole = resolved(recipe, data)
    train, held_out = split(whole, data)
    engine = choose(whole, train, lambda _: None)
    order = make_order("threefry", 5)
    state = engine.start(order.init(whole.model))
    for epoch in (1, 2):
        state, losses = engine.run(state, engine.batches([order.shuffled(epoch, engine.total)], epoch), 0, engine.steps)
        assert record.loss[epoch - 1] == pytest.approx(losses.mean(), abs=1e-12)
        assert record.validation[epoch - 1] == engine.score(state.params, held_out).accuracy
    assert record.test == engine.score(state.params, data.test).accuracy
    assert (record.key, record.seed, record.steps, record.engine) == ("key", 5, 2 * engine.steps, "native")
    assert record.parameters == 64 * 5 + 5 + 5 * 3 + 3


def test_every_cell_is_run_once_with_every_seed(tmp_path: Path) -> None:
    """`fast again` is the same recipe, as is what `batch, fast` is compared with."""
    factors = (
        FACTORS
        + """
[factors."fast again"]
subject = "rate"
set = { "optimiser.lr" = 0.1 }

[factors."batch, fast"]
on = ["fast"]
subject = "training.batch"
set = { "training.batch" = 5 }
"""
    )
    plan = small_plan(tmp_path, factors, head="seeds = 3")
    study = investigate(plan, tmp_path / "study", jobs=1)
    found = numbers_of(tmp_path / "study")
    recipes = [plan.recipe(names) for names in ((), ("fast",), ("batch",), ("fast", "batch"))]
    assert set(found) == {(key_of(recipe), seed) for recipe in recipes for seed in (1, 2, 3)}
    effects = {one.comparison.factors[0]: one.effect for one in study.findings}
    assert effects["fast"] == effects["fast again"]
    for record in lines_of(tmp_path / "study"):
        alone = train_one(
            record["key"], with_seed(next(r for r in recipes if key_of(r) == record["key"]), record["seed"])
        )
        assert untimed(alone)["validation"] == tuple(record["validation"])
        assert untimed(alone)["test"] == record["test"]


def test_an_arm_that_diverges_has_its_place_in_the_report(tmp_path: Path) -> None:
    plan = small_plan(tmp_path, FACTORS + DIVERGES, head="seeds = 10")
    study = investigate(plan, tmp_path / "study", jobs=1)
    finding = next(one for one in study.findings if one.comparison.factors == ("far",))
    assert finding.word == "diverges"
    assert finding.failures == 10
    assert "10 of 10 seeds failed [69, 100 %]: not finite in epoch 1" in finding.evidence
    assert any(note.startswith("far: 10 of 10 runs failed") for note in study.notes)
    assert "far" not in {rank.factor for rank in study.ranks}
    assert next(one for one in study.findings if one.comparison.factors == ("fast",)).word == "explains"
    failed = [line for line in lines_of(tmp_path / "study") if line["failed"]]
    assert {line["failed"] for line in failed} == {"not finite in epoch 1"}
    assert all(line["test"] is None and line["loss"] == [] for line in failed)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MemoryError(), "out of memory"),
        (jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 99 bytes.\nmore"), "out of memory"),
        (jax.errors.JaxRuntimeError("INTERNAL: broken\nat line 3"), "INTERNAL: broken"),
        (EngineError("a layer has no C twin"), "cannot run: a layer has no C twin"),
    ],
)
def test_a_run_that_fails_is_a_result(
    error: Exception, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(one_run, "trained", fails)
    record = train_one("key", with_seed(small_plan(tmp_path).baseline, 4))
    assert (record.key, record.seed, record.failed, record.test) == ("key", 4, reason, None)


def test_data_that_is_not_there_is_no_result(tmp_path: Path) -> None:
    """On another machine of a cluster, say: the study stops and can go on, it does not note a failure for ever."""
    recipe = replace(small_plan(tmp_path).baseline, data=str(tmp_path / "elsewhere.npz"))
    with pytest.raises(DataError, match=r"elsewhere\.npz: there is no such file"):
        train_one("key", recipe)


def test_texts_are_read_as_each_model_reads_them() -> None:
    """The same file, and half the context: other samples."""
    long = preset("gpt-nano")
    short = changed(long, {"model.text.context": 32}, "")
    assert loaded(long).train.context.value == 64  # pyright: ignore
    assert loaded(short).train.context.value == 32  # pyright: ignore
    assert loaded(long) is loaded(with_seed(long, 9))


# ---- the folder


def test_a_study_that_is_whole_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = small_plan(tmp_path)
    first = investigate(plan, tmp_path / "study", jobs=1)
    before = (tmp_path / "study" / FILE).read_bytes()

    def never(*_: object) -> None:
        raise AssertionError("it was run again")

    monkeypatch.setattr(run, "train_one", never)
    start = time.process_time()
    again = investigate(plan_of(tmp_path / "study"), tmp_path / "study", jobs=2)
    assert time.process_time() - start < 2
    assert again.answer == first.answer
    assert (tmp_path / "study" / FILE).read_bytes() == before


def test_records_of_an_earlier_release_under_the_path_of_the_data_are_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = small_plan(tmp_path, head="seeds = 3")
    first = investigate(plan, tmp_path / "study", jobs=1)
    file = tmp_path / "study" / FILE
    paths = {cell.key: key_by_path(cell.recipe) for cell in cells_of(plan, Results(tmp_path / "study"))}
    lines = [{**line, "key": paths[line["key"]]} for line in lines_of(tmp_path / "study")]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "study" / "data.json").unlink()
    monkeypatch.setattr(run, "train_one", None)
    assert analyse(plan, open_study(plan, tmp_path / "study")).answer == first.answer  # of a report alone
    assert investigate(plan, tmp_path / "study", jobs=1).answer == first.answer
    assert file.read_text().startswith(json.dumps(lines[0]))  # nothing is removed


class StopError(Exception):
    pass


class StopAfter(run.Listener):
    def __init__(self, runs: int) -> None:
        self.left, self.notices = runs, []

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def finished(self, title: str, record: Record, seconds_left: float) -> None:
        self.left -= 1
        if not self.left:
            raise StopError


def test_an_interrupted_study_goes_on_and_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """Stopped in every stage, once in the middle of a line."""
    plan = small_plan(tmp_path)
    whole = investigate(plan, tmp_path / "whole", jobs=1)
    runs = len(numbers_of(tmp_path / "whole"))
    assert runs == 4 * 7  # baseline, fast, batch, and both, which is asked for only when these are there
    file = tmp_path / "study" / FILE
    for count in (1, 8, 14, 4):
        with pytest.raises(StopError):
            investigate(plan, tmp_path / "study", jobs=1, listener=StopAfter(count))
        file.write_bytes(file.read_bytes()[: -30 if count == 8 else None])
    told = StopAfter(0)
    resumed = investigate(plan, tmp_path / "study", jobs=1, listener=told)
    assert told.notices == [f"{tmp_path / 'study'}: goes on with what is there"]
    lines = [line for line in file.read_bytes().splitlines() if parse(line)]
    assert len(lines) == runs
    records, expected = Results(tmp_path / "study").records, Results(tmp_path / "whole").records
    assert {place: untimed(one) for place, one in records.items()} == {
        place: untimed(one) for place, one in expected.items()
    }
    assert resumed.answer == whole.answer
    assert [one.evidence for one in resumed.findings] == [one.evidence for one in whole.findings]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"head": "seeds = 6"}, r"seeds \[7\] are left out"),
        ({"sets": '"training.batch" = 4'}, "the baseline"),
        ({"factors": FACTORS.partition("[factors.batch]")[0]}, "factor 'batch' is left out"),
        ({"factors": FACTORS.replace("0.1", "0.4")}, "factor 'fast'"),
    ],
)
def test_a_folder_of_another_plan_is_refused(words: dict[str, Any], said: str, tmp_path: Path) -> None:
    study = tmp_path / "study"
    begin(small_plan(tmp_path), study)
    with pytest.raises(
        CheckpointError, match=rf"another plan.*: {said}\).*--out, or.*glassformer investigate {study}$"
    ):
        investigate(small_plan(tmp_path, **words), study)


def test_a_folder_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("x")
    with pytest.raises(FileError, match=r"other: there are files, and none is plan\.toml; choose an empty folder"):
        investigate(small_plan(tmp_path), tmp_path / "other")
    assert [file.name for file in (tmp_path / "other").iterdir()] == ["thesis.tex"]


def test_what_a_killed_write_of_the_plan_left_does_not_stop_the_next(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / ".plan.toml.abc.part").write_text("question")
    assert begin(small_plan(tmp_path), tmp_path / "study") is False
    assert plan_of(tmp_path / "study").question == "Why?"


def test_a_folder_that_cannot_be_written_is_reported_before_anything_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(run, "train_one", None)
    with pytest.raises(FileError, match=r"file: no study can be kept here: Not a directory; choose another folder"):
        investigate(small_plan(tmp_path), tmp_path / "file")
    with pytest.raises(FileError, match=r"plan\.toml: cannot be written: .*choose another folder with --out"):
        investigate(small_plan(tmp_path), tmp_path / "file" / "study")


def test_a_folder_without_a_study_is_said_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"plan\.toml: there is no such file; no study is here"):
        plan_of(tmp_path)


# ---- processes


def command(plan: Path, study: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "glassformer", "investigate", str(plan), "--out", str(study), *more]


def started(plan: Path, study: Path, *more: str) -> "subprocess.Popen[str]":
    """In a session of its own, so that what it leaves behind can be found."""
    return subprocess.Popen(
        command(plan, study, *more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def finished(process: "subprocess.Popen[str]") -> str:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def is_alive(session: int) -> bool:
    """Whether any process of a session is left, apart from those that are dead and not yet buried."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, own = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(own) == session and state != "Z":
            return True
    return False


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """The plan, the study, and what was said about it. Many epochs: a run takes long enough to be killed in."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    plan = plan_file(folder, sets='"training.epochs" = 300, "optimiser.lr" = 0.0001')
    return plan, folder / "study", finished(started(plan, folder / "study", "--jobs", "2"))


@pytest.mark.slow
def test_killed_at_random_moments_and_started_again_it_ends_the_same(
    uninterrupted: tuple[Path, Path, str], tmp_path: Path
) -> None:
    plan, whole, said = uninterrupted
    moments = random.Random(7)
    study, kills = tmp_path / "study", 0
    wanted = len(lines_of(whole))
    for share in (0.0, 0.2, 0.45, 0.7, 0.9):
        process = started(plan, study, "--jobs", "2")
        file = study / FILE
        while process.poll() is None:
            have = len(file.read_bytes().splitlines()) if file.exists() else 0
            if have >= share * wanted:
                time.sleep(moments.uniform(0.0, 0.2 if share else 3.0))
                process.send_signal(signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.002)
        process.communicate()
        end = time.monotonic() + 20
        while is_alive(process.pid):  # its workers notice, and go
            assert time.monotonic() < end, "a worker outlives its study"
            time.sleep(0.05)
    assert kills >= 3
    again = finished(started(plan, study, "--jobs", "2"))
    assert numbers_of(study) == numbers_of(whole)
    assert again.partition("runs, ")[0] == said.partition("runs, ")[0]


@pytest.mark.slow
def test_ctrl_c_finishes_what_is_under_way_and_says_how_to_go_on(
    uninterrupted: tuple[Path, Path, str], tmp_path: Path
) -> None:
    """A terminal sends it to the workers, too."""
    plan, whole, _ = uninterrupted
    study = tmp_path / "study"
    process = started(plan, study, "--jobs", "2")
    while process.poll() is None and (not (study / FILE).exists() or len(lines_of(study)) < 5):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    kept = len(lines_of(study))
    assert 5 <= kept < len(lines_of(whole))
    assert err.splitlines()[-1] == (
        f"glassformer: stopped; {kept} runs are kept in {study}, and the same command goes on from there. "
        f"What they say by now: glassformer investigate {study} --report"
    )
    assert "stops when the runs under way are done; Ctrl-C again stops at once" in err
    assert "Traceback" not in err
    assert numbers_of(study).items() <= numbers_of(whole).items()


@pytest.mark.slow
def test_two_at_once_on_one_folder_corrupt_nothing(uninterrupted: tuple[Path, Path, str], tmp_path: Path) -> None:
    plan, whole, said = uninterrupted
    both = [started(plan, tmp_path / "study", "--jobs", "1") for _ in range(2)]
    answers = [finished(process) for process in both]
    assert numbers_of(tmp_path / "study") == numbers_of(whole)
    for answer in answers:
        assert answer.partition("runs, ")[0] == said.partition("runs, ")[0]
    assert not list((tmp_path / "study").glob("*.part"))


def test_a_worker_that_is_killed_is_explained_and_what_is_finished_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(key: str, recipe: Any, *_: object) -> Record:
        if recipe.training.seed == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return Record(key, recipe.training.seed, validation=(0.5,), test=0.5)

    monkeypatch.setattr(run, "train_one", killed)
    with pytest.raises(EngineError, match=r"was killed, most likely because the memory was full.*--jobs 1"):
        investigate(small_plan(tmp_path), tmp_path / "study", jobs=2)
    assert 1 <= len(lines_of(tmp_path / "study")) < 21


def test_many_processes_find_what_one_finds(tmp_path: Path) -> None:
    plan = small_plan(tmp_path, head="seeds = 3")
    for jobs in (1, 2):
        investigate(plan, tmp_path / str(jobs), jobs=jobs)
    assert numbers_of(tmp_path / "1") == numbers_of(tmp_path / "2")
    assert Counter(seed for _, seed in numbers_of(tmp_path / "2")) == dict.fromkeys((1, 2, 3), 3)
    assert {key for key, _ in numbers_of(tmp_path / "2")} == {
        cell(plan, ()).key,
        *(one.with_.key for one in additions(plan)),
    }


def test_records_that_belong_to_no_cell_are_no_report(tmp_path: Path) -> None:
    """Of a study whose plan was changed by hand, say; the report that is there stays."""
    study, results = tmp_path / "study", Results(tmp_path / "study")
    study.mkdir(exist_ok=True)
    results.add([Record("of another plan", seed, validation=(0.5,), test=0.5) for seed in (1, 2, 3)])
    (study / "report.md").write_text("what was found")
    with pytest.raises(CheckpointError, match=r"none of its 3 runs belongs to a cell of its plan"):
        publish(analyse(small_plan(tmp_path), results), results)
    assert (study / "report.md").read_text() == "what was found"
