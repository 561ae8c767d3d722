"""Any metric, of images, tables, texts and own models: every score by its name; and how a run ended."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer import register, registry
from glassformer.errors import SettingError
from glassformer.lab.metric import Metric
from glassformer.lab.one_run import loaded, train_one
from glassformer.lab.outcome import Chance, chance, judged
from glassformer.lab.plan import parse
from glassformer.lab.record import Record, Results
from glassformer.lab.run import chances, investigate
from glassformer.lab.scoring import Outputs, Scoring, mean_f1, of_outputs, scoring_of, time_to
from glassformer.train.loop import split
from glassformer.train.presets import preset
from glassformer.train.settings import with_change

from .small import FACTORS, lines_of, small_plan

SEEN = Outputs(
    outputs=np.eye(3)[[0, 1, 1, 2, 0, 1]],
    labels=np.array([0, 1, 2, 2, 0, 0]),
    sample=np.array([0, 0, 1, 1, 2, 2]),
    right=np.array([True, True, False, True, True, False]),
)


def test_scores_of_outputs_by_hand() -> None:
    assert of_outputs(["exact match"], SEEN) == {"exact match": pytest.approx(1 / 3)}
    f1 = [2 * 2 / (2 + 3), 2 * 1 / (3 + 1), 2 * 1 / (1 + 2)]  # 2 TP / (found + there)
    assert mean_f1(SEEN) == pytest.approx(np.mean(f1))


def test_f1_is_scikit_learns() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    draw = np.random.default_rng(3)
    labels, outputs = draw.integers(0, 4, 200), draw.normal(size=(200, 5))
    expected = metrics.f1_score(labels, outputs.argmax(axis=1), average="macro")
    assert mean_f1(Outputs(outputs, labels, np.arange(200), None)) == pytest.approx(expected)


def test_time_to_a_target_is_counted_in_epochs() -> None:
    assert time_to(("accuracy", 0.5), (0.1, 0.6, 0.4, 0.9), 8.0) == 4.0
    assert time_to(("loss", 0.5), (0.9, 0.6, 0.5, 0.4), 8.0) == 6.0
    assert time_to(("loss", 0.1), (0.9, 0.6), 8.0) is None


def test_an_own_metric_is_compared_and_lower_is_better(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._registered, "metric", {})

    @register.metric(Metric("brier", unit="points", scale=100, higher=False))
    def brier(outputs: np.ndarray, labels: np.ndarray) -> float:
        shares = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        return float(((shares - np.eye(outputs.shape[1])[labels]) ** 2).sum(axis=1).mean())

    plan = small_plan(tmp_path, FACTORS, head='seeds = 3\nmetric = "brier"\ntarget = 0.2', engine="jax")
    investigate(plan, tmp_path / "study", jobs=1)
    for line in lines_of(tmp_path / "study"):
        assert {"accuracy", "loss", "perplexity", "brier"} == set(line["scores"]) == set(line["test_scores"])
        assert line["scores"]["accuracy"] == line["validation"]
        assert line["test_scores"]["accuracy"] == line["test"]
        assert line["test_scores"]["perplexity"] == pytest.approx(math.exp(line["test_scores"]["loss"]))
        assert 0 < line["test_scores"]["brier"] < 2
        assert line["outcome"] in ("ok", "collapse")
        assert 0 < line["compile_seconds"] <= line["seconds"]
        assert line["multiply_adds"] == 64 * 5 + 5 * 3


def test_outputs_of_vmapped_runs_are_those_of_each(tmp_path: Path) -> None:
    from glassformer.lab.vmapped_runs import Runs, SharedEngine, shape_of
    from glassformer.train.loop import with_seed
    from glassformer.train.resolve import resolved

    plan = small_plan(tmp_path, head='metric = "f1"', engine="jax")
    data = loaded(plan.baseline)
    recipes = [resolved(with_seed(plan.baseline, seed), data) for seed in (1, 2)]
    train, held_out = split(recipes[0], data)
    runs = Runs(["a", "b"], recipes, SharedEngine(shape_of(recipes[0]), train, 2), held_out, scoring_of(plan))
    runs.start()
    for one in [one for ended in runs.finish(data.test) for one in ended]:
        alone = train_one(one.record.key, one.recipe, scoring_of(plan))
        assert one.record.scores["F1"] == pytest.approx(alone.scores["F1"])
        assert one.record.test_scores == pytest.approx(alone.test_scores, rel=1e-4)


@pytest.mark.parametrize("name", ["gpt-nano", pytest.param("bert-nano", marks=pytest.mark.slow), "iris"])
def test_texts_and_tables_are_judged_by_what_their_task_optimises(name: str) -> None:
    recipe = preset(name)
    small = {"training.epochs": 1, "training.samples": 24, "training.batch": 8}
    if name != "iris":
        small |= {"model.width": 8, "model.hidden": 8, "model.heads": 2, "model.depth": 1, "model.text.context": 16}
    for setting, value in small.items():
        recipe = with_change(recipe, setting, value, setting)
    record = train_one("key", recipe, Scoring(("exact match",)))
    judge = "loss" if recipe.task.by_loss else "accuracy"
    assert record.failed == ""
    assert math.isfinite(record.value(judge, "test") or math.nan)
    assert 0 <= (record.value("exact match", "test") or 0.0) <= 1
    assert record.outcome in ("ok", "collapse")
    if name == "gpt-nano":
        assert record.outcome == "collapse"  # three steps: it knows less than how often each letter comes
        assert record.reason.startswith("loss ")


# ---- outcomes


@dataclass(frozen=True)
class Case:
    record: Record
    outcome: str
    reason: str = ""


TESTS = {"validation": Chance(100, share=0.25), "test": Chance(1000, share=0.1)}
COMMONEST = "the commonest answer alone has"
CASES = {
    "good": Case(Record("k", 1, validation=(0.2, 0.5)), "ok"),
    "chance": Case(Record("k", 1, validation=(0.5, 0.25)), "collapse", f"25 of 100 right; {COMMONEST} 25.0%"),
    "just above": Case(Record("k", 1, validation=(0.26,)), "ok"),
    "nothing held out": Case(Record("k", 1, test=0.1), "collapse", f"100 of 1,000 right; {COMMONEST} 10.0%"),
    "NaN": Case(Record("k", 1, failed="not finite in epoch 2"), "nan", "not finite in epoch 2"),
    "memory": Case(Record("k", 1, failed="out of memory"), "memory", "out of memory"),
    "refused": Case(Record("k", 1, failed="cannot run: x"), "failed", "cannot run: x"),
    "judged before": Case(Record("k", 1, validation=(0.1,), outcome="ok"), "ok"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_how_a_run_ended(case: str) -> None:
    found = judged(CASES[case].record, TESTS)
    assert (found.outcome, found.reason) == (CASES[case].outcome, CASES[case].reason)


def test_a_loss_no_lower_than_that_of_the_frequencies_is_a_collapse() -> None:
    known = {"validation": Chance(100, loss=2.0)}
    for loss, outcome in ((1.9, "ok"), (2.0, "collapse")):
        assert judged(Record("k", 1, scores={"loss": (3.0, loss)}), known).outcome == outcome


def test_chance_is_what_the_labels_say(tmp_path: Path) -> None:
    plan = small_plan(tmp_path)
    data = loaded(plan.baseline)
    counts = np.bincount(data.test.labels)
    found = chances(plan)["test"]
    assert (found.answers, found.loss) == (len(data.test.labels), None)
    assert found.share == pytest.approx(counts.max() / counts.sum())
    houses = tmp_path / "houses.csv"
    houses.write_text("rooms,price\n" + "\n".join(f"{i},{2 * i}.5" for i in range(20)))
    text = f'[baseline]\nsettings = {{ data = "{houses}", task = "regress", model = {{ kind = "tiny_iris" }} }}\n'
    table = parse(text + '[factors.f]\nset = { "optimiser.lr" = 0.3 }', "houses")
    test = loaded(table.baseline).test
    assert chance(table.baseline.task, test).loss == pytest.approx(np.var(test.labels), rel=1e-5)


def test_records_before_there_were_outcomes_are_judged_by_the_studys_data(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text('{"key": "a", "seed": 1, "validation": [0.25]}\n')
    (tmp_path / "data.json").write_text('{"chance": {"validation": {"answers": 100, "share": 0.25}}}')
    assert Results(tmp_path).records["a", 1].outcome == "collapse"
    (tmp_path / "data.json").unlink()
    assert Results(tmp_path).records["a", 1].outcome == "ok"


def test_the_seeds_of_the_published_study_that_collapsed_are_known() -> None:
    """Two of the first twelve of one cell: 630 of 6,000 right."""
    records = Results(Path(__file__).parents[2] / "studies" / "attention-accuracy").records.values()
    fallen = [one for one in records if one.outcome == "collapse" and one.machine == "NVIDIA H200"]
    assert len(fallen) == 2
    assert len({record.key for record in fallen}) == 1
    assert {one.outcome for one in records if one.failed.startswith("not finite")} == {"nan"}


def test_an_own_function_that_gives_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._registered, "metric", {})
    register.metric(Metric("odd"))(lambda outputs, labels: [1, 2])
    with pytest.raises(SettingError, match="metric odd: its function gave list, expected a number"):
        of_outputs(["odd"], SEEN)


def test_a_time_is_measured_where_the_plan_asks_for_it(tmp_path: Path) -> None:
    plan: Any = small_plan(tmp_path, head='seeds = 3\nmetric = "time to target"\ntarget = 0.1', engine="jax")
    record = train_one("key", plan.baseline, scoring_of(plan))
    assert record.value("time to target", "validation") == record.value("time to target", "test")
    assert 0 < (record.value("time to target", "test") or 0) <= record.seconds - record.compile_seconds
    never = train_one("key", plan.baseline, scoring_of(replace(plan, target=1.0)))
    assert never.value("time to target", "test") is None
