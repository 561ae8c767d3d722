"""Building: what a machine may lack, a cache that is damaged or closed, and two processes at once.

Every error is one line that says what to do; whatever can go on without help goes on, with one line that says why.
"""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from glassformer.errors import EngineError
from glassformer.native import build
from glassformer.user_cache import cache_folder

from .compiled import c_compiler

SOURCE = "int answer(void) { return 42; }\n"

LOAD = f"""
import os, sys, time
from glassformer.native import build
while len(sys.argv) > 1 and not os.path.exists(sys.argv[1]):
    time.sleep(0.001)
start = time.perf_counter()
library = build.load({SOURCE!r}, lambda line: sys.exit(line))
print(library.answer(), time.perf_counter() - start)
"""


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache that is empty, and a compiler that is looked for again."""
    monkeypatch.setenv(build.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    build.compiler.cache_clear()
    yield
    build.compiler.cache_clear()


@pytest.fixture
def logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that writes down each of its calls, in the file that is returned."""
    log = tmp_path / "calls"
    script(tmp_path, monkeypatch, f'echo "$@" >> {log}\nexec {c_compiler()} "$@"')
    return log


def script(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Path:
    """A compiler of our own, in CC."""
    program = folder / "compiler"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    monkeypatch.setenv("CC", str(program))
    build.compiler.cache_clear()
    return program


def calls(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0


def loaded() -> int:
    return build.load(SOURCE, pytest.fail).answer()


def kept() -> Path:
    (path,) = cache_folder("native").iterdir()
    return path


def refused(source: str = SOURCE) -> str:
    """The message of the error, which is one line and leaves nothing behind."""
    with pytest.raises(EngineError) as caught:
        build.load(source, pytest.fail)
    assert not list(cache_folder("native").glob("*"))
    message = str(caught.value)
    assert "\n" not in message
    return message


# Compilers


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    message = refused()
    assert "no C compiler is installed" in message
    assert "pip install glassformer[compiler]" in message


def test_the_extra_is_taken_where_no_other_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "ziglang" or None)
    assert build.compiler() == (sys.executable, "-m", "ziglang", "cc")


def test_cc_is_asked_first(logged: Path) -> None:
    assert loaded() == 42
    assert calls(logged) == 1


def test_cc_may_have_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", f"{c_compiler()} -Danswer=other")
    build.compiler.cache_clear()
    assert build.load(SOURCE, pytest.fail).other() == 42


@pytest.mark.parametrize("blank", ["", "   "])
def test_an_empty_cc_is_none(blank: str, monkeypatch: pytest.MonkeyPatch) -> None:
    c_compiler()
    monkeypatch.setenv("CC", blank)
    assert loaded() == 42


def test_a_compiler_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert refused() == "the C compiler no-such-compiler is not there; unset CC, or set it to one that is"


def test_a_compiler_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "false")
    message = refused()
    assert message.startswith("the C compiler false failed: exit status 1")
    assert "set CC to one that works" in message


def test_a_compiler_that_complains_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line with the error, or its first; all of them would be too many."""
    script(tmp_path, monkeypatch, "echo 'In a function:' >&2\necho 'model.c:1: error: what is this?' >&2\nexit 1")
    assert "failed: model.c:1: error: what is this?; " in refused()
    script(tmp_path, monkeypatch, "echo 'go away'\necho 'I am busy'\nexit 1")
    assert "failed: go away; " in refused()


def test_a_compiler_that_cannot_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = script(tmp_path, monkeypatch, "")
    program.write_text("#!/no/such/interpreter\n")
    message = refused()
    assert f"the C compiler {program} did not run: " in message
    assert "set CC to one that works" in message


def hanging(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that starts a program of its own and waits for it; the file where that one's number will be."""
    script(folder, monkeypatch, f"sleep 60 & echo $! > {folder}/number; wait")
    return folder / "number"


def is_running(number: Path) -> bool:
    try:
        state = Path(f"/proc/{number.read_text().strip()}/stat").read_text()
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


def test_a_compiler_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert build.TIMEOUT <= 60
    monkeypatch.setattr(build, "TIMEOUT", 0.2)
    number = hanging(tmp_path, monkeypatch)
    start = time.perf_counter()
    assert "took more than 0.2 s and was stopped; set CC to one that works" in refused()
    assert time.perf_counter() - start < 20
    assert not is_running(number), "what the compiler started is stopped with it"


def test_ctrl_c_stops_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ctrl_c(*_: object) -> None:
        raise KeyboardInterrupt

    number = hanging(tmp_path, monkeypatch)
    before = signal.signal(signal.SIGALRM, ctrl_c)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            loaded()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not is_running(number)


def test_a_cc_that_is_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", 'gcc "')
    assert refused() == "CC is 'gcc \"', which is no command: No closing quotation; set CC to one that works"


def test_no_place_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tempfile.mkdtemp", full)
    assert "no temporary file can be written: No space left on device; free some space, or set TMPDIR" in refused()


