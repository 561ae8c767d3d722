"""glassformer diagnose as a user runs it."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from glassformer.cli.diagnose import diagnose
from glassformer.errors import CheckpointError, GlassformerError
from glassformer.lab.plan import parse
from glassformer.train.run_folder import RunFolder

from ..lab.small import lines_of
from ..train.small import small_data, small_recipe, write_npz

app = typer.Typer()
app.command("diagnose")(diagnose)


def invoke(*arguments: str | Path) -> Any:
    return CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}).invoke(app, [*map(str, arguments)])


def invoked(*arguments: str | Path) -> Any:
    result = invoke(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run's folder with its recipe: an MLP on images of 8x8."""
    monkeypatch.chdir(tmp_path)
    data = write_npz(tmp_path / "small.npz", small_data())
    RunFolder(tmp_path / "runs/mine").create(small_recipe("sgd", data=str(data), epochs=1))
    return tmp_path / "runs/mine"


def test_the_plan_alone_is_printed_and_can_be_read_again(run: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    plan = parse(invoked(run, "--plan", "--target", "0.9", "--seeds", "4").stdout, "mine")
    assert (plan.target, plan.seeds) == (0.9, (1, 2, 3, 4))
    assert plan.baseline.data == str(tmp_path / "small.npz")
    as_json = json.loads(invoked(run, "--plan", "--json").stdout)
    assert parse(as_json["plan"], "mine").baseline == plan.baseline
    assert sorted(tmp_path.rglob("*")) == before


def test_suspects_are_tried_and_the_command_that_repeats_it_is_said(run: Path, tmp_path: Path) -> None:
    result = invoked(
        "runs/mine", "--seeds", "3", "--target", "0.9", "--jobs", "1", "--engine", "native", "--budget", "3s"
    )
    study = tmp_path / "studies/mine-diagnosis"
    assert result.stdout.startswith("Why is the accuracy of mine not better?\n")
    assert "rate " in result.stdout
    assert lines_of(study)
    assert "glassformer diagnose runs/mine --target 0.9 --seeds 3 --engine native" in (study / "report.md").read_text()


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    result = invoke(tmp_path)
    assert isinstance(result.exception, GlassformerError)
    assert str(tmp_path) in str(result.exception)


def test_bad_words_are_refused(run: Path) -> None:
    for words, message in (
        (
            ("--target", "95"),
            "Invalid value for --target: mine: target is 95, expected an accuracy above 0, up to 1; for 95",
        ),
        (("--target", "95"), "% write 0.95"),
        (("--seeds", "2"), "2 seeds came"),
        (("--metric", "acuracy"), "did you mean 'accuracy'"),
        (("--budget", "soon"), "'soon' came"),
    ):
        result = invoke(run, *words)
        assert result.exit_code == 2
        assert message in " ".join(result.output.replace("│", " ").split())


def test_the_study_of_another_diagnosis_is_not_mixed_with_this(run: Path, tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    other = invoked(run, "--plan", "--seeds", "4").stdout.replace("batch = ", "batch = 1", 1)
    (tmp_path / "study/plan.toml").write_text(other.replace("the loss of", "all of"))
    result = invoke(run, "--seeds", "5", "--out", "study", "--jobs", "1", "--budget", "9h")
    assert isinstance(result.exception, CheckpointError)
    assert "another plan" in str(result.exception)


def test_help_shows_an_example() -> None:
    assert "Example: glassformer diagnose runs/vit-nano-1" in " ".join(
        invoked("--help").output.replace("`", "").split()
    )
