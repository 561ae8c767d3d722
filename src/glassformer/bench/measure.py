"""Timing that survives a noisy machine: contestants take turns, and the medians are compared."""

import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax

REST = 0.02  # seconds before a turn: threads of the one before, which look out for more work, have gone to sleep


class Turns:
    """Contestants that take turns. The first turn of each compiles and is counted apart.

    A turn is one call or, with `least`, as many as last so many seconds: what a contestant does first, when another
    has just used the processor, then weighs little.
    """

    def __init__(self, contestants: Mapping[str, Callable[[], Any]], least: float = 0.0) -> None:
        self.contestants, self.least = contestants, least
        self.calls = dict.fromkeys(contestants, 1)  # in a turn
        self.seconds: dict[str, list[float]] = {name: [] for name in contestants}  # of one call, by turn

    def run(self, rounds: int) -> Iterator[int]:
        """A round to compile, then `rounds` that count; yields after each, so that progress can show."""
        for turn in range(rounds + 1):
            for name, contestant in self.contestants.items():
                time.sleep(REST)
                self.seconds[name].append(timed(contestant, self.calls[name]) / self.calls[name])
                if turn == 0:
                    self.calls[name] = self.calls_lasting_long_enough(contestant)
            yield turn

    def calls_lasting_long_enough(self, contestant: Callable[[], Any]) -> int:
        calls = 1
        while self.least and timed(contestant, calls) < self.least:
            calls *= 2
        return calls

    def medians(self) -> dict[str, float]:
        """Seconds of a call, compile time left out."""
        return {name: statistics.median(seconds[1:]) for name, seconds in self.seconds.items()}

    def fastest(self) -> dict[str, float]:
        """Seconds of a call in the best turn."""
        return {name: min(seconds[1:]) for name, seconds in self.seconds.items()}

    def spread(self) -> float:
        """The slowest turn over the fastest, of the contestant that was the least steady. Idle machines stay near 1."""
        return max((max(seconds[1:]) / min(seconds[1:]) for seconds in self.seconds.values()), default=1.0)

    def compiling(self) -> dict[str, float]:
        """Seconds that the first call took longer than a median one."""
        return {name: max(0.0, self.seconds[name][0] - median) for name, median in self.medians().items()}


@contextlib.contextmanager
def beside_busy_processes(count: int) -> Iterator[None]:
    """Machines are seldom idle: `count` processes compute all the time, each in a session and so a share of its own."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def timed(contestant: Callable[[], Any], calls: int) -> float:
    """Seconds of all calls, until the last one's result is there."""
    start, result = time.perf_counter(), None
    for _ in range(calls):
        result = contestant()
    jax.block_until_ready(result)
    return time.perf_counter() - start


def interleaved(contestants: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each contestant over `rounds` turns, after one turn to compile."""
    turns = Turns(contestants)
    for _ in turns.run(rounds):
        pass
    return turns.medians()