@pytest.mark.parametrize("makes", ["nothing", "nonsense"])
def test_a_compiler_that_makes_no_library(makes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be loaded is refused, and not kept."""
    nonsense = 'for last; do case "$last" in *.so) echo nonsense > "$last";; esac; done'
    script(tmp_path, monkeypatch, nonsense if makes == "nonsense" else "exit 0")
    assert "set CC to one that works" in refused()


def test_source_that_is_wrong() -> None:
    c_compiler()
    assert "error" in refused("int answer(void) { return }\n")


# The cache


def test_a_second_load_does_not_compile(logged: Path) -> None:
    assert [loaded(), loaded()] == [42, 42]
    assert calls(logged) == 1
    assert kept().suffix == ".so"


def test_other_source_or_another_compiler_is_another_file(logged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {build.fingerprint(SOURCE), build.fingerprint(SOURCE + "\n")}
    program = Path(os.environ["CC"])
    program.write_text(program.read_text() + "\n")  # a new release of it, say
    names.add(build.fingerprint(SOURCE))
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-g"))
    names.add(build.fingerprint(SOURCE))
    monkeypatch.setattr(build, "processor", lambda: "another")
    names.add(build.fingerprint(SOURCE))
    assert len(names) == 5


def damaged(content: bytes) -> dict[str, bytes]:
    middle = len(content) // 2
    return {
        "empty": b"",
        "one byte": content[:1],
        "cut to a checksum": content[:32],
        "cut in half": content[:middle],
        "last byte missing": content[:-1],
        "byte flipped": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "checksum flipped": content[:-1] + bytes([content[-1] ^ 1]),
        "something added": content + b"\0",
    }


QUICK = ("empty", "cut in half", "checksum flipped")  # each of them starts a process that compiles again


@pytest.mark.parametrize(
    "damage", [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in damaged(bytes(100))]
)
def test_a_damaged_file_is_made_again(damage: str, logged: Path) -> None:
    loaded()
    path, whole = kept(), kept().read_bytes()
    path.unlink()  # the old file stays as it is for those who have it loaded
    path.write_bytes(damaged(whole)[damage])
    assert in_another_process()[0] == 42
    assert calls(logged) == 2
    assert build.is_whole(kept())


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: Path) -> None:
    """It is built all the same, for this once, and one line says so. A file in place of a folder stops root, too."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(build.VARIABLE, str(tmp_path / "file"))
    lines: list[str] = []
    assert [build.load(SOURCE, lines.append).answer() for _ in range(2)] == [42, 42]
    assert calls(logged) == 2
    assert len(lines) == 2
    assert "\n" not in lines[0]
    assert str(tmp_path / "file") in lines[0]
    assert f"set {build.VARIABLE}" in lines[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_cache_folder_without_permission(tmp_path: Path, logged: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o555)
    lines: list[str] = []
    assert build.load(SOURCE, lines.append).answer() == 42
    assert len(lines) == 1


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o702])
def test_a_folder_that_others_can_write_is_not_trusted(mode: int, logged: Path) -> None:
    """Nothing is loaded from it, and nothing kept; one line says so."""
    loaded()
    forged = kept()
    forged.unlink()  # the old file stays as it is for those who have it loaded
    forged.write_bytes(b"")
    cache_folder("native").chmod(mode)
    lines: list[str] = []
    assert build.load(SOURCE, lines.append).answer() == 42
    (line,) = lines
    assert f"others can write to {cache_folder('native')}; take it from them (chmod go-w), or set" in line
    assert forged.read_bytes() == b""
    assert calls(logged) == 2


def test_a_folder_in_one_that_is_open_to_all(tmp_path: Path, logged: Path) -> None:
    loaded()
    above = cache_folder("native").parent
    above.chmod(0o777)
    lines: list[str] = []
    build.load(SOURCE, lines.append)
    assert f"others can write to {above}; " in lines[0]
    above.chmod(0o1777)  # as /tmp: what is in it stays its owner's
    assert loaded() == 42
    assert calls(logged) == 2


def test_a_library_of_somebody_else_is_made_again(logged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded()
    kept().chmod(0o666)
    assert loaded() == 42
    assert calls(logged) == 2
    assert kept().stat().st_mode & 0o777 == 0o600
    found = kept().stat()
    assert not build.not_private(found)
    foreign = os.stat_result([*found[:4], os.geteuid() + 1, *found[5:]])
    assert build.not_private(foreign)


def test_a_new_cache_is_its_user_s_alone(logged: Path) -> None:
    before = os.umask(0o002)
    try:
        loaded()
    finally:
        os.umask(before)
    assert cache_folder("native").stat().st_mode & 0o777 == 0o700
    assert [loaded(), calls(logged)] == [42, 1]


def test_no_home(monkeypatch: pytest.MonkeyPatch, logged: Path) -> None:
    """A user that the system does not know: containers are run so."""
    for name in (build.VARIABLE, "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    lines: list[str] = []
    assert build.load(SOURCE, lines.append).answer() == 42
    assert "there is no home folder (HOME), or set GLASSFORMER_CACHE" in lines[0]


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder("native") == tmp_path / "cache" / "native"
    monkeypatch.delenv(build.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder("native") == tmp_path / "xdg" / "glassformer" / "native"


# Several processes


def start_process(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", LOAD, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer_of(process: subprocess.Popen[str]) -> tuple[int, float]:
    """What the library said, and the seconds it took to have it."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    number, seconds = out.split()
    return int(number), float(seconds)


def in_another_process() -> tuple[int, float]:
    return answer_of(start_process())


def test_another_process_finds_it(logged: Path) -> None:
    """Without running the compiler at all, and quickly (the bar is 50 ms on an idle machine)."""
    assert in_another_process()[0] == 42
    assert calls(logged) == 1
    answer, seconds = in_another_process()
    assert answer == 42
    assert calls(logged) == 1, "the compiler was asked something"
    assert seconds < 0.5


def test_processes_that_build_at_once_do_not_disturb_each_other(tmp_path: Path, logged: Path) -> None:
    processes = [start_process(str(tmp_path / "go")) for _ in range(3)]
    time.sleep(0.3)
    (tmp_path / "go").touch()
    assert [answer_of(process)[0] for process in processes] == [42, 42, 42]
    assert 1 <= calls(logged) <= 3
    assert build.is_whole(kept()), "one whole file, and nothing left beside it"
