"""glassformer investigate as a user runs it: what it prints, what it leaves in the folder, what it refuses."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from glassformer.cli.investigate import as_typed, investigate, overridden, parse_budget, parse_seeds
from glassformer.cli.study_progress import StudyProgress, duration
from glassformer.errors import CheckpointError, DataError, EngineError, FileError, UnknownNameError
from glassformer.lab.plan import load_plan, parse, plan_names
from glassformer.lab.plan_text import TEMPLATE
from glassformer.lab.record import Record
from glassformer.native import build

from ..lab.small import lines_of, plan_file
from ..train.small import small_data, write_npz

app = typer.Typer()
app.command("investigate")(investigate)
REPORT = ["report.html", "report.md", "results.csv", "results.json", "table.tex"]
WRITTEN = sorted([*REPORT, "data.json", "looks.jsonl", "plan.toml", "results.jsonl"])


def invoke(*arguments: str | Path) -> Any:
    return CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}).invoke(app, [*map(str, arguments)])


def plain(text: str) -> str:
    """Without frames, marks and line breaks."""
    return " ".join(text.replace("│", " ").replace("`", "").split())


def invoked(*arguments: str | Path) -> Any:
    result = invoke(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return plan_file(tmp_path)


def test_a_study_is_run_answered_and_written_down(plan: Path, tmp_path: Path) -> None:
    result = invoked("why.toml", "--jobs", "1")
    study = tmp_path / "studies/why"
    assert sorted(file.name for file in study.iterdir()) == WRITTEN
    assert result.stdout.startswith("Why?\n")
    assert "What explains it: fast" in result.stdout
    assert "28 runs, " in result.stdout
    assert result.stdout.rstrip().endswith("wrote studies/why/report.html")
    assert "20 of 21 runs, " in result.stderr
    assert "glassformer investigate why.toml" in (study / "report.md").read_text()
    assert (study / "plan.toml").read_text() == plan.read_text()


def test_the_same_again_and_the_folder_itself_go_on_and_report_alone_runs_nothing(plan: Path, tmp_path: Path) -> None:
    whole = invoked("why.toml", "--jobs", "1")
    lines = lines_of(tmp_path / "studies/why")
    (tmp_path / "studies/why/results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines[:5]))
    report = (tmp_path / "studies/why/report.md").read_text()
    partial = invoked("studies/why", "--report")
    assert "not decided" in partial.stdout
    assert partial.stdout.startswith("Why?\n\nIncomplete: 5 of the 21 runs that the plan asks for by now are there.\n")
    assert partial.stdout.rstrip().endswith("wrote studies/why/incomplete/report.html")
    assert (tmp_path / "studies/why/report.md").read_text() == report
    assert len(lines_of(tmp_path / "studies/why")) == 5
    again = invoked("studies/why", "--jobs", "1")
    assert "studies/why: goes on with what is there" in again.stderr
    assert again.stdout.partition("runs, ")[0] == whole.stdout.partition("runs, ")[0]
    nothing_left = invoked("why.toml", "--jobs", "1", "--json")
    assert json.loads(nothing_left.stdout.splitlines()[-1])["answer"]
    assert len(lines_of(tmp_path / "studies/why")) == 28


def test_json_is_one_object_on_the_last_line(plan: Path) -> None:
    result = invoked("why.toml", "--jobs", "1", "--seeds", "3", "--out", "study", "--json")
    (line,) = result.stdout.splitlines()
    found = json.loads(line)
    assert found["answer"]
    assert set(found["files"]) == set(REPORT)
    assert found["files"]["report.html"] == "study/report.html"


def test_flags_change_the_plan_and_the_study_keeps_it_so(plan: Path, tmp_path: Path) -> None:
    changes = ("--seeds", "2-4", "--engine", "auto", "--data", "small.npz")
    invoked("why.toml", "--jobs", "1", "--out", "study", *changes)
    assert {line["seed"] for line in lines_of(tmp_path / "study")} == {2, 3, 4}
    kept = tomllib.loads((tmp_path / "study/plan.toml").read_text())
    assert kept["seeds"] == [2, 3, 4]
    assert kept["baseline"]["settings"]["data"] == str(tmp_path / "small.npz")
    assert kept["baseline"]["settings"]["engine"]["name"] == "auto"
    command = "glassformer investigate why.toml --data small.npz --seeds 2-4 --engine auto"
    assert command in (tmp_path / "study/report.md").read_text()
    plan.write_text(plan.read_text().replace('"training.batch" = 5', '"training.batch" = 4'))
    refused = invoke("why.toml", "--out", "study", *changes)
    assert isinstance(refused.exception, CheckpointError)


def test_a_study_grows_by_seeds_and_factors_and_nothing_is_run_twice(plan: Path, tmp_path: Path) -> None:
    invoked("why.toml", "--jobs", "1", "--seeds", "3")
    study = tmp_path / "studies/why"
    before = (study / "results.jsonl").read_text()
    invoked("studies/why", "--seeds", "4", "--jobs", "1")
    more = (study / "results.jsonl").read_text()
    assert more.startswith(before)
    assert len(lines_of(study)) == 4 * 3
    text = (study / "plan.toml").read_text()
    (tmp_path / "more.toml").write_text(text + '[factors.wide]\nset = { "model.hidden" = [9] }\n')
    result = invoked("studies/why", "--plan", "more.toml", "--jobs", "1")
    assert (study / "results.jsonl").read_text().startswith(more)
    added = lines_of(study)[12:]
    assert [line["seed"] for line in added] == [1, 2, 3, 4]
    assert len({line["key"] for line in added}) == 1
    assert "wide" in result.stdout
    assert [json.loads(line)["seeds"] for line in (study / "looks.jsonl").read_text().splitlines()] == [3, 4]
    refused = invoke("studies/why", "--seeds", "3", "--jobs", "1")
    assert isinstance(refused.exception, CheckpointError)
    assert "seeds [4] are left out" in str(refused.exception)


def test_a_study_and_its_data_are_moved_and_replaced_data_is_refused(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    invoked("why.toml", "--jobs", "1", "--seeds", "3")
    before = lines_of(tmp_path / "studies/why")
    new = tmp_path / "elsewhere"
    new.mkdir()
    for name in ("studies", "small.npz"):
        (tmp_path / name).rename(new / name)
    monkeypatch.chdir(new)
    invoked("studies/why", "--jobs", "1")  # its data lies where it lay, seen from the study
    (new / "small.npz").rename(tmp_path / "other name.npz")
    invoked("studies/why", "--jobs", "1", "--data", "../other name.npz")
    invoked("studies/why", "--report")
    assert lines_of(new / "studies/why") == before
    write_npz(tmp_path / "other name.npz", small_data(count=104))
    refused = invoke("studies/why", "--jobs", "1", "--seeds", "4")
    assert isinstance(refused.exception, DataError)
    assert "it is not the data that studies/why was begun with" in str(refused.exception)
    assert lines_of(new / "studies/why") == before


BRIER = """
import numpy as np
from glassformer import register
from glassformer.lab.metric import Metric
@register.metric(Metric("brier", unit="points", scale=100, higher=False))
def brier(outputs, labels):
    p = np.exp(outputs - outputs.max(-1, keepdims=True))
    return float((((p / p.sum(-1, keepdims=True)) - np.eye(p.shape[-1])[labels]) ** 2).sum(-1).mean())
