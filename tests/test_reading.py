"""Files that anybody may have written."""

import os
from pathlib import Path

import pytest

from glassformer.errors import CheckpointError, FileError
from glassformer.reading import MOST_DEPTH, parse_json, parse_toml, read_bytes, read_json, read_text, read_toml


def test_what_is_written_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('\ufeff{"a": [1, "ü"]}', encoding="utf-8")
    (tmp_path / "a.toml").write_text('a = "ü"')
    assert read_json(tmp_path / "a.json") == {"a": [1, "ü"]}
    assert read_toml(tmp_path / "a.toml") == {"a": "ü"}
    assert read_bytes(tmp_path / "a.toml", most=8) == b'a = "\xc3\xbc"'


@pytest.mark.parametrize("depth", [MOST_DEPTH + 1, 3_000, 200_000])
def test_brackets_within_brackets(depth: int) -> None:
    for text, parse in (("[" * depth + "]" * depth, parse_json), ("a = " + "[" * depth + "]" * depth, parse_toml)):
        with pytest.raises(CheckpointError, match=r"x: "):
            parse(text, "x", CheckpointError)


def test_as_deep_as_is_allowed() -> None:
    assert parse_json("[" * MOST_DEPTH + "]" * MOST_DEPTH, "x")


def test_what_is_no_plain_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for name, message in (("pipe", "not a plain file"), ("link", "not a plain file"), ("gone", "no such file")):
        with pytest.raises(FileError, match=message):
            read_bytes(tmp_path / name)
    with pytest.raises(FileError, match="cannot be read: Is a directory"):
        read_bytes(tmp_path)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole
    with pytest.raises(FileError, match="larger than 256 MiB"):
        read_text(path)


def test_no_text(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="not UTF-8"):
        read_text(tmp_path / "a")
