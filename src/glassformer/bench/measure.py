"""Timing that survives a noisy machine: contestants take turns, and the medians are compared."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax


def interleaved(contestants: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each contestant over `rounds` turns, after one turn to compile."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):
        for name, run in contestants.items():
            start = time.perf_counter()
            jax.block_until_ready(run())
            if turn > 0:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}
