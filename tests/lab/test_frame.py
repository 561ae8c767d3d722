"""A study as a pandas frame: every run is a row, every setting that varies a column; results.csv says the same."""

import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from glassformer import lab
from glassformer.errors import FileError, SettingError
from glassformer.lab.analysis import analyse
from glassformer.lab.folder import plan_of
from glassformer.lab.record import Results
from glassformer.lab.report.as_csv import as_csv
from glassformer.lab.run_rows import run_rows

pandas: Any = pytest.importorskip("pandas")
SHIPPED = Path(__file__).parents[2] / "studies/attention-accuracy"
RATES = {0.003: "rate 0.003", 0.01: "baseline", 0.03: "rate 0.03", 0.1: "rate 0.1", 0.3: "rate 0.3"}


@pytest.fixture(scope="module")
def shipped() -> Any:
    return lab.load(SHIPPED)


def test_every_run_is_a_row_and_a_setting_that_varies_a_column(shipped: Any) -> None:
    lines = (SHIPPED / "results.jsonl").read_text().splitlines()
    assert len(shipped) == len(lines)
    assert set(map(tuple, shipped[["key", "seed"]].values)) == {(r["key"], r["seed"]) for r in map(json.loads, lines)}
    assert {"optimiser.lr", "model.width", "training.epochs", "training.batch"} <= set(shipped.columns)
    assert not {"training.seed", "data", "optimiser.momentum"} & set(shipped.columns)
    main = shipped[shipped.group == ""]
    found = {rate: main[main.cell == cell]["optimiser.lr"].unique().tolist() for rate, cell in RATES.items()}
    assert found == {rate: [rate] for rate in RATES}
    assert set(shipped.outcome) == {"ok", "collapse", "nan"}


def test_scores_are_those_of_the_last_epoch_in_percent(shipped: Any) -> None:
    """On validation; of the group that is judged by the test set, there. What ended in NaN counts as chance."""
    chance = json.loads((SHIPPED / "data.json").read_text())["chance"]
    lines = map(json.loads, (SHIPPED / "results.jsonl").read_text().splitlines())
    by_place = {(one["key"], one["seed"]): one for one in lines}
    for row in shipped[shipped.cell.notna()].itertuples():
        record = by_place[row.key, row.seed]
        raw = record["test"] if row.measure == "test" else record["validation"][-1]
        if row.outcome == "nan":
            raw = chance[row.measure]["share"]
        assert row.score == pytest.approx(100 * raw)
    assert set(shipped.measure.dropna()) == {"validation", "test"}


def test_all_settings_and_the_same_in_the_csv(shipped: Any) -> None:
    study = analyse(plan_of(SHIPPED), Results(SHIPPED))
    table = pandas.read_csv(io.StringIO(as_csv(study)), keep_default_na=False, na_values={"score": ""})
    assert table.columns.tolist() == shipped.columns.tolist()
    known = shipped[shipped.cell.notna()]  # the others were chosen by an analysis before this one
    assert table.score.tolist() == known.score.tolist()
    assert table["optimiser.schedule.every"].tolist() == known["optimiser.schedule.every"].tolist()
    whole = run_rows(study, all_settings=True)
    assert {(row["data"], row["optimiser.momentum"]) for row in whole} == {("mnist", 0.9)}


def test_an_unfinished_study_and_runs_of_no_cell(tmp_path: Path) -> None:
    shutil.copy(SHIPPED / "plan.toml", tmp_path)
    lines = (SHIPPED / "results.jsonl").read_text().splitlines()[:40]
    lines.append(json.dumps({"key": "of no cell", "seed": 3, "failed": "not finite in epoch 2"}))
    (tmp_path / "results.jsonl").write_text("\n".join(lines) + "\n")
    table: Any = lab.load(tmp_path)
    assert len(table) == 41
    stray = table[table.cell.isna()]
    assert stray[["key", "seed", "reason"]].values.tolist() == [["of no cell", 3, "not finite in epoch 2"]]
    assert stray.outcome.tolist() == ["nan"]
    assert table.score.notna().sum() == 40


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileError, match="no study is here"):
        lab.load(tmp_path)
    shutil.copy(SHIPPED / "plan.toml", tmp_path)
    with pytest.raises(
        FileError, match=r"results.jsonl: no run is there yet; start the study: glassformer investigate"
    ):
        lab.load(tmp_path)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SettingError, match=r"pandas is not installed; pip install 'glassformer\[pandas\]'"):
        lab.load(SHIPPED)
