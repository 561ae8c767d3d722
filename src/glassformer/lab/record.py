"""What is written down of one run, as it ends: one line of JSON, flushed to the disk.

A study folder holds `results.jsonl`, to which lines are only ever added, under a lock: a killed study loses the run it
was in, several processes may work on one study, and a line that was cut off by a power cut is left out.
"""

import json
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from glassformer.errors import FileError
from glassformer.files import locked
from glassformer.lab.looks_log import Stopped, read_looks

FILE = "results.jsonl"
Outcome = Literal[
    "",  # written before outcomes were: `judged` (outcome.py) says which
    "ok",
    "nan",  # a loss or a weight was not finite
    "collapse",  # it answers no better than one that always says the same (outcome.py)
    "memory",
    "failed",  # anything else, `failed` says what
]


@dataclass(frozen=True)
class Record:
    """One cell with one seed."""

    key: str  # of the cell
    seed: int
    failed: str = ""  # why there are no numbers: "not finite in epoch 2"; nothing: there are
    loss: tuple[float, ...] = ()  # of training, by epoch
    validation: tuple[float, ...] = ()  # accuracy by epoch; empty where nothing is held out
    test: float | None = None  # accuracy of the last weights, read once, at the end
    steps: int = 0  # of training, in all
    seconds: float = 0.0
    parameters: int = 0
    engine: str = ""
    machine: str = ""  # "NVIDIA H200", "AMD EPYC 9454, 2 cores"
    inside: dict[str, float] = field(default_factory=dict)  # what the lens sees in the trained model: mechanism.py
    outcome: Outcome = ""
    reason: str = ""  # of an outcome that is not "ok"
    scores: dict[str, tuple[float, ...]] = field(default_factory=dict)  # on validation: metric -> raw, by epoch
    test_scores: dict[str, float] = field(default_factory=dict)  # of the last weights, once: metric -> raw
    compile_seconds: float = 0.0  # of `seconds`: programs made, before anything was trained
    multiply_adds: int = 0  # of the forward pass of one sample

    @property
    def place(self) -> tuple[str, int]:
        return self.key, self.seed

    def curve(self, metric: str) -> tuple[float, ...]:
        """Raw, on validation, by epoch. Records of earlier releases have accuracies alone."""
        return self.scores.get(metric, self.validation if metric == "accuracy" else ())

    def value(self, metric: str, measure: str) -> float | None:
        """Raw, in the end, on "validation" or "test"; None where there is none."""
        if measure == "test":
            return self.test_scores.get(metric, self.test if metric == "accuracy" else None)
        curve = self.curve(metric)
        return curve[-1] if curve else None


class Results:
    """The records of a study, on the disk and in memory."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.records: dict[tuple[str, int], Record] = {}  # replaced, never changed: others may be reading it
        self.by_key: dict[str, dict[int, Record]] = {}
        self.read = 0  # bytes of the file that are known
        self.looks = read_looks(folder)
        self.chance: dict[str, Any] | None = None  # not looked up yet
        self.lock = threading.RLock()
        self.refresh()

    def refresh(self) -> None:
        """Take in what others have added."""
        with self.lock:
            if self.path.exists() and not self.path.is_file():
                raise FileError(f"{self.path}: is not a plain file; put the file itself there")
            try:
                with self.path.open("rb") as file:
                    file.seek(self.read)
                    new = file.read()
            except FileNotFoundError:
                return
            except OSError as error:
                raise FileError(f"{self.path}: cannot be read: {error.strerror or error}") from None
            whole = new[: new.rfind(b"\n") + 1]
            if not whole:
                return
            known = dict(self.records)
            for record in map(parse, whole.split(b"\n")):
                if record is not None:
                    known.setdefault(record.place, self.judged(record))
            by_key: dict[str, dict[int, Record]] = {}
            for (key, seed), record in known.items():
                by_key.setdefault(key, {})[seed] = record
            self.records, self.by_key, self.read = known, by_key, self.read + len(whole)

    def add(self, records: Iterable[Record]) -> None:
        """Durably, before anything else happens. What another process has added meanwhile is not added again."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with locked(self.path.parent), self.path.open("ab") as file:
                self.refresh()
                new = [record for record in records if record.place not in self.records]
                data = b"".join(json.dumps(asdict(record)).encode() + b"\n" for record in new)
                if file.seek(0, os.SEEK_END) and not ends_with_newline(self.path):
                    data = b"\n" + data  # somebody was killed in the middle of a line
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise FileError(
                f"{self.path}: a result cannot be written: {error.strerror or error}; those before it are kept. "
                "Free some space and start the same command again"
            ) from None
        self.refresh()

    def judged(self, record: Record) -> Record:
        """With its outcome, by what guessing scores on the study's data."""
        from glassformer.lab.folder import chance_of
        from glassformer.lab.outcome import judged

        if record.outcome:
            return record
        if self.chance is None:
            self.chance = chance_of(self.path.parent)
        return judged(record, self.chance)

    @property
    def looked(self) -> tuple[int, ...]:
        """Numbers of seeds at which there was a report already."""
        return tuple(sorted({look.seeds for look in self.looks if not look.early}))

    @property
    def stopped(self) -> dict[str, Stopped]:
        """Arms that get no more seeds, by the key of their cell."""
        return {one.key: one for look in self.looks for one in look.stopped}

    def expected(self, key: str, seeds: Sequence[int]) -> Sequence[int]:
        """Those that its arm is to have: all, or as many as it had when it stopped."""
        there = self.stopped.get(key)
        return seeds[: there.seeds] if there else seeds

    def __contains__(self, place: object) -> bool:
        return place in self.records

    def of(self, key: str) -> dict[int, Record]:
        """By seed."""
        return dict(self.by_key.get(key, {}))


def ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def parse(line: bytes) -> Record | None:
    """None for what is no record, a line that was cut off or spoiled: its run is done again."""
    try:
        return reader().validate_json(line, strict=True)
    except ValueError:
        return None


@cache
def reader() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Record)
