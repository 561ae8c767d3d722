"""What is on disk: files written whole, run folders that are refused or damaged, and the words for each."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from glassformer import load
from glassformer.errors import CheckpointError, FileError, SettingError, ShapeError
from glassformer.files import LOCK, locked, write_whole
from glassformer.train import fit
from glassformer.train.loop import Listener
from glassformer.train.presets import recipe_file
from glassformer.train.run_folder import RunFolder
from glassformer.train.settings import with_changes
from glassformer.train.weights import FORMAT, load_arrays, save_arrays

from .small import small_data, small_recipe, write_npz

# A real disk that is full, as far as this process can tell: no file may grow beyond 64 kB.
NO_ROOM = """
import resource, signal, sys
from pathlib import Path
from glassformer.errors import FileError
from glassformer.files import write_whole

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
try:
    write_whole(Path(sys.argv[1]), bytes(1 << 17))
except FileError as error:
    sys.exit(str(error))
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    data = str(write_npz(folder / "small.npz", small_data()))
    fit.train(small_recipe("xorshift", data=data, epochs=1), small_data(), folder / "run", Listener())
    return folder / "run"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy that may be spoiled."""
    copy = tmp_path / "run"
    copy.mkdir()
    for file in finished.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def rewrite(path: Path, changes: dict[str, np.ndarray | None], about: dict[str, Any] | None = None) -> None:
    """Other arrays, or other things said about them; None takes one out."""
    arrays, said = load_arrays(path)
    arrays = {name: array for name, array in (arrays | changes).items() if array is not None}
    save_arrays(path, arrays, said | (about or {}))


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep/er/file"
    write_whole(target, "one\n")
    write_whole(target, b"two\n")
    assert target.read_bytes() == b"two\n"
    assert names(target.parent) == ["file"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_umask_is_respected(umask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "file", "new")
        with locked(tmp_path):
            found = [(tmp_path / name).stat().st_mode & 0o777 for name in ("file", LOCK)]
    finally:
        os.umask(before)
    assert found == [mode, mode]


def test_what_is_no_file_is_never_replaced(tmp_path: Path) -> None:
    """Not even by root, who may: a pipe stays a pipe, a folder a folder."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name, is_still in (("pipe", Path.is_fifo), ("folder", Path.is_dir)):
        with pytest.raises(FileError, match=rf"{name}: is there, and is no file; nothing was written"):
            write_whole(tmp_path / name, b"new")
        assert is_still(tmp_path / name)


def test_the_folder_is_flushed_after_the_file_is_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, flushed = tmp_path / "file", []

    def fsync(handle: int) -> None:
        flushed.append((stat.S_ISDIR(os.fstat(handle).st_mode), target.exists()))
        if target.exists():
            raise OSError(22, "Invalid argument")  # as a file system that cannot says: the file is there all the same

    monkeypatch.setattr(os, "fsync", fsync)
    write_whole(target, "new")
    assert flushed == [(False, False), (True, True)]


def test_what_a_killed_write_left_is_removed_by_the_next(tmp_path: Path) -> None:
    killed = "import os; from pathlib import Path; from glassformer.files import write_whole\n"
    killed += "Path.replace = lambda *_: os._exit(9)\n"
    script = killed + "write_whole(Path('log.csv'), 'cut')"
    assert subprocess.run([sys.executable, "-c", script], cwd=tmp_path).returncode == 9
    (left,) = names(tmp_path)
    others = (".log.csv.swp", ".recipe.toml.x.part", "log.csv.part")  # an editor's; another file's; somebody's
    for name in others:
        (tmp_path / name).touch()
    write_whole(tmp_path / "log.csv", "one")
    assert left in names(tmp_path), "it may be another process that is writing now"
    for name in (left, *others):
        os.utime(tmp_path / name, (0, 0))
    write_whole(tmp_path / "log.csv", "two")
    assert names(tmp_path) == sorted(["log.csv", *others])


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "state.safetensors"
    target.write_text("old")
    result = subprocess.run([sys.executable, "-c", NO_ROOM, str(target)], capture_output=True, text=True)
    assert result.returncode == 1
    assert "state.safetensors: cannot be written: File too large; what was there before is unchanged" in result.stderr
    assert "Traceback" not in result.stderr
    assert target.read_text() == "old"
    assert names(tmp_path) == ["state.safetensors"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "Ctrl-C"])
