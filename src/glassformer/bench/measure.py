"""Timing that survives a noisy machine: contestants take turns, and the medians are compared."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax


class Turns:
    """Contestants that take turns. The first turn of each compiles and is counted apart."""

    def __init__(self, contestants: Mapping[str, Callable[[], Any]]) -> None:
        self.contestants = contestants
        self.seconds: dict[str, list[float]] = {name: [] for name in contestants}

    def run(self, rounds: int) -> Iterator[int]:
        """A round to compile, then `rounds` that count; yields after each, so that progress can show."""
        for turn in range(rounds + 1):
            for name, contestant in self.contestants.items():
                start = time.perf_counter()
                jax.block_until_ready(contestant())
                self.seconds[name].append(time.perf_counter() - start)
            yield turn

    def medians(self) -> dict[str, float]:
        """Seconds of a turn, compile time left out."""
        return {name: statistics.median(seconds[1:]) for name, seconds in self.seconds.items()}

    def spread(self) -> float:
        """The slowest turn over the fastest, of the contestant that was the least steady. Idle machines stay near 1."""
        return max(max(seconds[1:]) / min(seconds[1:]) for seconds in self.seconds.values())

    def compiling(self) -> dict[str, float]:
        """Seconds that the first turn took longer than a median one."""
        return {name: max(0.0, self.seconds[name][0] - median) for name, median in self.medians().items()}


def interleaved(contestants: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each contestant over `rounds` turns, after one turn to compile."""
    turns = Turns(contestants)
    for _ in turns.run(rounds):
        pass
    return turns.medians()
