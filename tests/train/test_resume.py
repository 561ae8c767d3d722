"""A run that was stopped anywhere, by anything, and went on is the run that was never stopped, bit for bit."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from glassformer.data import Samples, make_dataset
from glassformer.errors import CheckpointError
from glassformer.predict.run import load
from glassformer.train import fit, loop
from glassformer.train.loop import InterruptedRunError, Listener, Loop
from glassformer.train.recipe import Engine, Recipe, Validation
from glassformer.train.run_folder import RunFolder
from glassformer.train.weights import load_arrays, save_arrays

from ..cli.command import PLAIN, glassformer
from .small import MADE, Stop, assert_same_run, small_data, small_recipe, small_samples, write_npz

slow = pytest.mark.slow
QUICK = ("adamw", "xorshift")  # one of each engine
EPOCHS = 2
WRITES = 3 + EPOCHS * 3 + 2  # recipe, log, state; each epoch's model, log, state; metrics, curves

# Ends itself with `kill -9`: as the n-th file is put in its place, or after the n-th chunk, of one step each but for
# the first. "saved": every chunk is saved.
KILLED = """
import os, signal, sys
from pathlib import Path
from glassformer.train import fit, loop
from glassformer.train.run_folder import RunFolder

(where, *saved), n, run = sys.argv[1].split(), int(sys.argv[2]), Path(sys.argv[3])
counted = 0

def count(here):
    global counted
    counted += here == where
    if here == where and counted == n:
        os.kill(os.getpid(), signal.SIGKILL)

class Watch(loop.Listener):
    def chunk(self, *_):
        count("chunk")

def replace(self, target, replace=Path.replace):
    count("write")
    return replace(self, target)

Path.replace = replace
loop.CHUNK_SECONDS = 0.0
loop.SAVE_SECONDS = 0.0 if saved else 60.0
fit.resume(run, Watch())
"""


# Ctrl-C during the seventh chunk: in the second epoch, of which nine steps of twelve are then done.
CTRL_C = """
import os, signal
from glassformer.cli import main
from glassformer.cli.training_progress import TrainingProgress
from glassformer.train import loop

chunks = 0

def chunk(self, *told, draw=TrainingProgress.chunk):
    global chunks
    chunks += 1
    if chunks == 7:
        os.kill(os.getpid(), signal.SIGINT)
    draw(self, *told)

loop.CHUNK_SECONDS = 0.0
TrainingProgress.chunk = chunk
main()
"""


class KilledError(BaseException):
    """Nothing in the package catches it."""


class Told(Listener):
    def __init__(self) -> None:
        self.notices: list[str] = []

    def notice(self, text: str) -> None:
        self.notices.append(text)


@contextmanager
def killed_at(write: int, written: list[str]) -> Iterator[None]:
    """As the n-th file is put in its place."""
    put = Path.replace

    def put_or_die(self: Path, target: Path) -> Path:
        written.append(Path(target).name)
        if len(written) == write:
            raise KilledError
        return put(self, target)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, "replace", put_or_die)
        with pytest.raises(KilledError):
            yield


@pytest.fixture(scope="module")
def data_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_npz(tmp_path_factory.mktemp("data") / "small.npz", small_data()))


@pytest.fixture(scope="module")
def whole(data_file: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A run of each kind, never stopped, trained when it is first asked for."""
    folder = tmp_path_factory.mktemp("whole")

    @cache
    def run(kind: str) -> Path:
        fit.train(small_recipe(kind, epochs=EPOCHS, data=data_file), small_data(), folder / kind, Listener())
        return folder / kind

    return run