"""


@pytest.mark.slow
def test_tuned_arms_by_an_own_metric_on_own_data_that_is_moved_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of "a metric of one's own", as processes, from another folder than the data's."""
    head = 'metric = "brier"\npairs = 0\ntune_seeds = 2\ntune = { "optimiser.lr" = [0.01, 0.1] }\nseeds = 3'
    (tmp_path / "data").mkdir()
    plan = plan_file(tmp_path / "data", '[factors.batch]\nset = { "training.batch" = 5 }\n')
    (tmp_path / "work").mkdir()
    (tmp_path / "work/why.toml").write_text(plan.read_text().replace("seeds = 7", head))
    (tmp_path / "work/mine.py").write_text(BRIER)

    def run(folder: Path, *words: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "glassformer", "investigate", *words, "--code", "mine.py", "--json"]
        result = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout.splitlines()[-1])

    found = run(tmp_path / "work", "why.toml", "--jobs", "1")
    assert found["metric"]["name"] == "brier"
    lines = lines_of(tmp_path / "work/studies/why")
    assert len(lines) == 2 * 2 * 2 + 2 * 3  # tuning, and the two arms at their best
    assert all(0 < line["test_scores"]["brier"] < 2 for line in lines)
    (tmp_path / "work").rename(tmp_path / "moved")
    (tmp_path / "data/small.npz").rename(tmp_path / "moved/mine.npz")
    run(tmp_path / "moved", "studies/why", "--data", "mine.npz", "--seeds", "4", "--jobs", "1")
    grown = lines_of(tmp_path / "moved/studies/why")
    assert (grown[: len(lines)], len(grown)) == (lines, len(lines) + 2)


def test_a_budget_says_what_it_skips(plan: Path) -> None:
    result = invoked("why.toml", "--jobs", "1", "--budget", "0.001s")
    assert "Skipped: " in result.stdout


