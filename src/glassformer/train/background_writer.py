"""Files written one after the other while training goes on."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class BackgroundWriter:
    """Never more than two files wait to be written."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)
        self.waiting: list[Future[None]] = []

    def put(self, save: Callable[..., None], *content: Any) -> None:
        while len(self.waiting) > 1:
            self.waiting.pop(0).result()  # it raises what went wrong
        self.waiting.append(self.pool.submit(save, *content))

    def wait(self) -> None:
        while self.waiting:
            self.waiting.pop(0).result()
