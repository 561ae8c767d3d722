"""A bounded queue for heavy work, one piece at a time: many requests wait rather than fill the machine."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore
from typing import TypeVar

from glassformer.lens.studio.http_errors import busy

MOST = 64  # pieces that wait or run

Result = TypeVar("Result")


class WorkQueue:
    def __init__(self, most: int = MOST) -> None:
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="studio")
        self.places = Semaphore(most)

    async def run(self, work: Callable[[], Result]) -> Result:
        """What the work gives. Cancelled while it waits, it is never begun."""
        if not self.places.acquire(blocking=False):
            raise busy("too many requests are waiting")
        try:
            future = self.thread.submit(work)
        except RuntimeError:
            self.places.release()
            raise busy("the studio is stopping") from None
        future.add_done_callback(lambda _: self.places.release())
        return await asyncio.wrap_future(future)

    def stop(self) -> None:
        """What waits is dropped; what runs is waited for."""
        self.thread.shutdown(wait=True, cancel_futures=True)
