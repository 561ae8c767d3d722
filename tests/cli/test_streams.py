"""Where answers go: streams that cannot write everything, or nothing at all."""

import errno
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer import cli
from glassformer.cli.output import report
from glassformer.errors import DataError

TEXT = "Größe ± 1 …"


def run(
    monkeypatch: pytest.MonkeyPatch, command: Callable[[], None], out: io.TextIOWrapper, err: io.TextIOWrapper
) -> int:
    """What `main` returns for a command of our own."""

    def app(prog_name: str) -> None:
        command()
        sys.exit(0)

    monkeypatch.setattr(cli, "app", app)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def stream(encoding: str = "utf-8") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")


def text_of(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode()  # pyright: ignore[reportAttributeAccessIssue]


def test_a_terminal_of_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    def command() -> None:
        report({}, TEXT, as_json=False)
        raise DataError(TEXT)

    out, err = stream("ascii"), stream("ascii")
    assert run(monkeypatch, command, out, err) == 1
    assert text_of(out) == "Gr??e ? 1 ?\n"
    assert text_of(err) == "glassformer: Gr??e ? 1 ?\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has none")
@pytest.mark.parametrize("length", [5, 100_000], ids=["kept until the end", "written at once"])
@pytest.mark.parametrize("as_json", [True, False])
def test_a_disk_that_is_full(length: int, as_json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    err = stream()
    with Path("/dev/full").open("w") as full:
        text = "x" * length
        assert run(monkeypatch, lambda: report({"text": text}, text, as_json=as_json), full, err) == 1
        full.flush()  # nothing is left in it that would fail once more
    assert text_of(err) == "glassformer: the output: cannot be written: No space left on device; free some space\n"


def test_a_reader_that_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silently, as any program in a pipe."""
    err = stream()
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        assert run(monkeypatch, lambda: report({}, TEXT, as_json=False), pipe, err) == 1
    assert text_of(err) == ""


def test_a_mistake_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def command() -> None:
        raise OSError(errno.EBADF, "ours")

    with pytest.raises(OSError, match="ours"):
        run(monkeypatch, command, stream(), stream())
