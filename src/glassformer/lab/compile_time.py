"""How long this thread has been making programs, so that the time of a run can be told without it."""

import contextlib
import threading
import time
from collections.abc import Iterator
from functools import cache
from typing import Any

import jax

EVENTS = "/jax/core/compile/"  # tracing, lowering, compiling


class Spent(threading.local):
    seconds = 0.0


_spent = Spent()


@cache
def listen() -> None:
    """Once in a process."""

    def add(event: str, duration_secs: float, **_: Any) -> None:
        if event.startswith(EVENTS):
            _spent.seconds += duration_secs

    jax.monitoring.register_event_duration_secs_listener(add)


@contextlib.contextmanager
def making_programs() -> Iterator[None]:
    """All of the time in here counts; what JAX reports of it, not twice."""
    before, start = _spent.seconds, time.monotonic()
    try:
        yield
    finally:
        _spent.seconds = before + time.monotonic() - start


def compile_seconds() -> float:
    """In this thread, so far."""
    listen()
    return _spent.seconds
