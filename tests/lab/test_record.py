"""Records on the disk: nothing is lost, nothing is there twice, whatever happens to those who write."""

import json
import multiprocessing
import os
import threading
from dataclasses import asdict
from pathlib import Path

import pytest

from glassformer.errors import FileError
from glassformer.lab.record import FILE, Record, Results

from .small import lines_of


def record(seed: int, key: str = "cell", **words: object) -> Record:
    known = {"outcome": "ok", **words}
    return Record(key, seed, loss=(2.0, 1.5), validation=(0.25, 0.5), test=0.5, inside={"entropy": 0.9}, **known)  # pyright: ignore


NAN = Record("other", 1, failed="not finite in epoch 2", outcome="nan", reason="not finite in epoch 2")


def test_what_is_added_is_read_back_by_anyone(tmp_path: Path) -> None:
    results = Results(tmp_path)
    assert results.records == {}
    results.add([record(1), record(2), NAN])
    again = Results(tmp_path)
    assert again.records == results.records
    assert list(again.records.values()) == [record(1), record(2), NAN]
    assert again.of("cell") == {1: record(1), 2: record(2)}
    assert ("cell", 1) in again
    assert ("cell", 3) not in again
    assert isinstance(again.records["cell", 1].loss, tuple)


@pytest.mark.parametrize("kept", [1, 20, -1])
def test_a_line_that_was_cut_off_is_left_out_and_the_next_begins_anew(tmp_path: Path, kept: int) -> None:
    """At its first byte, in the middle, and just before the line break."""
    Results(tmp_path).add([record(1)])
    line = (json.dumps(asdict(record(2))) + "\n").encode()
    with (tmp_path / FILE).open("ab") as file:
        file.write(line[:kept])
    results = Results(tmp_path)
    assert set(results.records) == {("cell", 1)}
    results.add([record(2), record(3)])
    assert {seed for _, seed in Results(tmp_path).records} == {1, 2, 3}
    assert results.records == Results(tmp_path).records
    assert (tmp_path / FILE).read_bytes().endswith(b"\n")


def test_what_is_no_record_is_left_out(tmp_path: Path) -> None:
    good = json.dumps(asdict(record(1))).encode()
    spoiled = b"\n".join(good.replace(b'"seed": 1', b'"seed": ' + seed) for seed in (b"[]", b"true", b"1.5", b"{}"))
    deep = b"[" * 3000
    others = b'3\n"x"\n[]\n{}\n{"key": 1}\n\xff\xfe\n\n'
    (tmp_path / FILE).write_bytes(others + spoiled + b"\n" + deep + b"\n" + good + b"\n" + good[:-9] + b"\n")
    assert list(Results(tmp_path).records) == [("cell", 1)]


def test_the_first_of_two_is_kept(tmp_path: Path) -> None:
    one, other = Results(tmp_path), Results(tmp_path)
    one.add([record(1, seconds=1.0)])
    other.add([record(1, seconds=2.0), record(2)])  # it has not looked since
    assert [(line["seed"], line["seconds"]) for line in lines_of(tmp_path)] == [(1, 1.0), (2, 0.0)]
    assert other.records["cell", 1].seconds == 1.0
    one.refresh()
    assert one.records == other.records


def add_many(folder: Path, first: int) -> None:
    results = Results(folder)
    for seed in range(first, first + 40):
        results.add([record(seed, key="x" * 5000)])


def test_several_processes_may_add_at_once(tmp_path: Path) -> None:
    """Half of what the two add is the same."""
    both = [multiprocessing.get_context("spawn").Process(target=add_many, args=(tmp_path, first)) for first in (0, 20)]
    for process in both:
        process.start()
    for process in both:
        process.join()
        assert process.exitcode == 0
    assert sorted(line["seed"] for line in lines_of(tmp_path)) == list(range(60))


def test_records_may_be_read_by_one_thread_while_another_adds(tmp_path: Path) -> None:
    results, wrong = Results(tmp_path), []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                results.refresh()
                results.of("cell")
                set(results.records)
        except RuntimeError as error:
            wrong.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for seed in range(300):
        results.add([record(seed)])
    done.set()
    reader.join()
    assert not wrong
    assert len(results.records) == 300


def test_a_full_disk_is_reported_and_what_was_there_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Results(tmp_path)
    results.add([record(1)])

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(FileError, match=r"results\.jsonl: a result cannot be written: No space left.*again"):
            results.add([record(2)])
    assert ("cell", 1) in Results(tmp_path)


def test_a_file_in_place_of_the_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "study").write_text("")
    with pytest.raises(FileError, match=r"results\.jsonl: cannot be read: Not a directory"):
        Results(tmp_path / "study")
