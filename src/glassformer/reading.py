"""Files that anybody may have written: plain ones only, no larger and no deeper nested than they need to be."""

import json
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

from glassformer.errors import FileError, GlassformerError

MOST_TEXT = 256 << 20  # bytes; a tokeniser of a quarter of a million symbols takes 20 MiB
MOST_JSON = 64 << 20  # the names of 21,843 classes take 2 MiB, the largest lists of tensors 20
MOST_TOML = 1 << 20  # settings are a page or two
MOST_DEPTH = 64  # brackets within brackets; ours need five

Kind = type[GlassformerError]


def read_bytes(path: Path, most: int = MOST_TEXT, error: Kind = FileError) -> bytes:
    """The whole of a plain file. A pipe or a device, which may never end, is refused before anything is read."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise error(f"{path}: is not a plain file; put the file itself there")
            data = b"" if found.st_size > most else file.read(most + 1)
    except FileNotFoundError:
        raise error(f"{path}: there is no such file") from None
    except OSError as problem:
        raise error(f"{path}: cannot be read: {problem.strerror or problem}") from None
    if found.st_size > most or len(data) > most:
        raise error(f"{path}: is larger than {most >> 20} MiB, which no such file needs to be")
    return data


def read_text(path: Path, most: int = MOST_TEXT, error: Kind = FileError) -> str:
    try:
        return read_bytes(path, most, error).decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise error(f"{path}: damaged: not UTF-8 text ({problem})") from None


def read_json(path: Path, error: Kind = FileError) -> Any:
    return parse_json(read_text(path, MOST_JSON, error), path, error)


def read_toml(path: Path, error: Kind = FileError) -> dict[str, Any]:
    return parse_toml(read_text(path, MOST_TOML, error), path, error)


def parse_json(text: str | bytes, where: str | Path, error: Kind = FileError) -> Any:
    try:
        return shallow(json.loads(text), where, error)
    except (ValueError, RecursionError) as problem:
        raise error(f"{where}: damaged or cut short: not JSON ({problem})") from None


def parse_toml(text: str, where: str | Path, error: Kind = FileError) -> dict[str, Any]:
    try:
        return shallow(tomllib.loads(text), where, error)
    except (ValueError, RecursionError) as problem:
        raise error(f"{where}: cannot be read as TOML: {problem}") from None


def shallow(content: Any, where: str | Path, error: Kind) -> Any:
    """The content, if it is not nested too deep for those who go through it."""
    level = [content]
    for _ in range(MOST_DEPTH):
        level = [inner for outer in level for inner in inside(outer)]
        if not level:
            return content
    raise error(f"{where}: more than {MOST_DEPTH} brackets within brackets, which no such file needs")


def inside(value: Any) -> list[Any]:
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [one for one in values if isinstance(one, dict | list)]
