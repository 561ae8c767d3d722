"""Folders for what is kept between commands: libraries of the native engine, programs of JAX, the studio's tokens."""

import hashlib
import os
import platform
import shutil
import stat
import sys
import warnings
from pathlib import Path
from typing import Any

from glassformer.errors import FileError
from glassformer.reading import expanded

VARIABLE = "GLASSFORMER_CACHE"
PROGRAMS = 1 << 30  # bytes of JAX's programs, at most


def keep_programs() -> None:
    """What JAX compiles is kept for the next process, unless the user has chosen where. Before its import."""
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    try:  # programs of one processor do not run on every other
        folder = private_folder("jax") / hashlib.sha256(processor().encode()).hexdigest()[:16]
    except FileError:
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ["JAX_COMPILATION_CACHE_MAX_SIZE"] = str(PROGRAMS)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    show = warnings.showwarning

    def begin_anew(message: Any, *about: Any, **more: Any) -> None:
        """JAX writes its files in place: one that a killed process left cut short is compiled again, with a warning."""
        if "persistent compilation cache" in str(message):
            shutil.rmtree(folder, ignore_errors=True)
        else:
            show(message, *about, **more)

    warnings.showwarning = begin_anew


def private_folder(name: str) -> Path:
    """A folder that its user alone can write to, or root: whatever lies there is run."""
    folder = cache_folder(name)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        real = folder.resolve()
        above = [parent for parent in real.parents if is_open_to_all(parent.stat())]
        if not_private(real.stat()) or above:
            raise FileError(f"others can write to {above[0] if above else folder}; take it from them (chmod go-w)")
    except OSError as error:
        raise FileError(f"{folder} cannot be used ({error.strerror}); make it a folder of your own") from None
    return folder


def not_private(found: os.stat_result) -> bool:
    """Whether somebody else could have written it."""
    return os.name == "posix" and (found.st_uid not in (0, os.geteuid()) or bool(found.st_mode & 0o022))


def is_open_to_all(found: os.stat_result) -> bool:
    """Whether everybody may put another folder in the place of one that is in it; not so in /tmp, which is sticky."""
    return bool(found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX)


def cache_folder(name: str) -> Path:
    if chosen := os.environ.get(VARIABLE):
        return expanded(chosen) / name
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        return Path(chosen) / "glassformer" / name
    try:
        home = Path.home()
    except RuntimeError:
        raise FileError("there is no home folder (HOME)") from None
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "glassformer" / name


def processor() -> str:
    """What the processor can do, as far as the system says."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return platform.processor() + platform.machine()
    return "\n".join(line for line in lines if line.startswith(("flags", "model name", "Features", "CPU part")))
