"""Tokens in files: those of the whole text, however it is cut; whole after an interruption; damage is refused."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.data import tokenise as module
from glassformer.data.token_shards import TokenStream, open_tokens
from glassformer.data.tokenise import chosen_tokeniser, tokenise
from glassformer.data.tokeniser_training import BytePairs, Characters
from glassformer.errors import DataError, FileError, GlassformerError

LINES = "".join(f"Line {i}: ünd some   words,\n\n  indented\tagain {i * i}\n" for i in range(300))


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE", 1000)
    monkeypatch.setattr(module, "AT_ONCE", 100)


@pytest.fixture
def texts(tmp_path: Path) -> list[Path]:
    (tmp_path / "a.txt").write_text(LINES)
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"text": f"Über {i}\n"}) + "\n" for i in range(200)))
    return [tmp_path / "a.txt", tmp_path / "b.jsonl"]


def whole(folder: Path) -> np.ndarray:
    stream, _ = open_tokens(folder)
    return stream.read(0, len(stream))


@pytest.mark.parametrize("kind", [Characters(), BytePairs(400)])
def test_the_tokens_are_those_of_the_whole_text(
    kind: Any, texts: list[Path], tmp_path: Path, small_pieces: None
) -> None:
    made = tokenise(texts, tmp_path / "out", kind)
    stream, tokeniser = open_tokens(tmp_path / "out")
    end = tokeniser.id_of("end")
    expected = [*tokeniser.encode(LINES), end]
    for i in range(200):
        expected += [*tokeniser.encode(f"Über {i}\n"), end]
    assert whole(tmp_path / "out").tolist() == expected
    assert made["tokens"] == len(stream) == len(expected)
    assert made["shards"] > 10
    assert made["unknown"] == 0


def test_several_processes_make_the_same(texts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenise(texts, tmp_path / "one", BytePairs(300))
    tokenise(texts, tmp_path / "two", BytePairs(300), workers=2)
    assert (tmp_path / "one" / "tokens.json").read_bytes() == (tmp_path / "two" / "tokens.json").read_bytes()
    assert whole(tmp_path / "one").tolist() == whole(tmp_path / "two").tolist()


def test_one_that_was_stopped_goes_on(
    texts: list[Path], tmp_path: Path, small_pieces: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenise(texts, tmp_path / "whole", BytePairs(300))
    monkeypatch.setattr(module, "SAVE_SECONDS", -1.0)
    real, count = module.make_shard, iter(range(100))

    def stopped(job: Any) -> Any:
        if next(count) == 5:
            raise KeyboardInterrupt
        return real(job)

    monkeypatch.setattr(module, "make_shard", stopped)
    with pytest.raises(KeyboardInterrupt):
        tokenise(texts, tmp_path / "out", BytePairs(300))
    with pytest.raises(DataError, match="was stopped before its end; give the same"):
        open_tokens(tmp_path / "out")
    monkeypatch.setattr(module, "make_shard", real)
    (tmp_path / "out" / "00002.npy").write_bytes(b"damaged")  # made again
    assert tokenise(texts, tmp_path / "out", BytePairs(300))["kept"] == 4
    assert whole(tmp_path / "out").tolist() == whole(tmp_path / "whole").tolist()


def test_a_part_is_read_where_it_lies(texts: list[Path], tmp_path: Path, small_pieces: None) -> None:
    tokenise(texts, tmp_path / "out", BytePairs(300))
    stream, _ = open_tokens(tmp_path / "out")
    ids = whole(tmp_path / "out")
    starts = np.array([0, 7, len(ids) // 2, len(ids) - 400])
    np.testing.assert_array_equal(stream.crops(starts, 400), np.stack([ids[s : s + 400] for s in starts]))
    part = stream[100:2000][50:]
    assert isinstance(part, TokenStream)
    np.testing.assert_array_equal(part.read(0, len(part)), ids[150:2000])
    assert part.digest() != stream.digest()
    assert stream.crops(starts, 400).dtype == np.int32
    with pytest.raises(DataError, match="there are"):
        stream.read(len(stream) - 3, 4)


def test_damage_is_refused_by_name(texts: list[Path], tmp_path: Path, small_pieces: None) -> None:
    out = tmp_path / "out"
    tokenise(texts, out, BytePairs(300))
    data = bytearray((out / "00003.npy").read_bytes())
    data[-1] ^= 1
    (out / "00003.npy").write_bytes(data)
    stream, _ = open_tokens(out)
    stream.read(0, 10)  # of another shard
    with pytest.raises(DataError, match=r"00003\.npy: damaged: its checksum"):
        whole(out)
    (out / "00003.npy").unlink()
    with pytest.raises(DataError, match=r"00003\.npy: the shard is missing"):
        open_tokens(out)
    (out / "tokens.json").write_text('{"version": 1}')
    with pytest.raises(DataError, match="not a list of shards"):
        open_tokens(out)


def test_a_tokeniser_in_the_place_of_another_is_refused(texts: list[Path], tmp_path: Path) -> None:
    """The same ids would be other texts."""
    tokenise(texts, tmp_path / "out", BytePairs(300))
    own = (tmp_path / "out" / "tokenizer.json").read_text()
    (tmp_path / "out" / "tokenizer.json").write_text(Characters().train(["another alphabet"]).to_json())
    with pytest.raises(DataError, match=r"tokenizer\.json: it is not the one that the tokens of this folder were made"):
        open_tokens(tmp_path / "out")
    with pytest.raises(DataError, match=r"tokenizer\.json: it is not the one"):
        tokenise(texts, tmp_path / "out", BytePairs(300))
    index = tmp_path / "out" / "tokens.json"
    index.write_text(json.dumps({**json.loads(index.read_text()), "tokeniser": None}))  # as older ones are
    open_tokens(tmp_path / "out")
    (tmp_path / "out" / "tokenizer.json").write_text(json.dumps(json.loads(own)))
    open_tokens(tmp_path / "out")
    (tmp_path / "out" / "tokenizer.json").unlink()
    with pytest.raises(
        DataError, match=r"tokenizer\.json: it is missing, .*; bring it back, or tokenise the text again"
    ):
        open_tokens(tmp_path / "out")


TWO_PROCESSES = """
import sys
from pathlib import Path
from glassformer.data import tokenise
from glassformer.data.tokeniser_training import Characters
tokenise.PIECE = 10_000
if __name__ == "__main__":
    tokenise.tokenise([Path("text.txt")], Path("out"), Characters(), workers=2, progress=lambda bytes: print(bytes))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the children of a process in /proc")
