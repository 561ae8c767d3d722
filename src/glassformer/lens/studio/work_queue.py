"""A bounded queue for heavy work, one piece at a time, in a process of its own.

A thread cannot be stopped, least of all in a loop of C; a process can: work that takes too long is killed with it, and
the next piece finds a new one. It is kept as long as all goes well, with the programs it has compiled.
"""

import asyncio
import logging
import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock, Semaphore, Thread
from typing import Any, cast

from glassformer.errors import GlassformerError
from glassformer.lens.studio.http_errors import HTTPError, TooLongError, busy
from glassformer.registry import load_code, loaded_code

MOST = 64  # pieces that wait or run
WORK_SECONDS = 60.0  # that a piece may take; the first one of a large model compiles for half a minute
WAIT_SECONDS = 20.0  # after which who waits for others is told to come back
START_SECONDS = 120.0  # of a new process: on a busy machine it imports for a while

SPAWN = multiprocessing.get_context("spawn")


class WorkQueue:
    def __init__(self, most: int = MOST, seconds: float = WORK_SECONDS) -> None:
        self.seconds = seconds
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="studio", initializer=block_interrupts)
        self.places = Semaphore(most)
        self.process: Any = None
        self.pipe: Connection | None = None
        self.ending = Lock()
        self.is_stopped = False

    async def run(self, work: Callable[..., Any], *given: Any) -> Any:
        """What a function of a module gives, in the process. Cancelled while it waits, it is never begun."""
        if not self.places.acquire(blocking=False):
            raise busy("too many requests are waiting")
        try:
            future = self.thread.submit(self.done, work, given)
        except RuntimeError:
            self.places.release()
            raise busy("the studio is stopping") from None
        future.add_done_callback(lambda _: self.places.release())
        waiting = asyncio.wrap_future(future)
        try:
            await asyncio.wait({waiting}, timeout=WAIT_SECONDS)
            if not waiting.done() and future.cancel():
                raise busy("other work takes long")
            return await waiting
        finally:
            waiting.cancel()

    def done(self, work: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        """In the thread: it waits for the process, which may be killed meanwhile."""
        try:
            pipe = self.pipe or self.start()
            pipe.send((work, given))
            if not pipe.poll(self.seconds):
                self.kill()
                raise TooLongError(self.seconds)
            result, error = pipe.recv()
        except (EOFError, OSError):  # by `stop`, or by the system for want of memory
            self.kill()
            if self.is_stopped:
                raise busy("the studio is stopping") from None
            raise HTTPError(500, "the process that does the work was ended, perhaps for want of memory") from None
        if error is not None:
            raise error
        return result

    def start(self) -> Connection:
        with self.ending:
            if self.is_stopped:
                raise EOFError
            pipe, theirs = SPAWN.Pipe()
            self.pipe = cast(Connection, pipe)
            self.process = SPAWN.Process(target=work_for, args=(theirs, loaded_code()), daemon=True)
            self.process.start()
            theirs.close()
        if not pipe.poll(START_SECONDS):
            raise EOFError
        pipe.recv()
        return cast(Connection, pipe)

    def kill(self) -> None:
        with self.ending:
            if self.process is not None:
                self.process.kill()
                self.process.join()
            if self.pipe is not None:
                self.pipe.close()
            self.process = self.pipe = None

    def warm(self) -> None:
        """Start the process now, that the first who asks need not wait for it."""
        self.thread.submit(self.done, ready, ())

    def stop(self) -> None:
        """At once: what waits is dropped, what runs is killed."""
        self.is_stopped = True
        with self.ending, suppress(AttributeError):
            self.process.kill()  # the thread hears of it
        self.thread.shutdown(wait=True, cancel_futures=True)
        self.kill()


def block_interrupts() -> None:
    """Ctrl-C reaches every process of a terminal; those begun in this thread leave it to the server."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def ready() -> None:
    pass


def work_for(pipe: Connection, code: tuple[Path, ...]) -> None:
    """The process: it does what comes, until the server closes its end or dies."""
    Thread(target=end_with_server, daemon=True).start()
    for file in code:
        load_code(file)
    import glassformer.lens.studio.worker  # noqa: F401 - what nearly all work needs

    pipe.send(None)
    with suppress(EOFError, OSError):
        while True:
            work, given = pipe.recv()
            pipe.send(outcome(work, given))


def end_with_server() -> None:
    server = multiprocessing.parent_process()
    assert server is not None
    server.join()
    os._exit(1)


def outcome(work: Callable[..., Any], given: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    try:
        return work(*given), None
    except HTTPError as error:
        return None, error
    except GlassformerError as error:
        return None, GlassformerError(str(error))  # a class of the user's own may not be known to the server
    except Exception as error:
        logging.getLogger(__name__).exception("the studio made a mistake")
        return None, RuntimeError(f"{type(error).__name__}: {error}")
