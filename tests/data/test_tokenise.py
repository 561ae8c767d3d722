"""Tokens in files: those of the whole text, however it is cut; whole after an interruption; damage is refused."""

import json
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


def test_what_cannot_be_tokenised_is_said(texts: list[Path], tmp_path: Path) -> None:
    def refused(match: str, files: list[Path], kind: Any = None, error: type[GlassformerError] = DataError) -> None:
        with pytest.raises(error, match=match):
            tokenise(files, tmp_path / "out", kind or BytePairs(300))

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
    texts[0].write_text(LINES + "more")
    refused("they have changed", texts)
    (tmp_path / "a file").write_text("")
    with pytest.raises((FileError, OSError)):
        tokenise(texts, tmp_path / "a file", BytePairs(300))
