"""glassformer train as a user runs it: what goes to stdout and to stderr, what is left on disk, what is refused."""

import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from glassformer.api import fit
from glassformer.cli import main
from glassformer.cli.training_progress import TrainingProgress
from glassformer.cli.training_report import as_text
from glassformer.train.loop import Listener, Loop
from glassformer.train.run_folder import RunFolder

from ..train.small import small_data, small_recipe, write_npz

SMALL = ("--data", "small.npz", "--set", "model.hidden=[6]")
Command = Callable[..., "Answer"]


class Answer(NamedTuple):
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict:
        return json.loads(self.stdout.splitlines()[-1])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command is run: it holds a small data set."""
    write_npz(tmp_path / "small.npz", small_data())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def glassformer(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """`glassformer …` within this process; anything but an exit is a traceback for the user and fails the test."""
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["glassformer", *arguments])
        with pytest.raises(SystemExit) as exit:
            main()
        code = exit.value.code
        assert code is None or isinstance(code, int)
        said = capfd.readouterr()
        return Answer(code or 0, said.out, said.err)

    yield run
    signal.signal(signal.SIGINT, before)


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_the_answer_is_on_stdout_and_progress_on_stderr(folder: Path) -> None:
    """In a process of its own, with --json: stdout is the one line."""
    result = subprocess.run(
        [sys.executable, "-m", "glassformer", "train", "mlp", *SMALL, "-e", "2", "-b", "8", "-l", "0.01", "-s", "7",
         "--json"],
        capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1", "TERM": "dumb"},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    (line,) = result.stdout.splitlines()
    answer = json.loads(line)
    assert 0 <= answer["test_accuracy"] <= 1
    assert 0 <= answer["val_accuracy"] <= 1
    assert answer["train_seconds"] > 0
    assert {name: answer[name] for name in ("epochs", "parameters", "engine", "seed", "run")} == {
        "epochs": 2, "parameters": 64 * 6 + 6 + 6 * 3 + 3, "engine": "native", "seed": 7, "run": "runs/mlp-1"
    }  # fmt: skip
    said = result.stderr.splitlines()
    assert said[0] == (
        "MLP on small.npz (103 training images, 10 % held out), 2 epochs, batch 8, adamw at 0.01 (warmup-cosine), "
        "seed 7 -> runs/mlp-1"
    )
    assert [line.split()[:2] for line in said[1:]] == [["epoch", "1"], ["epoch", "2"]]
    assert names(folder / "runs/mlp-1") == [
        "curves.png", "log.csv", "metrics.json", "model.safetensors", "recipe.toml", "state.safetensors"
    ]  # fmt: skip
    assert json.loads((folder / "runs/mlp-1/metrics.json").read_text()) == answer


def test_a_preset_is_changed_by_set_and_set_by_flags(glassformer: Command, folder: Path) -> None:
    (folder / "mine.toml").write_text('[model]\nkind = "mlp"\n[training]\nepochs = 9\nbatch = 9\nseed = 9\n')
    changes = ("--set", "training.epochs=1", "--set", "training.batch=5", "--set", "optimiser.schedule.kind=step")
    answer = glassformer("train", "--recipe", "mine.toml", *SMALL, *changes, "--batch", "20", "--out", "run")
    assert answer.code == 0, answer.stderr
    recipe = tomllib.loads((folder / "run/recipe.toml").read_text())
    rest = {"accumulate": 1, "label_smoothing": 0.0, "subset": 0, "samples": 0, "shift": 0, "ema": 0.0}
    rest["augment"] = {"rotate": 0.0, "scale": 0.0, "shear": 0.0, "erase": 0.0}
    rest |= {"steps": 0, "score_every": 1000}
    assert recipe["training"] == {"epochs": 1, "batch": 20, "seed": 9, **rest}
    assert recipe["optimiser"]["schedule"]["kind"] == "step"
    assert recipe["model"]["images"]["shape"] == [8, 8, 1]
    assert recipe["data"] == str(folder / "small.npz")
    assert answer.stdout.splitlines()[0].startswith("test accuracy ")
    assert answer.stdout.endswith(", engine native, run run\n")


def test_data_may_be_named_like_any_setting(glassformer: Command) -> None:
    answer = glassformer("train", "mlp", "--set", "data = small.npz", *SMALL[2:], "-e", "1", "--json")
    assert answer.code == 0, answer.stderr
    assert answer.json["parameters"] == 64 * 6 + 6 + 6 * 3 + 3


def test_several_seeds(glassformer: Command, folder: Path) -> None:
    answer = glassformer("train", "mlp", *SMALL, "-e", "1", "--seeds", "0-2", "--out", "many", "--json")
    assert answer.code == 0, answer.stderr
    result = answer.json
    assert result["seeds"] == [run["seed"] for run in result["runs"]] == [0, 1, 2]
    assert {"test_accuracy", "test_accuracy_std", "val_accuracy", "train_seconds", "epochs", "parameters"} <= set(
        result
    )
    assert ", seeds 0, 1, 2 -> many" in answer.stderr
    assert names(folder / "many") == ["seed-0", "seed-1", "seed-2", "seeds.toml"]
    again = glassformer("train", "mlp", *SMALL, "-e", "1", "--seeds", "4,2", "--out", "many")
    assert again.code == 1
    assert "glassformer: many: holds a run already; continue it with --resume many" in again.stderr
    resumed = glassformer("train", "--resume", "many", "--json").json
    assert resumed == result
    text = as_text(result).splitlines()
    assert [line.split()[:2] for line in text[:3]] == [["seed", "0"], ["seed", "1"], ["seed", "2"]]
    assert "(standard deviation over 3 seeds)" in text[3]


def test_a_run_is_resumed_with_its_own_recipe(glassformer: Command, folder: Path) -> None:
    first = glassformer("train", "mlp", *SMALL, "-e", "1", "--out", "run", "--json")
    again = glassformer("train", "--resume", "run", "--json")
    assert again.json == first.json
    assert again.stderr == "going on with run\n"
    refused = glassformer("train", "--resume", "run", "--epochs", "3", "--data", "small.npz")
    assert refused.code == 2
    assert "a run goes on with its own recipe; data, training.epochs cannot be changed" in refused.stderr
    repeated = glassformer("train", "mlp", *SMALL, "--out", "run")
    assert repeated.code == 1
    assert "glassformer: run: holds a run already; continue it with --resume run" in repeated.stderr


def test_a_run_is_resumed_and_scored_from_another_folder(
    glassformer: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = glassformer("train", "mlp", *SMALL, "-e", "1", "--out", "run", "--json")
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    again = glassformer("train", "--resume", "../run", "--json")
    assert again.code == 0, again.stderr
    assert again.json["test_accuracy"] == first.json["test_accuracy"]
    assert glassformer("eval", "../run", "--json").json["accuracy"] == first.json["test_accuracy"]


def test_a_run_from_arrays_in_python(glassformer: Command, folder: Path) -> None:
    fit("mlp", small_data(), out="run", training__epochs=1, model__hidden=(6,))
    for command in (("eval", "run"), ("train", "--resume", "run"), ("predict", "test:0", "--run", "run")):
        answer = glassformer(*command)
        assert answer.code == 1
        assert "glassformer: the run was trained on arrays given in Python, which no file holds" in answer.stderr
    assert glassformer("eval", "run", "--data", "small.npz").code == 0


def test_the_bar_of_a_resumed_run_ends_where_the_run_does(
    glassformer: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bars: list[tuple[float, float | None]] = []

    def epoch(self: TrainingProgress, row: object) -> None:
        (task,) = self.bar.tasks
        bars.append((task.completed, task.total))

    Loop(small_recipe(epochs=3, data="small.npz"), small_data(), RunFolder(folder / "run"), Listener()).begin()
    monkeypatch.setattr(TrainingProgress, "epoch", epoch)
    assert glassformer("train", "--resume", "run").code == 0
    assert bars == [(10, 30), (20, 30), (30, 30)]  # 93 images in batches of 10


def test_brackets_and_colons_in_a_path_are_shown(glassformer: Command, folder: Path) -> None:
    (folder / "small.npz").rename("[old] :x:.npz")
    answer = glassformer("train", "mlp", "--data", "[old] :x:.npz", *SMALL[2:], "-e", "1", "--out", "[red]run")
    assert "MLP on [old] :x:.npz (103 training images" in answer.stderr
    assert "-> [red]run\n" in answer.stderr
    assert glassformer("train", "--resume", "[red]run").stderr == "going on with [red]run\n"


def test_a_run_that_diverges_says_where(glassformer: Command) -> None:
    answer = glassformer("train", "mlp", *SMALL, "-e", "1", "-b", "8", "--lr", "1e30", "--out", "run")
    assert answer.code == 1
    assert "of epoch 1 the loss is not finite; the first such value is layers." in answer.stderr
    assert "The last good checkpoint is kept in run" in answer.stderr
    assert answer.stdout == ""


def test_presets_are_listed(glassformer: Command) -> None:
    text = glassformer("train", "--list").stdout.splitlines()
    assert all(len(line.split(maxsplit=1)) == 2 for line in text), "a word about each"
    assert [line.split()[0] for line in text] == glassformer("train", "--list", "--json").json["presets"]
    assert "vit-nano " in "\n".join(text)


def test_help_shows_an_example(glassformer: Command) -> None:
    text = glassformer("train", "--help").stdout
    assert "Example: glassformer train vit-pico" in text
    for flag in ("--batch", "-b", "--epochs", "-e", "--lr", "-l", "--seed", "-s", "--data", "-d", "--resume", "--json"):
        assert flag in text


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--batch", "0"), 1, "glassformer: training: batch is 0, expected 1 or more"),
        (("--epochs", "0"), 1, "glassformer: training: epochs is 0, expected 1 or more"),
        (("--lr", "0"), 1, "glassformer: optimiser: lr is 0.0, expected a number above 0"),
        (("--lr", "-0.5"), 1, "glassformer: optimiser: lr is -0.5, expected a number above 0"),
        (("--seed", "-1"), 1, "glassformer: training: seed is -1, expected 0 or more"),
        (("--batch", "x"), 2, "Invalid value for '--batch'"),
        (("--rng", "mersenne"), 1, "engine.rng: 'mersenne' came; input should be 'threefry' or 'xorshift'"),
        (("--rng", "xorshift"), 1, "rng: xorshift repeats runs of patch_attention; this model is MLP"),
        (("--set", "model.widht=3"), 1, "model.widht: MLP has no setting 'widht'"),
        (("--set", "model.kind=vit", "--set", "model.heads=5"), 1, "width 64 does not divide into 5 heads"),
        (("--set", "optimiser.name=adamm"), 1, "optimiser: 'adamm' is not known (did you mean 'adam"),
        (("--set", "optimiser.name=sgd"), 1, "optimiser: sgd does not use weight_decay, which is 0.05"),
        (("--seeds", "x"), 2, "'x' came, expected two or more different seeds: 0-4 or 1,5,7"),
        (("--seeds", "3"), 2, "'3' came, expected two or more different seeds"),
        (("--seeds", "4-2"), 2, "'4-2' came, expected two or more different seeds"),
        (("--seeds", "1,1"), 2, "'1,1' came, expected two or more different seeds"),
        (("--seeds", "0-999999999999"), 2, "'0-999999999999' came, expected 10,000 seeds or fewer"),
        (("--batch", str((1 << 63) - 1)), 1, "training: batch is 9,223,372,036,854,775,807, expected less than 2^31"),
        (("--set", "model.kind=vit", "--set", "model.depth=2000000"), 1, "ViT: 2,000,000 blocks one after another"),
        (("--data", "~nobody/x.npz"), 1, "~nobody/x.npz: there is no such file or folder"),
        (("--seeds", "1,-2"), 2, "'1,-2' came, expected two or more different seeds"),
        (("--recipe", "gone.toml"), 1, "glassformer: gone.toml: there is no such file"),
        (("--recipe", "small.npz"), 1, "glassformer: small.npz: damaged: not UTF-8 text"),
        (("--out", "small.npz/run"), 1, "small.npz/run: cannot be written: Not a directory; choose another folder"),
        (("--data", "gone.npz"), 1, "gone.npz: there is no such file or folder"),
    ],
)
def test_mistakes_get_a_message_and_leave_nothing(
    arguments: tuple[str, ...], code: int, message: str, glassformer: Command, folder: Path
) -> None:
    answer = glassformer("train", "mlp", "--data", "small.npz", "-e", "1", *arguments)
    assert message in answer.stderr
    assert answer.code == code
    assert answer.stdout == ""
    assert names(folder) == ["small.npz"]


def test_an_unknown_preset_and_a_folder_that_is_no_run(glassformer: Command, folder: Path) -> None:
    unknown = glassformer("train", "vit-nan")
    assert unknown.code == 1
    assert "glassformer: no preset is called 'vit-nan' (did you mean 'vit-nano'?); known: " in unknown.stderr
    no_run = glassformer("train", "--resume", ".")
    assert no_run.code == 1
    assert "glassformer: .: not a run folder, it has no recipe.toml" in no_run.stderr
    assert names(folder) == ["small.npz"]