def test_nothing_is_left_of_a_write_that_failed(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise error

    (tmp_path / "file").write_text("old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises((FileError, KeyboardInterrupt)):
        write_whole(tmp_path / "file", "new")
    assert (tmp_path / "file").read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_a_disk_that_fills_up_while_training_keeps_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ThenFull(Listener):
        def epoch(self, row: object) -> None:
            def fail(_: int) -> None:
                raise OSError(28, "No space left on device")

            monkeypatch.setattr(os, "fsync", fail)

    with pytest.raises(FileError, match=r"model\.safetensors: cannot be written: No space left on device"):
        fit.train(small_recipe("momentum", epochs=3), small_data(), tmp_path, ThenFull())
    monkeypatch.undo()
    assert load_arrays(tmp_path / "model.safetensors")[1]["epoch"] == 1
    assert load_arrays(tmp_path / "state.safetensors")[1]["progress"]["epoch"] == 1
    assert names(tmp_path) == ["log.csv", "model.safetensors", "recipe.toml", "state.safetensors"]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(FileError, match=r"file/run: cannot be written: .*choose another folder with --out"):
        fit.train(small_recipe(), small_data(), tmp_path / "file/run", Listener())
    assert names(tmp_path) == ["file"]


def test_an_existing_run_is_not_overwritten(run: Path) -> None:
    before = {file.name: file.read_bytes() for file in run.iterdir()}
    with pytest.raises(FileError, match=rf"{run}: holds a run already; continue it with --resume {run}, or choose"):
        fit.train(small_recipe(), small_data(), run, Listener())
    assert {file.name: file.read_bytes() for file in run.iterdir()} == before


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        (["model.kind=vit", "model.width=6", "model.heads=5"], ShapeError),
        (["model.kind=vit", "model.patch_size=3"], ShapeError),
        (["model.kind=vit", "model.dropout=1.0"], SettingError),
        (["engine.rng=xorshift"], SettingError),
    ],
)
def test_a_recipe_that_does_not_work_leaves_nothing(changes: list[str], error: type[Exception], tmp_path: Path) -> None:
    recipe = small_recipe()
    changed = with_changes(recipe, [*changes, f"model.images.shape={list(recipe.model.example(1).shape[1:])}"])
    with pytest.raises(error):
        fit.train(changed, small_data(), tmp_path / "run", Listener())
    assert names(tmp_path) == []


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    message = r"not a run folder, it has no recipe\.toml; run folders are written by `glassformer train`"
    for folder in (tmp_path, tmp_path / "gone"):
        with pytest.raises(CheckpointError, match=message):
            load(folder)
        with pytest.raises(CheckpointError, match=message):
            fit.resume(folder, Listener())
    assert names(tmp_path) == []


def test_a_recipe_that_was_spoiled(run: Path) -> None:
    (run / "recipe.toml").write_text("model = [")
    with pytest.raises(CheckpointError, match=r"recipe\.toml: cannot be read as TOML"):
        load(run)


