"""Server-sent events: a response that stays open. Slow clients are dropped."""

import asyncio

from starlette.types import Receive, Scope, Send

from glassformer.lens.studio.watch import Listener, Watcher

QUIET_SECONDS = 15.0  # after which a comment shows that the studio is still there
SEND_SECONDS = 30.0  # that a client may take to read one event
HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]


class EventStream:
    def __init__(self, watcher: Watcher, listener: Listener) -> None:
        self.watcher, self.listener = watcher, listener

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(self.until_gone(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await self.put(send, b"retry: 2000\n\n")
            while (event := await self.next_or_comment()) is not None:
                await self.put(send, event)
            await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            pass  # the connection is closed, as the response has no end
        finally:
            gone.cancel()
            self.watcher.leave(self.listener)

    async def next_or_comment(self) -> bytes | None:
        try:
            async with asyncio.timeout(QUIET_SECONDS):
                return await self.listener.next()
        except TimeoutError:
            return b": still here\n\n"

    async def put(self, send: Send, body: bytes) -> None:
        async with asyncio.timeout(SEND_SECONDS):
            await send({"type": "http.response.body", "body": body, "more_body": True})

    async def until_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.listener.waiting.clear()
        self.listener.end()