def begin(kind: str, data_file: str, path: Path, listener: Listener) -> Loop:
    made = Loop(small_recipe(kind, epochs=EPOCHS, data=data_file), small_data(), RunFolder(path), listener)
    made.begin()
    return made


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=() if kind in QUICK else slow) for kind in MADE])
def test_stopped_in_the_middle_of_an_epoch(
    kind: str, data_file: str, whole: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CHUNK_SECONDS", 0.0)  # one step at a time, after a first chunk of eight
    run = tmp_path / "run"
    with pytest.raises(InterruptedRunError, match=f"stopped in epoch 1 and saved; go on with --resume {run}"):
        fit.finish(begin(kind, data_file, run, Stop(after=1)))
    with pytest.raises(InterruptedRunError, match="stopped in epoch 2 and saved"):
        fit.resume(run, Stop(after=6))
    fit.resume(run, Listener())
    assert_same_run(run, whole(kind))


def test_stopped_at_the_end_of_an_epoch(data_file: str, whole: Callable[[str], Path], tmp_path: Path) -> None:
    made = begin("xorshift", data_file, tmp_path, Stop(after=1))
    made.steps_at_once = 1000
    with pytest.raises(InterruptedRunError, match="stopped after epoch 1 and saved"):
        fit.finish(made)
    fit.resume(tmp_path, Listener())
    assert_same_run(tmp_path, whole("xorshift"))


def test_the_last_epoch_is_finished_though_a_stop_was_asked_for(data_file: str, tmp_path: Path) -> None:
    made = Loop(small_recipe(epochs=1, data=data_file), small_data(), RunFolder(tmp_path), Stop(after=1))
    made.begin()
    made.steps_at_once = 1000
    assert fit.finish(made)["epochs"] == 1


def test_resuming_a_finished_run_changes_nothing(whole: Callable[[str], Path]) -> None:
    before = {file.name: file.read_bytes() for file in whole("adamw").iterdir()}
    fit.resume(whole("adamw"), Listener())
    assert {file.name: file.read_bytes() for file in whole("adamw").iterdir()} == before


@pytest.mark.parametrize("part", ["images", "labels", "order"])
@pytest.mark.parametrize("several", [False, pytest.param(True, marks=slow)])
def test_other_data_than_the_run_was_begun_with_is_refused(several: bool, part: str, tmp_path: Path) -> None:
    train, test = small_samples(103, 1), small_samples(37, 2)
    data = write_npz(tmp_path / "small.npz", make_dataset("small", train, test))
    recipe = small_recipe(epochs=1, data=str(data))
    if several:
        fit.train_many(recipe, small_data(), tmp_path, (1, 2), Listener())
        run = tmp_path / "seed-2"
    else:
        run = tmp_path / "run"
        fit.train(recipe, small_data(), run, Listener())
    before = fit.resume(run)
    match part:
        case "images":
            train.images[17, 3, 3] ^= 1
        case "labels":
            train.labels[17] = (train.labels[17] + 1) % 3
        case "order":
            train = Samples(train.images[::-1], train.labels[::-1])
    write_npz(data, make_dataset("small", train, test))
    with pytest.raises(CheckpointError, match=rf"{run}: the training data of {data} is not what the run was"):
        fit.resume(run)
    about = load_arrays(run / "state.safetensors")[1]["progress"]
    del about["data_digest"]  # a run of before
    save_arrays(run / "state.safetensors", load_arrays(run / "state.safetensors")[0], {"progress": about})
    assert fit.resume(run) == before


@pytest.mark.parametrize("at_once", [3, *(pytest.param(steps, marks=slow) for steps in (1, 1000))])
def test_how_an_epoch_is_cut_does_not_matter(
    at_once: int, data_file: str, whole: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class AlwaysTheSame(Loop):
        steps_at_once = property(lambda self: at_once, lambda self, found_out: None)  # pyright: ignore

    made = AlwaysTheSame(
        small_recipe("adamw", epochs=EPOCHS, data=data_file), small_data(), RunFolder(tmp_path), Listener()
    )
    made.begin()
    fit.finish(made)
    assert_same_run(tmp_path, whole("adamw"))


@pytest.mark.parametrize("n", range(1, WRITES + 1))
def test_stopped_at_every_file_that_is_written(
    n: int, data_file: str, whole: Callable[[str], Path], tmp_path: Path
) -> None:
    """Before the first state is there, nothing is lost: the run starts over, and says so."""
    with killed_at(n, []):
        fit.finish(begin("momentum", data_file, tmp_path, Listener()))
    told = Told()
    if (tmp_path / "recipe.toml").exists():
        fit.resume(tmp_path, told)
    else:
        fit.finish(begin("momentum", data_file, tmp_path, told))
    over = [f"{tmp_path}: it was stopped before its first state was saved, and starts over"]
    assert [text for text in told.notices if "engine" not in text] == (over if 1 < n <= 3 else [])
    assert_same_run(tmp_path, whole("momentum"))
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in whole("momentum").iterdir()}


SEEDS = (1, 4)


def of_seeds(engine: str, data_file: str) -> Recipe:
    """Without improvement it stops: the seeds need not be done at the same time."""
    recipe = small_recipe("momentum", epochs=3, data=data_file)
    patient = replace(recipe, validation=Validation(share=0.1, patience=1))
    return replace(patient, engine=Engine(name=engine))  # pyright: ignore[reportArgumentType]


@pytest.fixture(scope="module")
def whole_seeds(data_file: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("seeds")
    for engine in ("jax", "native"):
        fit.train_many(of_seeds(engine, data_file), small_data(), folder / engine, SEEDS, Listener())
    return {engine: folder / engine for engine in ("jax", "native")}


def assert_same_seeds(one: Path, other: Path) -> None:
    assert sorted(path.name for path in one.iterdir()) == sorted(path.name for path in other.iterdir())
    for seed in SEEDS:
        assert_same_run(one / f"seed-{seed}", other / f"seed-{seed}")


# jax: seeds.toml, two recipes; the state of all, two logs and states; each epoch two models and again five files
@pytest.mark.parametrize("n", [2, 4, 6, 9, 11, 13, 19])
def test_several_seeds_stopped_as_a_file_is_written(
    n: int, data_file: str, whole_seeds: dict[str, Path], tmp_path: Path
) -> None:
    many, written, told = tmp_path / "many", [], Told()
    recipe = of_seeds("jax", data_file)
    with killed_at(n, written):
        fit.train_many(recipe, small_data(), many, SEEDS, Listener())
    if n <= 2:
        assert not many.exists()
        fit.train_many(recipe, small_data(), many, SEEDS, Listener())
    else:
        fit.resume(many, told)
    assert any("starts over" in text for text in told.notices) == (n == 4), written
    assert_same_seeds(many, whole_seeds["jax"])


@pytest.mark.parametrize("engine", ["jax", "native"])
def test_several_seeds_stopped_within_an_epoch(
    engine: str, data_file: str, whole_seeds: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CHUNK_SECONDS", 0.0)
    recipe, many = of_seeds(engine, data_file), tmp_path / "many"
    with pytest.raises(InterruptedRunError, match=rf"stopped in epoch 1 and saved; go on with --resume {many}$"):
        fit.train_many(recipe, small_data(), many, SEEDS, Stop(after=2))
    with pytest.raises(
        InterruptedRunError, match=rf"stopped (in|after) epoch \d and saved; go on with --resume {many}$"
    ):
        fit.resume(many, Stop(after=14))
    result = fit.resume(many)
    assert result["seeds"] == list(SEEDS)
    assert_same_seeds(many, whole_seeds[engine])
    assert fit.resume(many) == result
    with pytest.raises(CheckpointError, match=rf"many: holds a run for each of 2 seeds; name one: {many}/seed-1"):
        load(many)


@pytest.mark.parametrize("seeds", ["[]", "[1]", "3", "[1, 'x']", "[1, true]"])
def test_seeds_that_are_none(seeds: str, whole_seeds: dict[str, Path], tmp_path: Path) -> None:
    text = (whole_seeds["jax"] / "seeds.toml").read_text()
    (tmp_path / "seeds.toml").write_text(text.replace(f"seeds = {list(SEEDS)}", f"seeds = {seeds}"))
    with pytest.raises(CheckpointError, match=r"seeds\.toml: seeds is .*, expected two or more whole numbers"):
        fit.resume(tmp_path)


# An epoch has three chunks and writes model, log and state.
@pytest.mark.parametrize(
    ("where", "n"),
    [
        ("write", 2),
        ("chunk", 5),
        ("chunk saved", 3),
        *(pytest.param(*moment, marks=slow) for moment in (("write", 1), ("write", 3), ("write", 4), ("chunk", 2))),
    ],
)
def test_killed(where: str, n: int, data_file: str, whole: Callable[[str], Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    begin("xorshift", data_file, run, Listener())
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, where, str(n), str(run)],
        capture_output=True,
        text=True,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (run / "metrics.json").exists()
    fit.resume(run, Listener())
    assert_same_run(run, whole("xorshift"))


def test_ctrl_c_on_the_command_line(data_file: str, tmp_path: Path) -> None:
    options = ("train", "mlp", "--data", data_file, "-e", "2", "-b", "8", "--set", "model.hidden=[9]")
    stopped = subprocess.run(
        [sys.executable, "-c", CTRL_C, *options, "--out", "run"],
        cwd=tmp_path,
        env=os.environ | PLAIN,
        capture_output=True,
        text=True,
    )
    assert stopped.returncode == 1
    assert stopped.stderr.splitlines()[-2:] == [
        "stopping after this chunk; press Ctrl-C again to stop at once",
        "glassformer: stopped in epoch 2 and saved; go on with --resume run",
    ]
    assert stopped.stdout == ""
    assert not (tmp_path / "run/metrics.json").exists()
    assert glassformer("train", "--resume", "run", folder=tmp_path).returncode == 0
    assert glassformer(*options, "--out", "whole", folder=tmp_path).returncode == 0
    assert_same_run(tmp_path / "run", tmp_path / "whole")
