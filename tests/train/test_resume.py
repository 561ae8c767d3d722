"""A run that was stopped anywhere, by anything, and went on is the run that was never stopped, bit for bit."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.train import fit, loop
from glassformer.train.loop import InterruptedRunError, Listener, Loop
from glassformer.train.run_folder import RunFolder

from .small import MADE, Stop, assert_same_run, small_data, small_recipe, write_npz

EPOCHS = 2
WRITES = 3 + EPOCHS * 3 + 2  # recipe, log, state; each epoch's model, log, state; metrics, curves

# Ends itself with `kill -9`: as the n-th file is put in its place, or after the n-th stretch.
KILLED = """
import os, signal, sys
from pathlib import Path
from glassformer.train import fit, loop
from glassformer.train.run_folder import RunFolder

where, n, run = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
counted = 0

def count(here):
    global counted
    counted += here == where
    if here == where and counted == n:
        os.kill(os.getpid(), signal.SIGKILL)

class Watch(loop.Listener):
    def stretch(self, *_):
        count("stretch")

def replace(self, target, replace=Path.replace):
    count("write")
    return replace(self, target)

Path.replace = replace
loop.STRETCH_SECONDS = 0.0
loop.SAVE_SECONDS = 0.0 if where == "stretch" else 60.0
fit.resume(run, Watch())
"""


COMMAND = [sys.executable, "-m", "glassformer", "train"]
ENVIRONMENT = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1", "TERM": "xterm"}


class KilledError(BaseException):
    """Nothing in the package catches it."""


@pytest.fixture(scope="module")
def data_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_npz(tmp_path_factory.mktemp("data") / "small.npz", small_data()))


@pytest.fixture(scope="module")
def whole(data_file: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every kind of run, never stopped."""
    folder = tmp_path_factory.mktemp("whole")
    for kind in MADE:
        fit.train(small_recipe(kind, epochs=EPOCHS, data=data_file), small_data(), folder / kind, Listener())
    return {kind: folder / kind for kind in MADE}


def begin(kind: str, data_file: str, path: Path, listener: Listener) -> Loop:
    made = Loop(small_recipe(kind, epochs=EPOCHS, data=data_file), small_data(), RunFolder(path), listener)
    made.begin()
    return made


@pytest.mark.parametrize("kind", MADE)
def test_stopped_in_the_middle_of_an_epoch(
    kind: str, data_file: str, whole: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "STRETCH_SECONDS", 0.0)  # one step at a time, after a first stretch of eight
    run = tmp_path / "run"
    with pytest.raises(InterruptedRunError, match=f"stopped in epoch 1 and saved; go on with --resume {run}"):
        fit.finish(begin(kind, data_file, run, Stop(after=1)))
    with pytest.raises(InterruptedRunError, match="stopped in epoch 2 and saved"):
        fit.resume(run, Stop(after=6))
    fit.resume(run, Listener())
    assert_same_run(run, whole[kind])


def test_stopped_at_the_end_of_an_epoch(data_file: str, whole: dict[str, Path], tmp_path: Path) -> None:
    made = begin("xorshift", data_file, tmp_path, Stop(after=1))
    made.steps_at_once = 1000
    with pytest.raises(InterruptedRunError, match="stopped after epoch 1 and saved"):
        fit.finish(made)
    fit.resume(tmp_path, Listener())
    assert_same_run(tmp_path, whole["xorshift"])


def test_the_last_epoch_is_finished_though_a_stop_was_asked_for(data_file: str, tmp_path: Path) -> None:
    made = Loop(small_recipe(epochs=1, data=data_file), small_data(), RunFolder(tmp_path), Stop(after=1))
    made.begin()
    made.steps_at_once = 1000
    assert fit.finish(made)["epochs"] == 1


def test_resuming_a_finished_run_changes_nothing(whole: dict[str, Path]) -> None:
    before = {file.name: file.read_bytes() for file in whole["adamw"].iterdir()}
    fit.resume(whole["adamw"], Listener())
    assert {file.name: file.read_bytes() for file in whole["adamw"].iterdir()} == before


@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_how_an_epoch_is_cut_does_not_matter(
    at_once: int, data_file: str, whole: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class AlwaysTheSame(Loop):
        steps_at_once = property(lambda self: at_once, lambda self, found_out: None)  # pyright: ignore

    made = AlwaysTheSame(
        small_recipe("adamw", epochs=EPOCHS, data=data_file), small_data(), RunFolder(tmp_path), Listener()
    )
    made.begin()
    fit.finish(made)
    assert_same_run(tmp_path, whole["adamw"])


@pytest.mark.parametrize("n", range(1, WRITES + 1))
def test_stopped_at_every_file_that_is_written(
    n: int, data_file: str, whole: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first state is there, nothing is lost: the same folder is begun again."""
    put = Path.replace
    written: list[str] = []

    def put_or_die(self: Path, target: Path) -> Path:
        written.append(Path(target).name)
        if len(written) == n:
            raise KilledError
        return put(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", put_or_die)
        with pytest.raises(KilledError):
            fit.finish(begin("momentum", data_file, tmp_path, Listener()))
    if (tmp_path / "state.safetensors").exists():
        fit.resume(tmp_path, Listener())
    else:
        assert written in (["recipe.toml"], ["recipe.toml", "log.csv"], ["recipe.toml", "log.csv", "state.safetensors"])
        fit.finish(begin("momentum", data_file, tmp_path, Listener()))
    assert_same_run(tmp_path, whole["momentum"])
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in whole["momentum"].iterdir()}


# An epoch writes model, log and state. A stretch is a step, and with no patience between saves each is saved.
@pytest.mark.parametrize(("where", "n"), [("write", 1), ("write", 2), ("write", 3), ("write", 4), ("stretch", 7)])
def test_killed(
    where: str, n: int, data_file: str, whole: dict[str, Path], tmp_path: Path, compiled_once: dict[str, str]
) -> None:
    run = tmp_path / "run"
    begin("xorshift", data_file, run, Listener())
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, where, str(n), str(run)],
        capture_output=True,
        text=True,
        env={**os.environ, **compiled_once},
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (run / "metrics.json").exists()
    fit.resume(run, Listener())
    assert_same_run(run, whole["xorshift"])


@pytest.mark.slow
def test_ctrl_c_on_the_command_line(tmp_path: Path) -> None:
    """One epoch of a second or two: stopped when its bar shows on the terminal, then taken up again."""
    write_npz(tmp_path / "long.npz", small_data(count=150_000))
    options = ["mlp", "--data", "long.npz", "-e", "1", "-b", "1", "--set", "model.hidden=[9]"]
    command([*options, "--out", "whole"], tmp_path)
    terminal, its_end = os.openpty()
    with subprocess.Popen(
        [*COMMAND, *options, "--out", "run"], cwd=tmp_path, env=ENVIRONMENT, stderr=its_end
    ) as process:
        os.close(its_end)
        said = ""
        while "images/s" not in said:
            said += os.read(terminal, 1000).decode(errors="replace")
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # how a terminal ends
            while part := os.read(terminal, 1000):
                said += part.decode(errors="replace")
        assert process.wait() == 1
    os.close(terminal)
    assert "stopping after this stretch; press Ctrl-C again to stop at once" in said
    assert "glassformer: stopped in epoch 1 and saved; go on with --resume run" in said
    assert "Traceback" not in said
    assert not (tmp_path / "run/metrics.json").exists()
    command(["--resume", "run"], tmp_path)
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def command(arguments: list[str], folder: Path) -> None:
    done = subprocess.run([*COMMAND, *arguments], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
