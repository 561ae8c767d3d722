"""What JAX compiles is kept for the next command, in a folder that nobody else can write to."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from glassformer import user_cache
from glassformer.user_cache import VARIABLE, keep_programs, not_private

CHOSEN = "JAX_COMPILATION_CACHE_DIR"
COMPILE = """
import sys
from glassformer.user_cache import keep_programs
keep_programs()
import jax
print(jax.jit(lambda x: x * 3)(14))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As in a process of a user's; what is set is forgotten again."""
    for name in ("DIR", "MAX_SIZE"):
        monkeypatch.setenv(f"JAX_COMPILATION_CACHE_{name}", "")
    for name in ("MIN_COMPILE_TIME_SECS", "MIN_ENTRY_SIZE_BYTES"):
        monkeypatch.setenv(f"JAX_PERSISTENT_CACHE_{name}", "")
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(CHOSEN)
    return tmp_path / "cache" / "jax"


def test_it_is_a_folder_of_the_users_own(folder: Path) -> None:
    keep_programs()
    assert Path(os.environ[CHOSEN]).parent == folder
    assert folder.stat().st_mode & 0o777 == 0o700


def test_what_the_user_has_chosen_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOSEN, "elsewhere")
    keep_programs()
    assert os.environ[CHOSEN] == "elsewhere"
    assert not folder.exists()


def test_nothing_is_taken_from_a_folder_that_others_can_write_to(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    keep_programs()
    assert CHOSEN not in os.environ


def test_what_others_could_have_written_is_not_private() -> None:
    def found(owner: int, mode: int) -> os.stat_result:
        return os.stat_result((mode, 0, 0, 0, owner, 0, 0, 0, 0, 0))

    own = os.geteuid()
    assert not not_private(found(own, 0o700))
    assert not not_private(found(0, 0o755))  # root's
    assert not_private(found(own + 1, 0o700))
    assert not_private(found(own, 0o770))
    assert not_private(found(own, 0o702))


def test_programs_for_another_processor_are_not_taken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for flags in ("flags: fma avx2", "flags: fma avx2 avx512f", "flags: fma avx2"):
        monkeypatch.setattr(user_cache, "processor", lambda flags=flags: flags)
        monkeypatch.delenv(CHOSEN, raising=False)
        keep_programs()
        found.append(os.environ[CHOSEN])
    assert found[0] == found[2] != found[1]
    monkeypatch.undo()
    assert user_cache.processor()


def test_a_file_that_was_cut_short_is_compiled_again_without_a_word(folder: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if "_CACHE_" not in name or name == VARIABLE}
    for damage in (False, True, False):
        for path in folder.glob("*/*-cache") if damage else ():
            path.write_bytes(path.read_bytes()[:100])
        done = subprocess.run([sys.executable, "-c", COMPILE], capture_output=True, text=True, env=environment)
        assert (done.returncode, done.stdout, done.stderr) == (0, "42\n", "")
    assert list(folder.glob("*/*-cache"))
