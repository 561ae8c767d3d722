"""One process trains a run at a time; one that was killed trains nothing. Two new runs have two folders."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from glassformer.errors import FileError
from glassformer.files import LOCK, locked
from glassformer.train import fit
from glassformer.train.fit import new_folder
from glassformer.train.loop import Listener
from glassformer.train.run_folder import RunFolder

from .small import small_data, small_recipe

HOLDS = """
import sys
from pathlib import Path
from glassformer.files import locked

with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the lock of tmp_path."""
    command = [sys.executable, "-c", HOLDS, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def test_a_killed_process_is_known_at_once(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    assert RunFolder(tmp_path).is_live()
    holder.kill()
    holder.wait()
    assert (tmp_path / LOCK).exists(), "it could not clean up"
    assert not RunFolder(tmp_path).is_live()
    with RunFolder(tmp_path).locked():
        assert RunFolder(tmp_path).is_live()
    assert list(tmp_path.iterdir()) == []


def test_a_live_run_is_neither_resumed_nor_begun_anew(tmp_path: Path) -> None:
    recipe, many, seed = small_recipe(epochs=1), tmp_path / "many", tmp_path / "many/seed-2"
    seen: dict[str, bool] = {}

    class Other(Listener):
        """Somebody else, while a run is trained."""

        def epoch(self, row: object) -> None:
            for path in (many, seed):
                seen[path.name] = RunFolder(path).is_live()
                with pytest.raises(FileError, match=rf"{path}: a process is training this run now; wait until it ends"):
                    fit.resume(path, data=small_data())
            with pytest.raises(FileError, match=rf"stop it and go on with --resume {seed}. For another run choose"):
                fit.train(recipe, small_data(), seed, Listener())

    fit.train_many(recipe, small_data(), many, (1, 2), Other())
    assert seen == {"many": True, "seed-2": True}
    assert not RunFolder(many).is_live()
    assert not RunFolder(seed).is_live()
    assert not list(many.rglob(LOCK))


def test_to_ask_changes_nothing(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert not folder.is_live()
    assert not RunFolder(tmp_path / "gone").is_live()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "elsewhere").touch()
    (tmp_path / LOCK).symlink_to(tmp_path / "elsewhere")
    assert not folder.is_live()
    with pytest.raises(FileError, match=r"\.lock: cannot be locked: "), folder.locked():
        pass
    (tmp_path / LOCK).unlink()
    os.mkfifo(tmp_path / LOCK)
    assert not folder.is_live()


def test_whoever_waits_gets_the_lock_next(tmp_path: Path) -> None:
    with locked(tmp_path):
        other = subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], stdin=-1, stdout=-1, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            other.communicate(timeout=0.5)
    assert other.communicate("")[0] == "locked\n"


def test_two_at_once_get_two_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with new_folder("mlp") as one, new_folder("mlp") as other:
        assert (one, other) == (Path("runs/mlp-1"), Path("runs/mlp-2"))
        (other / "recipe.toml").touch()
    assert sorted(Path().rglob("*")) == [Path("runs"), other, other / "recipe.toml"]  # the empty one is gone
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match=r"file: cannot be written: File exists; choose another folder with --out"):
        fit.train(small_recipe(), small_data(), Path("file"), Listener())
