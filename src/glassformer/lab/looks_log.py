"""When a study was looked at: a line for each report of finished runs, with the arms that stopped there.

An arm stops at a look that the plan names when it is hopeless: the probability that it would surely help at the end,
predicted from the paired differences so far, is below the plan's `futility`. With n of N seeds, mean d and standard
deviation s, the mean of all N is predicted by Student's t with n - 1 degrees of freedom around d, with the standard
error s sqrt((N - n) / (N n)); it must exceed t(1 - α / 2m) s / sqrt(N), m arms sharing the level α.
An arm that stops cannot be found to help: false alarms become fewer, never more.
"""

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from glassformer.errors import FileError
from glassformer.files import locked
from glassformer.lab.sample_size import LEVEL
from glassformer.reading import read_text

FILE = "looks.jsonl"
MOST = 1 << 24  # bytes


@dataclass(frozen=True)
class Stopped:
    """An arm that gets no more seeds."""

    key: str  # of its cell
    title: str
    seeds: int  # it has had
    reason: str  # "would surely help at the end with probability 0.02"


@dataclass(frozen=True)
class LookedAt:
    seeds: int  # that every cell had
    runs: int
    stopped: tuple[Stopped, ...] = field(default=())
    early: bool = False  # the last look, taken before all runs were there: time was up
    level: float = LEVEL  # that it used of the 5 %; a line that does not say used all

    def says(self, other: "LookedAt") -> bool:
        """So that the other need not be noted."""
        if other.early:
            return self == other
        same = not self.early and self.seeds == other.seeds
        return same and set(other.stopped) <= set(self.stopped) and other.level <= self.level


def read_looks(folder: Path) -> tuple[LookedAt, ...]:
    path = folder / FILE
    if not path.exists():
        return ()
    found = []
    for line in read_text(path, MOST).splitlines():
        try:
            plain = json.loads(line)
            stopped = tuple(Stopped(**one) for one in plain.get("stopped", ()))
            early, level = plain.get("early", False), float(plain.get("level", LEVEL))
            found.append(LookedAt(plain["seeds"], plain["runs"], stopped, early, level))
        except (ValueError, TypeError, KeyError):
            continue  # cut off by a power cut
    return tuple(found)


def add_look(folder: Path, look: LookedAt) -> None:
    """Once for each number of seeds, an early one once for each number of runs; durably."""
    path = folder / FILE
    try:
        with locked(folder), path.open("ab") as file:
            if any(one.says(look) for one in read_looks(folder)):
                return
            file.write(json.dumps(asdict(look)).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise FileError(
            f"{path}: cannot be written: {error.strerror or error}; the runs are kept. Free some space and start the "
            "same command again"
        ) from None


def chance_to_help(differences: Sequence[float], seeds: int, arms: int) -> float:
    """The probability that an arm surely helps when all seeds are there; differences are up where it does better."""
    from scipy.stats import t

    values = np.asarray(differences, float)
    n = len(values)
    if n < 2 or n >= seeds:
        return math.nan
    mean, spread = float(values.mean()), float(values.std(ddof=1))
    if spread == 0:
        return float(mean > 0)
    needed = t.isf(LEVEL / 2 / max(arms, 1), seeds - 1) * spread / math.sqrt(seeds)
    error = spread * math.sqrt((seeds - n) / (seeds * n))
    return float(t.sf((needed - mean) / error, n - 1))