def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(200 * LINES)
    (tmp_path / "two.py").write_text(TWO_PROCESSES)
    parent = subprocess.Popen([sys.executable, "two.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    parent.stdout.readline()
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    parent.kill()
    parent.communicate()
    until = time.monotonic() + 60
    while left := [child for child in children if Path(f"/proc/{child}").exists() and not is_zombie(child)]:
        assert time.monotonic() < until, left
        time.sleep(0.05)
    assert len(children) >= 2


def is_zombie(process: str) -> bool:
    """It has ended, and nobody has asked how."""
    try:
        return ") Z " in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return True


def test_what_cannot_be_tokenised_is_said(texts: list[Path], tmp_path: Path) -> None:
    def refused(
        match: str, files: list[Path], kind: Any = None, error: type[GlassformerError] = DataError, to: str = "out"
    ) -> None:
        with pytest.raises(error, match=match):
            tokenise(files, tmp_path / to, kind or BytePairs(300))

    bad = tmp_path / "latin.txt"
    bad.write_bytes(b"ok\n" + "Übel".encode("latin1"))
    refused(r"latin.txt: not UTF-8: byte 3 is 0xdc", [bad], chosen_tokeniser("byte-pairs", 300))
    (tmp_path / "empty.txt").write_text("")
    refused("the files are empty", [tmp_path / "empty.txt"])
    refused("there is no such file", [tmp_path / "missing.txt"])
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"words": 1}\n')
    refused('expected {"text"', [lines])
    with pytest.raises(GlassformerError, match=r"expected characters, byte-pairs, a tokenizer\.json"):
        chosen_tokeniser("byte-pair", 300)
    tokenise(texts, tmp_path / "out", BytePairs(300))
    refused("made from other files", texts[:1])
    refused("another tokeniser", texts, Characters().train(["abc"]))
    refused("another tokeniser", texts, BytePairs(301))
    refused("another tokeniser", texts, Characters())
    texts[0].write_text(LINES + "more")
    refused("they have changed", texts)
    (tmp_path / "a file").write_text("")
    refused("a file: cannot be written: File exists; choose another", texts, error=FileError, to="a file")
