"""Files of a folder that came from elsewhere: none leads out of it, none is read that is too large to be meant."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.errors import CheckpointError, GlassformerError
from glassformer.hub.settings import shown

MOST_JSON = 64 << 20  # bytes; the names of 21,843 classes take 2 MiB, the largest lists of tensors 20
MOST_TEXT = 256 << 20  # of a tokeniser; those of a quarter of a million symbols take 20 MiB


def file_in(folder: Path, name: str) -> Path | None:
    """The file of that name, or None where there is none."""
    if not name or name in (".", "..") or any(sign in name for sign in "/\\\0:"):
        raise CheckpointError(f"{folder}: {shown(name)} came as the name of a file, expected a plain one inside it")
    path = folder / name
    try:
        if not path.is_symlink() and not path.exists():
            return None
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise CheckpointError(f"{path}: cannot be reached: {error}; copy the file itself into the folder") from None
    if real.parent not in homes(folder):
        raise CheckpointError(f"{path}: leads out of the folder, to {real}; copy the file itself into it")
    if not real.is_file():
        raise CheckpointError(f"{path}: is not a file")
    return path


def homes(folder: Path) -> tuple[Path, ...]:
    """Where its files may lie: in it. The cache of downloads keeps snapshots/<name>/ as links into blobs/."""
    real = folder.resolve()
    return (real, real.parent.parent / "blobs") if real.parent.name == "snapshots" else (real,)


def read_text(path: Path, most: int = MOST_TEXT) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(data) > most:
        raise CheckpointError(f"{path}: is larger than {most >> 20} MiB, which no such file needs to be")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: damaged: not UTF-8 text ({error})") from None


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_text(path, MOST_JSON))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: damaged or cut short: not JSON ({error}); copy it again") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: {shown(content)} came, expected settings by name: {{…}}")
    return content


def json_in(folder: Path, name: str) -> dict[str, Any] | None:
    path = file_in(folder, name)
    return None if path is None else read_json(path)


@contextmanager
def told(where: Path) -> Iterator[None]:
    """Messages begin with the file that they are about."""
    try:
        yield
    except GlassformerError as error:
        if str(error).startswith(str(where.parent)):
            raise
        raise type(error)(f"{where}: {error}") from None
