"""Files of a folder that came from elsewhere: none leads out of it, none is read that is too large to be meant."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer import reading
from glassformer.errors import CheckpointError, GlassformerError
from glassformer.hub.settings import shown
from glassformer.reading import MOST_JSON


def file_in(folder: Path, name: str, sub: str = "") -> Path | None:
    """The file of that name, or None where there is none; `sub`: in this folder of the folder."""
    for one in (sub, name) if sub else (name,):
        if not one or one in (".", "..") or any(sign in one for sign in "/\\\0:"):
            raise CheckpointError(f"{folder}: {shown(one)} came as the name of a file, expected a plain one inside it")
    path = folder / sub / name
    try:
        if not path.is_symlink() and not path.exists():
            return None
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise CheckpointError(f"{path}: cannot be reached: {error}; copy the file itself into the folder") from None
    home, *blobs = homes(folder)
    if real.parent not in (home / sub, *blobs):
        raise CheckpointError(f"{path}: leads out of the folder, to {real}; copy the file itself into it")
    if not real.is_file():
        raise CheckpointError(f"{path}: is not a file")
    return path


def homes(folder: Path) -> tuple[Path, ...]:
    """Where its files may lie: in it. The cache of downloads keeps snapshots/<name>/ as links into blobs/."""
    real = folder.resolve()
    return (real, real.parent.parent / "blobs") if real.parent.name == "snapshots" else (real,)


def read_text(path: Path) -> str:
    return reading.read_text(path, error=CheckpointError)


def read_json(path: Path) -> dict[str, Any]:
    text = reading.read_text(path, MOST_JSON, CheckpointError)
    content = reading.parse_json(text, path, CheckpointError)
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: {shown(content)} came, expected settings by name: {{…}}")
    return content


def json_in(folder: Path, name: str, sub: str = "") -> dict[str, Any] | None:
    path = file_in(folder, name, sub)
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