def test_list_and_template_need_no_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = invoked("--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == plan_names()
    quick = ["attention-accuracy-quick", "attention-accuracy-tuned", "class-token"]
    assert plan_names() == ["attention-accuracy", *quick, "vit-tiny-ingredients"]
    assert json.loads(invoked("--list", "--json").stdout) == {"plans": plan_names()}
    assert parse(invoked("--template").stdout, "template").question
    assert json.loads(invoked("--template", "--json").stdout) == {"template": TEMPLATE}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name a plan; glassformer investigate --list"),
        (("why.toml", "--seeds", "many"), "'many' came, expected 10, 1-12 or 3,5,8"),
        (("why.toml", "--seeds", "5-3"), "'5-3' came"),
        (("why.toml", "--seeds", "0"), "'0' came"),
        (("why.toml", "--budget", "soon"), "'soon' came, expected a time such as 20m, 1h30m or 90s"),
        (("why.toml", "--budget", "20"), "'20' came"),
        (("why.toml", "--jobs", "-1"), "--jobs"),
        (("why.toml", "--seeds", "2"), "Invalid value for --seeds: why: 2 seeds came, expected 3 or more"),
        (("why.toml", "--seeds", "1,1,2"), "expected each once"),
        (("why.toml", "--engine", "cuda"), "Invalid value for --engine: why: engine.name: 'cuda' came"),
    ],
)
def test_wrong_usage_is_explained(words: tuple[str, ...], message: str, plan: Path) -> None:
    result = invoke(*words)
    assert result.exit_code == 2
    assert message in plain(result.output)
    assert not Path("studies").exists()


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (("none.toml",), FileError, "none.toml: there is no such file; "),
        (("attention-acuracy",), UnknownNameError, "did you mean 'attention-accuracy'?"),
        (("why.toml", "--report"), FileError, "no study is here"),
        (("why.toml", "--out", "why.toml"), FileError, "no study can be kept here: Not a directory"),
    ],
)
def test_what_cannot_be_done_is_explained(words: tuple[str, ...], error: type, message: str, plan: Path) -> None:
    result = invoke(*words)
    assert isinstance(result.exception, error), result.exception
    assert message in str(result.exception)


def test_a_report_of_a_study_without_runs_is_refused(plan: Path, tmp_path: Path) -> None:
    (tmp_path / "studies/why").mkdir(parents=True)
    (tmp_path / "studies/why/plan.toml").write_text(plan.read_text())
    result = invoke("why.toml", "--report")
    assert isinstance(result.exception, FileError)
    assert "no run is there yet; leave out --report" in str(result.exception)


def test_an_error_is_one_line_without_a_traceback(plan: Path, tmp_path: Path) -> None:
    plan.write_text(plan.read_text().replace("[factors.fast]", "[factors.fast]\nhypotesis = 'x'"))
    result = subprocess.run(
        [sys.executable, "-m", "glassformer", "investigate", "why.toml"], capture_output=True, text=True, cwd=tmp_path
    )
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith(
        "glassformer: why: factor 'fast': no setting is called 'hypotesis' (did you mean 'hypothesis'?)"
    )
    assert not (tmp_path / "studies").exists()


def test_without_a_compiler_the_quick_plan_offers_a_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> tuple[str, ...]:
        raise EngineError("no C compiler is installed (cc, gcc, clang)")

    monkeypatch.setattr(build, "compiler", none)
    monkeypatch.chdir(tmp_path)
    for words in ((), ("--seeds", "5")):
        result = invoke("attention-accuracy-quick", *words)
        assert isinstance(result.exception, EngineError)
        assert "try fewer seeds and a budget (--engine jax --seeds 4 --budget 30m)" in str(result.exception)
    assert list(tmp_path.iterdir()) == []
    offered = overridden(load_plan("attention-accuracy-quick"), "", parse_seeds("4"), "jax")
    assert (offered.needs_native, len(offered.seeds)) == (False, 4)
    assert parse(offered.text, "x").baseline == offered.baseline


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("20m", 1200), ("1h30m", 5400), ("90s", 90), ("1h", 3600), ("1.5h", 5400), ("1h 2m 3s", 3723), ("0.5s", 0.5)],
)
def test_a_budget_is_read_as_people_write_it(text: str, seconds: float) -> None:
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["20", "m", "m20", "20m1h", "-5m", "1d", "20 minutes", " "])
def test_a_budget_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_budget(text)


def test_seeds_are_read_as_people_write_them() -> None:
    assert parse_seeds("") == ()
    assert parse_seeds("4") == (1, 2, 3, 4)
    assert parse_seeds("3-5") == (3, 4, 5)
    assert parse_seeds("3,5,8") == (3, 5, 8)
    for text in ("-3", "3-", "a", "1,,2", "1-2-3", "2.5"):
        with pytest.raises(typer.BadParameter):
            parse_seeds(text)


def test_the_command_that_repeats_it_can_be_pasted() -> None:
    assert as_typed("investigate", "my plan.toml", seeds="3,5", engine="") == (
        "glassformer investigate 'my plan.toml' --seeds 3,5"
    )


def test_help_shows_an_example_and_loads_no_jax() -> None:
    assert "Example: glassformer investigate attention-accuracy-quick" in plain(invoked("--help").output)
    code = "import sys, glassformer.cli.investigate, glassformer.cli.diagnose; print('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_progress_tells_of_failures_at_once_and_of_the_rest_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with StudyProgress() as progress:
        progress.stage(60, 10)
        for seed in range(30):
            progress.finished("fast", Record("key", seed, failed="not finite in epoch 2" if seed == 3 else ""), 90.0)
    assert capsys.readouterr().err.splitlines() == [
        "fast, seed 3: not finite in epoch 2",
        "20 of 60 runs, 2 min left",
        "40 of 60 runs, 2 min left",
    ]
    assert [duration(seconds) for seconds in (0.2, 89, 91, 5399, 5400)] == ["0 s", "89 s", "2 min", "90 min", "1.5 h"]