@pytest.mark.parametrize("spoil", ["cut", "garbage", "empty", "folder", "gone"])
@pytest.mark.parametrize("name", ["model.safetensors", "state.safetensors"])
def test_damaged_weights(name: str, spoil: str, run: Path) -> None:
    file = run / name
    content = file.read_bytes()
    file.unlink()
    match spoil:
        case "cut":
            file.write_bytes(content[:-100])
        case "garbage":
            file.write_bytes(np.random.default_rng(0).bytes(len(content)))
        case "empty":
            file.touch()
        case "folder":
            file.mkdir()
    message = "there is no such file" if spoil in ("folder", "gone") else "damaged or not a safetensors file"
    with pytest.raises(CheckpointError, match=rf"{name}: {message}"):
        load(run) if name.startswith("model") else fit.resume(run, Listener())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused_by_name(value: float, run: Path) -> None:
    bad: dict[str, np.ndarray | None] = {
        name: np.full_like(load_arrays(run / "model.safetensors")[0][name], value) for name in ("head.b", "head.w")
    }
    rewrite(run / "model.safetensors", bad)
    message = (
        r"model\.safetensors: 2 of \d+ tensors hold values that are not finite \(NaN or infinite\): head\.b, head\.w"
    )
    with pytest.raises(CheckpointError, match=message + r"\. The training diverged, .*\(--lr\)"):
        load(run)
    with pytest.raises(CheckpointError, match=message):
        fit.run_recipe("mlp", small_data(), lambda recipe: recipe, out=run.parent / "more", start=run)
    assert names(run.parent) == ["run"]
    rewrite(run / "state.safetensors", {"state.params.head.b": bad["head.b"]})
    with pytest.raises(CheckpointError, match=r"state\.safetensors: 1 of \d+ tensors hold .*: head\.b\. "):
        fit.resume(run)


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff", b"[" * 3000, b"3"])
def test_a_result_that_was_spoiled(content: bytes, run: Path) -> None:
    (run / "metrics.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"metrics\.json: damaged"):
        _ = load(run).metrics


def test_weights_come_with_the_first_epoch(run: Path) -> None:
    (run / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=f"end of the first epoch: go on with --resume {run}"):
        load(run)


@pytest.mark.parametrize("classes", [3, "abc", {"0": 1}])
def test_classes_that_are_no_list(classes: Any, run: Path) -> None:
    rewrite(run / "model.safetensors", {}, {"classes": classes})
    with pytest.raises(CheckpointError, match=r"classes is .*, expected a list of names"):
        load(run)


def test_weights_of_a_newer_release(run: Path) -> None:
    rewrite(run / "model.safetensors", {}, {"format": FORMAT + 1})
    with pytest.raises(CheckpointError, match="format version 2, this release reads up to 1; update glassformer"):
        load(run)


def test_a_recipe_of_a_newer_release(run: Path) -> None:
    """Its settings may be unknown here: the version is what matters."""
    file = run / "recipe.toml"
    written = file.read_text()
    assert recipe_file(file) == RunFolder(run).recipe()
    file.write_text(written.replace(f"format = {FORMAT}\n", f"format = {FORMAT + 1}\nprecision = 16\n"))
    message = r"recipe\.toml: format version 2, this release reads up to 1; update glassformer"
    for read in (load, fit.resume, lambda _: recipe_file(file)):
        with pytest.raises(CheckpointError, match=message):
            read(run)
    file.write_text(written.replace(f"format = {FORMAT}\n", ""))  # as it was before it had a version
    assert load(run).recipe.training.epochs == 1


def test_weights_of_somebody_else(run: Path) -> None:
    save_file({"w": np.zeros(3)}, run / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model\.safetensors: not written by glassformer"):
        load(run)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"head.b": None}, "'head.b' is missing"),
        (
            {"haed.b": np.zeros(3, np.float32)},
            r"holds 'haed.b', which this model does not have \(did you mean 'head.b'\?\)",
        ),
        ({"head.b": np.zeros(4, np.float32)}, r"'head.b' has shape \(4,\), the model expects \(3,\)"),
        ({"head.b": np.zeros(3, np.float64)}, "'head.b' is float64, the model expects float32"),
    ],
)
def test_weights_of_another_model(changes: dict[str, np.ndarray | None], message: str, run: Path) -> None:
    rewrite(run / "model.safetensors", changes)
    with pytest.raises(CheckpointError, match=rf"model\.safetensors: {message}"):
        load(run)


@pytest.mark.parametrize(
    ("changes", "about", "message"),
    [
        ({"state.params.head.b": None}, {}, "'params.head.b' is missing"),
        ({"state.params.head.b": np.zeros(4, np.float32)}, {}, "the model expects"),
        ({"order.x": None}, {}, "no 'order.x'"),
        ({}, {"progress": {"epoch": 1}}, "its record of progress is incomplete"),
        ({}, {"progress": None}, "its record of progress is incomplete"),
        ({}, {"progress": []}, "its record of progress is incomplete"),
        ({}, {"progress": {"rows": [3]}}, "its record of progress is incomplete"),
        ({}, {"progress": {"rows": [], "epoch": "x"}}, "its record of progress is incomplete"),
    ],
)
def test_a_state_that_does_not_fit(
    changes: dict[str, np.ndarray | None], about: dict[str, Any], message: str, run: Path
) -> None:
    rewrite(run / "state.safetensors", changes, about)
    with pytest.raises(CheckpointError, match=message):
        fit.resume(run, Listener())


def test_scalars_keep_their_shape(tmp_path: Path) -> None:
    """Adam counts its steps in an array without axes."""
    arrays = {"count": np.array(7, np.int32), "turned": np.arange(6.0).reshape(2, 3).T}
    save_arrays(tmp_path / "x", arrays, {"epoch": 3})
    found, about = load_arrays(tmp_path / "x")
    assert found["count"].shape == ()
    np.testing.assert_array_equal(found["turned"], arrays["turned"])
    assert about == {"format": FORMAT, "epoch": 3}


def test_what_a_run_folder_holds(run: Path) -> None:
    assert {file.name for file in run.iterdir()} == {
        "recipe.toml", "model.safetensors", "state.safetensors", "log.csv", "metrics.json", "curves.png"
    }  # fmt: skip
    assert (run / "curves.png").read_bytes().startswith(b"\x89PNG")
    about = load_arrays(run / "model.safetensors")[1]
    assert about["classes"] == ["0", "1", "2"]
    assert about["config"]["model"]["kind"] == "patch_attention"
    assert json.loads((run / "metrics.json").read_text())["parameters"] > 0
    assert RunFolder(run).recipe().training.epochs == 1
