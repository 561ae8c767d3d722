"""Files that anybody may have written: plain ones only, no larger and no deeper nested than they need to be."""

import json
import os
import re
import stat
import tomllib
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from glassformer.errors import FileError, GlassformerError

MOST_TEXT = 256 << 20  # bytes; a tokeniser of a quarter of a million symbols takes 20 MiB
MOST_JSON = 64 << 20  # the names of 21,843 classes take 2 MiB, the largest lists of tensors 20
MOST_TOML = 1 << 20  # settings are a page or two
MOST_DEPTH = 64  # brackets within brackets, or dots in a key; ours need five
DOTTED = re.compile(rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{MOST_DEPTH + 1}}}""")

Kind = type[GlassformerError]


def expanded(word: str) -> Path:
    """`~` is the user's home; a word that names nobody's home stays as it is, and is no file."""
    try:
        return Path(word).expanduser()
    except RuntimeError:
        return Path(word)


def open_plain(path: Path, error: Kind = FileError, expected: str = "") -> BufferedReader:
    """A plain file, open. A pipe or a device, which may never end, is refused before anything is read."""
    advice = f"; expected {expected}" if expected else ""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise error(f"{path}: there is no such file{advice}") from None
    except (OSError, ValueError) as problem:  # a path with NUL in it is a ValueError
        raise error(f"{path}: cannot be read: {getattr(problem, 'strerror', None) or problem}{advice}") from None
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    why = "cannot be read: Is a directory" if stat.S_ISDIR(mode) else "is not a plain file; put the file itself there"
    raise error(f"{path}: {why}{advice}")


def read_bytes(path: Path, most: int = MOST_TEXT, error: Kind = FileError) -> bytes:
    with open_plain(path, error) as file:
        try:
            data = b"" if size_of(file) > most else file.read(most + 1)
        except OSError as problem:
            raise error(f"{path}: cannot be read: {problem.strerror or problem}") from None
        if size_of(file) > most or len(data) > most:
            raise error(f"{path}: is larger than {most >> 20} MiB, which no such file needs to be")
    return data


def size_of(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


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
    if DOTTED.search(text):  # a.a.a.a… of 40 KB keeps tomllib busy for minutes
        raise error(f"{where}: a key of more than {MOST_DEPTH} parts, which no such file needs")
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
