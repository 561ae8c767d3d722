"""Watching runs as they train: one watcher for each run, whoever listens. It looks at the folder a few times a second.

progress    state, epochs wanted, and the rows of all epochs so far: at once, and again where a run began anew
epoch       the row of one new epoch
look        a preview at the first test sample, with the weights of that epoch
end         training is over: the state
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from glassformer.errors import GlassformerError
from glassformer.lens.studio.http_errors import HTTPError, TooLongError, busy
from glassformer.lens.studio.json_bytes import json_bytes
from glassformer.lens.studio.runs import TRAINING, Place, Standing

POLL_SECONDS = 0.3
KEPT_LOOKS = 64
KEPT_BYTES = 32 << 20  # of looks, of one run
MOST_WAITING = KEPT_LOOKS + 256  # events: who is further behind is dropped, and may come again
MOST_LISTENERS = 500
MOST_WATCHERS = 16  # that are kept with their looks when nobody listens

Stand = Callable[[Place], Awaitable[Standing]]
Look = Callable[[Place], Awaitable[tuple[int, dict[str, Any]]]]  # the epoch, and what is seen with its weights


class Listener:
    """Events for one client, waiting to be sent. All listeners hold the same bytes."""

    def __init__(self) -> None:
        self.waiting: deque[bytes] = deque()
        self.more = asyncio.Event()
        self.ended = False

    def tell(self, event: bytes) -> None:
        if len(self.waiting) >= MOST_WAITING:
            self.waiting.clear()
            self.end()
        if not self.ended:
            self.waiting.append(event)
            self.more.set()

    def end(self) -> None:
        """No more events come; those that wait are still sent."""
        self.ended = True
        self.more.set()

    async def next(self) -> bytes | None:
        """None: it was the last."""
        while not self.waiting:
            if self.ended:
                return None
            self.more.clear()
            await self.more.wait()
        return self.waiting.popleft()


class Watcher:
    """Of one run. It goes on while somebody listens, and once begun until training is over."""

    def __init__(self, place: Place, stand: Stand, look: Look) -> None:
        self.place, self.stand, self.look = place, stand, look
        self.listeners: set[Listener] = set()
        self.looks: deque[bytes] = deque()
        self.now: Standing | None = None
        self.seen: Any = None  # the weights that were looked at
        self.looking: asyncio.Task[None] | None = None
        self.task: asyncio.Task[None] | None = None

    async def join(self) -> Listener:
        if self.now is None or self.task is None or self.task.done():
            self.now = await self.stand(self.place)
        listener = Listener()
        listener.tell(progress(self.now))
        for look in self.looks:
            listener.tell(look)
        self.listeners.add(listener)
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self.follow())
        return listener

    def leave(self, listener: Listener) -> None:
        self.listeners.discard(listener)

    def is_idle(self) -> bool:
        return not self.listeners and (self.task is None or self.task.done())

    async def follow(self) -> None:
        try:
            while self.listeners or (self.now and self.now.state == TRAINING):
                if await self.is_over():
                    break
                await asyncio.sleep(POLL_SECONDS)
        except (GlassformerError, HTTPError):  # the folder went away, holds no run any more, or takes too long
            pass
        except Exception:
            logging.getLogger(__name__).exception("watching %s failed", self.place.path.name)
        finally:
            for listener in tuple(self.listeners):
                listener.end()

    async def is_over(self) -> bool:
        now = await self.stand(self.place)
        before, self.now = self.now, now
        known = before.rows if before else ()
        if now.rows[: len(known)] != known or (before and before.of != now.of):
            self.tell(progress(now))
        else:
            for row in now.rows[len(known) :]:
                self.tell(event("epoch", row))
        idle = self.looking is None or self.looking.done()
        if idle and now.weights != self.seen:
            self.seen = now.weights
            self.looking = asyncio.create_task(self.take_look())
            return False
        if now.state == TRAINING or not idle:
            return False
        self.tell(event("end", {"state": now.state}))
        return True

    async def take_look(self) -> None:
        try:
            made = look_event(*await self.look(self.place))
        except TooLongError:
            return
        except HTTPError:
            self.seen = None  # busy: another time
            return
        except GlassformerError:
            return  # no test data at hand, or no weights yet: there is nothing to look at
        except Exception:
            logging.getLogger(__name__).exception("looking at %s failed", self.place.path.name)
            return
        if made not in self.looks:
            self.looks.append(made)
            while len(self.looks) > KEPT_LOOKS or sum(map(len, self.looks)) > KEPT_BYTES:
                self.looks.popleft()
            self.tell(made)

    def tell(self, event: bytes) -> None:
        for listener in tuple(self.listeners):
            listener.tell(event)

    def stop(self) -> None:
        for task in (self.task, self.looking):
            if task is not None:
                task.cancel()
        for listener in tuple(self.listeners):
            listener.end()


class Watchers:
    def __init__(self, stand: Stand, look: Look) -> None:
        self.stand, self.look = stand, look
        self.by_place: dict[Place, Watcher] = {}
        self.stopped = False

    async def join(self, place: Place) -> tuple[Watcher, Listener]:
        if self.stopped or sum(len(one.listeners) for one in self.by_place.values()) >= MOST_LISTENERS:
            raise busy("too many are watching")
        idle = [one for one, watcher in self.by_place.items() if watcher.is_idle()]
        for old in idle[: max(len(idle) - MOST_WATCHERS + 1, 0)]:
            if old != place:
                del self.by_place[old]
        watcher = self.by_place.setdefault(place, Watcher(place, self.stand, self.look))
        return watcher, await watcher.join()

    def stop(self) -> None:
        self.stopped = True
        for watcher in self.by_place.values():
            watcher.stop()


def progress(now: Standing) -> bytes:
    return event("progress", {"state": now.state, "of": now.of, "epochs": now.rows})


def look_event(epoch: int, view: dict[str, Any]) -> bytes:
    return event("look", {"epoch": epoch, "view": view})


def event(name: str, plain: dict[str, Any]) -> bytes:
    """JSON in one line, as the format wants it."""
    return b"event: " + name.encode() + b"\ndata: " + json_bytes(plain) + b"\n\n"
