"""C source to a loaded library: found in the cache, or compiled for this machine's processor and kept there.

What is kept is named by everything that decides it (source, kernels, compiler, flags, processor) and ends in a checksum
of itself, so a file cut short is noticed before it is loaded. Files appear whole or not at all: two processes that
build at once do not disturb each other. A library is code: none is loaded that somebody else could have written.
"""

import ctypes
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import resources
from pathlib import Path

from glassformer.errors import EngineError, FileError
from glassformer.files import write_whole
from glassformer.reading import read_bytes
from glassformer.user_cache import VARIABLE, not_private, private_folder, processor

# NaN and infinity keep their meaning, denormals stay: none of -ffast-math. A square root need not set errno, and
# x * y + z may be one instruction.
FLAGS = ("-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")
SHARED = ("-fPIC", "-shared")
LIBRARIES = ("-lm", "-lpthread")
CHECKSUM = 32  # bytes
TIMEOUT = 60.0  # seconds; the largest of our models takes 6
OTHER_COMPILER = "set CC to one that works"

Notice = Callable[[str], None]


def load(source: str, notice: Notice, folders: tuple[Path, ...] = ()) -> ctypes.CDLL:
    """The library made from this source. What is worth knowing, and stops nothing, goes to `notice`.

    `folders` have headers besides our own.
    """
    name, made = f"{fingerprint(source, folders)}.so", b""
    try:
        path = private_folder("native") / name
        if not is_whole(path):
            made = compiled(source, folders)
            keep(path, made)
    except FileError as error:
        notice(f"the compiled model is not kept, so it is compiled each time: {error}, or set {VARIABLE}")
        return load_once(made or compiled(source, folders))
    try:
        return opened(path)
    except EngineError:
        path.unlink(missing_ok=True)  # not to be found again
        raise


def keep(path: Path, library: bytes) -> None:
    try:
        write_whole(path, library + hashlib.sha256(library).digest())
        path.chmod(0o600)  # whatever the umask leaves to others
    except (FileError, OSError):
        raise FileError(f"{path.parent} cannot be written; free some space") from None


def opened(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:  # no library at all, or a folder from which no program may run
        advice = f"{OTHER_COMPILER}, or {VARIABLE} to another folder"
        raise EngineError(f"the compiled model cannot be loaded: {error}; {advice}") from None


def load_once(library: bytes) -> ctypes.CDLL:
    """Without a cache: from a file that is gone when it is loaded."""
    with scratch() as folder:
        path = folder / "model.so"
        path.write_bytes(library)
        return opened(path)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for the moment, which nobody else can write to."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    except OSError as error:
        reason = error.strerror or error
        raise EngineError(f"no temporary file can be written: {reason}; free some space, or set TMPDIR") from None


def compiled(source: str, folders: tuple[Path, ...] = ()) -> bytes:
    with scratch() as folder:
        program, library = folder / "model.c", folder / "model.so"
        program.write_text(source)
        include = [f"-I{folder}" for folder in (kernels(), *folders)]
        command = [*compiler(), *FLAGS, processor_flag(), *SHARED, *include, str(program), "-o", str(library)]
        status, said = run_compiler([*command, *LIBRARIES])
        if status or not library.is_file():
            lines = (said.strip() or f"exit status {status}").splitlines()
            said = next((line for line in lines if "error" in line), lines[0])
            raise EngineError(f"the C compiler {shlex.join(compiler())} failed: {said}; {OTHER_COMPILER}")
        return library.read_bytes()


def run_compiler(command: list[str]) -> tuple[int, str]:
    """Its exit status, and what it said. A compiler starts programs of its own: they are stopped together."""
    try:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            process_group=0 if os.name == "posix" else None,
        )
    except OSError as error:
        raise EngineError(f"the C compiler {command[0]} did not run: {error}; {OTHER_COMPILER}") from None
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    except BaseException as error:  # it hangs, or Ctrl-C
        stop(process)
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        raise EngineError(
            f"the C compiler {command[0]} took more than {TIMEOUT:g} s and was stopped; {OTHER_COMPILER}"
        ) from None
    return process.returncode, err.strip() or out


def stop(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL) if os.name == "posix" else process.kill()
    process.communicate()


@cache
def compiler() -> tuple[str, ...]:
    """$CC, or the first of cc, gcc, clang that is installed, or the one in the extra `compiler`."""
    try:
        chosen = shlex.split(os.environ.get("CC", ""))
    except ValueError as error:
        raise EngineError(f"CC is {os.environ['CC']!r}, which is no command: {error}; {OTHER_COMPILER}") from None
    if chosen:
        return tuple(chosen)
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return (found,)
    if importlib.util.find_spec("ziglang"):
        return (sys.executable, "-m", "ziglang", "cc")
    raise EngineError("no C compiler is installed (cc, gcc, clang, or `pip install glassformer[compiler]`)")


def processor_flag() -> str:
    """Compile for the processor at hand."""
    return "-mcpu=native" if platform.machine() in ("arm64", "aarch64", "ppc64le") else "-march=native"


def kernels() -> Path:
    return Path(str(resources.files("glassformer.native") / "c"))


def fingerprint(source: str, folders: tuple[Path, ...] = ()) -> str:
    """Of everything that decides what is built."""
    digest = hashlib.sha256(source.encode())
    for folder in (kernels(), *folders):
        for kernel in sorted(folder.glob("*.h")):
            digest.update(kernel.read_bytes())
    for part in (*compiler(), version_of(compiler()[0]), *FLAGS, processor_flag(), *SHARED, processor()):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:32]


def version_of(program: str) -> str:
    """Which build of the compiler, without asking it: asking takes longer than everything else here."""
    path = shutil.which(program)
    if path is None:
        raise EngineError(f"the C compiler {program} is not there; unset CC, or set it to one that is")
    real = Path(path).resolve()
    return f"{real} {real.stat().st_size} {real.stat().st_mtime_ns}"


def is_whole(path: Path) -> bool:
    """Whether the library is there, nobody else can have written it, and nothing of it is missing."""
    try:
        content = b"" if not_private(path.stat()) else read_bytes(path)
    except (OSError, FileError):
        return False
    return hashlib.sha256(content[:-CHECKSUM]).digest() == content[-CHECKSUM:]
