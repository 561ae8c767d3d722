"""What data is by its content: a study that is moved keeps its runs, and data that was replaced is noticed.

A name that the program knows ("mnist", whose files are checked by their sums when they are fetched; one that a package
registers) stands for itself. A file or a folder is the sha256 of what is in it, whatever it is called and wherever it
lies. A run that weights are taken from is its weights.
"""

import hashlib
from functools import lru_cache
from pathlib import Path

from glassformer import registry
from glassformer.data import KNOWN
from glassformer.data.text_sources import KNOWN_TEXTS, existing
from glassformer.errors import DataError
from glassformer.train.run_folder import WEIGHTS

CHUNK = 1 << 20
Stamp = tuple[tuple[str, int, int], ...]  # of each file: path in the folder, bytes, when it was changed


def identity(name: str) -> str:
    """Of data by its name or path; of a path where nothing is, the path."""
    if name in KNOWN or name in KNOWN_TEXTS or registry.find("data", name.partition(":")[0]):
        return name
    path = existing(name)
    return name if path is None else content(path)


def identity_of_run(name: str) -> str:
    """Of a run folder whose weights are taken."""
    path = existing(name)
    return name if path is None or not (path / WEIGHTS).is_file() else content(path / WEIGHTS)


def content(path: Path) -> str:
    return digest_of(path.absolute(), stamp_of(path))


def stamp_of(path: Path) -> Stamp:
    """Changes when a file does. Hidden files are none of the data."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if is_data(file.relative_to(path)))
    found = []
    for file in files:
        if file.is_file():
            about = file.stat()
            found.append((file.relative_to(path).as_posix(), about.st_size, about.st_mtime_ns))
    return tuple(found)


def is_data(path: Path) -> bool:
    return not any(part.startswith(".") for part in path.parts)


@lru_cache(maxsize=64)
def digest_of(path: Path, stamp: Stamp) -> str:
    """Of the files' names in their folder and what is in them; of one file, what is in it."""
    whole = hashlib.sha256()
    for name, size, _ in stamp:
        file = path if path.is_file() else path / name
        if not path.is_file():
            whole.update(f"{name}\0{size}\0".encode())
        try:
            with file.open("rb") as opened:
                while part := opened.read(CHUNK):
                    whole.update(part)
        except OSError as error:
            raise DataError(f"{file}: cannot be read: {error.strerror or error}") from None
    return f"sha256:{whole.hexdigest()}"
