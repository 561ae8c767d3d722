"""C source to a loaded library: found in the cache, or compiled for this machine's processor and kept there.

What is kept is named by everything that decides it (source, kernels, compiler, flags, processor) and ends in a checksum
of itself, so a file cut short is noticed before it is loaded. Files appear whole or not at all: two processes that
build at once do not disturb each other.
"""

import ctypes
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from importlib import resources
from pathlib import Path

from glassformer.errors import EngineError, FileError
from glassformer.files import write_whole

VARIABLE = "GLASSFORMER_CACHE"
# NaN and infinity keep their meaning, denormals stay: none of -ffast-math. A square root need not set errno, and
# x * y + z may be one instruction.
FLAGS = ("-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")
SHARED = ("-fPIC", "-shared")
LIBRARIES = ("-lm", "-lpthread")
CHECKSUM = 32  # bytes
TIMEOUT = 300.0  # seconds
OTHER_COMPILER = "set CC to one that works"

Notice = Callable[[str], None]


def load(source: str, notice: Notice, folders: tuple[Path, ...] = ()) -> ctypes.CDLL:
    """The library made from this source. What is worth knowing, and stops nothing, goes to `notice`.

    `folders` have headers besides our own.
    """
    path = cache_folder() / f"{fingerprint(source, folders)}.so"
    if not is_whole(path):
        made = compiled(source, folders)
        try:
            write_whole(path, made + hashlib.sha256(made).digest())
        except FileError:
            notice(f"the compiled model cannot be kept in {path.parent}, so it is compiled each time; set {VARIABLE}")
            return load_once(made)
    try:
        return opened(path)
    except EngineError:
        path.unlink(missing_ok=True)  # not to be found again
        raise


def opened(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:  # no library at all, or a folder from which no program may run
        advice = f"{OTHER_COMPILER}, or {VARIABLE} to another folder"
        raise EngineError(f"the compiled model cannot be loaded: {error}; {advice}") from None


def load_once(library: bytes) -> ctypes.CDLL:
    """Without a cache: from a file that is gone when it is loaded."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.so"
        path.write_bytes(library)
        return opened(path)


def compiled(source: str, folders: tuple[Path, ...] = ()) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        program, library = Path(folder) / "model.c", Path(folder) / "model.so"
        program.write_text(source)
        include = [f"-I{folder}" for folder in (kernels(), *folders)]
        command = [*compiler(), *FLAGS, processor_flag(), *SHARED, *include, str(program), "-o", str(library)]
        try:
            done = subprocess.run([*command, *LIBRARIES], capture_output=True, text=True, timeout=TIMEOUT, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EngineError(f"the C compiler {command[0]} did not run: {error}; {OTHER_COMPILER}") from None
        if done.returncode or not library.is_file():
            lines = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()
            said = next((line for line in lines if "error" in line), lines[0])
            raise EngineError(f"the C compiler {shlex.join(compiler())} failed: {said}; {OTHER_COMPILER}")
        return library.read_bytes()


@cache
def compiler() -> tuple[str, ...]:
    """$CC, or the first of cc, gcc, clang that is installed, or the one in the extra `compiler`."""
    if chosen := shlex.split(os.environ.get("CC", "")):
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


def cache_folder() -> Path:
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser() / "native"
    home = Path.home() / "Library/Caches" if sys.platform == "darwin" else Path.home() / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or home) / "glassformer" / "native"


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


def processor() -> str:
    """What the processor can do, as far as the system says."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return platform.processor() + platform.machine()
    return "\n".join(line for line in lines if line.startswith(("flags", "model name", "Features", "CPU part")))


def is_whole(path: Path) -> bool:
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return hashlib.sha256(content[:-CHECKSUM]).digest() == content[-CHECKSUM:]
