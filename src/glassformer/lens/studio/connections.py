"""Connections: those that say nothing are closed in time, and where there are many, the oldest idle ones make room.

A connection is idle while no request of it is being answered: it was just opened, sends half a head, or waits for the
next request. Who holds thousands of them keeps nobody out.
"""

import asyncio
from contextlib import suppress
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 5.0  # from opening to the end of the first request's head
IDLE_SECONDS = 15  # from one answer to the end of the next request's head
MOST = 1000  # connections
MOST_OF_ONE = 750  # of one address: the rest is for others
FULL = b'{"error":"too many connections; ask again in a moment"}'
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(FULL), FULL)
)


class Clients:
    """Connections by the address they come from; of each address those that are idle, the oldest first."""

    def __init__(self) -> None:
        self.all: dict[str, set[Connection]] = {}
        self.idle: dict[str, dict[Connection, None]] = {}

    def has_room(self, address: str) -> bool:
        """For one more: an idle connection may be closed for it."""
        of_one = len(self.all.get(address, ())) >= MOST_OF_ONE
        if not of_one and sum(map(len, self.all.values())) < MOST:
            return True
        crowded = address if of_one else max(self.all, key=lambda one: len(self.all[one]))
        oldest = next(iter(self.idle.get(crowded, ())), None)
        if oldest is not None:
            oldest.transport.abort()
            self.remove(oldest)
        return oldest is not None

    def add(self, one: "Connection") -> None:
        self.all.setdefault(one.address, set()).add(one)

    def set_idle(self, one: "Connection", is_idle: bool) -> None:
        idle = self.idle.setdefault(one.address, {})
        idle.pop(one, None)
        if is_idle and one in self.all.get(one.address, ()):
            idle[one] = None

    def remove(self, one: "Connection") -> None:
        for kept in (self.all, self.idle):
            there: Any = kept.get(one.address, {})
            with suppress(KeyError):
                there.pop(one) if isinstance(there, dict) else there.remove(one)
            if not there:
                kept.pop(one.address, None)


class Connection(H11Protocol):
    address = ""
    deadline: asyncio.TimerHandle | None = None
    unsent = 0  # bytes of the last answer, when it was looked last

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if not self.clients.has_room(self.address):
            transport.write(REFUSAL)
            transport.close()
            return
        self.clients.add(self)
        self.rest(HEAD_SECONDS)

    @property
    def clients(self) -> Clients:
        """One for all connections of a server."""
        return self.server_state.__dict__.setdefault("clients", Clients())

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self.work()

    def on_response_complete(self) -> None:
        before = self.cycle
        super().on_response_complete()
        if self.cycle is before:  # no further request came with the one that is answered
            self.rest(IDLE_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self.work()
        self.clients.remove(self)
        super().connection_lost(exc)

    def rest(self, seconds: float) -> None:
        """Nothing is being answered: the next head has to come, whole, within some seconds."""
        self.work()
        self.clients.set_idle(self, True)
        self.unsent = self.transport.get_write_buffer_size()
        self.deadline = self.loop.call_later(seconds, self.expire)

    def work(self) -> None:
        self.clients.set_idle(self, False)
        if self.deadline is not None:
            self.deadline.cancel()

    def expire(self) -> None:
        """Who still reads a long answer is let go on; who has stopped is not."""
        if 0 < self.transport.get_write_buffer_size() < self.unsent:
            self.rest(IDLE_SECONDS)
        else:
            self.transport.abort()
