"""Serving the studio: a socket, its address with the token, and an end without noise."""

import asyncio
import contextlib
import errno
import ipaddress
import logging
import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import uvicorn

from glassformer.errors import FileError, SettingError
from glassformer.lens.studio import token_file
from glassformer.lens.studio.app import Studio
from glassformer.lens.studio.connections import IDLE_SECONDS, Connection
from glassformer.lens.studio.guard import ANY, Guard
from glassformer.lens.studio.work_queue import WorkQueue

USUAL_PORT = 8765
TRIED = 20  # ports from the usual one on, before any that is free is taken
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
STREAM_SECONDS = 1  # that open connections get to end
END_SECONDS = 2.5  # after which it ends whatever still runs
READ_SECONDS = 10.0  # that reading what a run is may take
MOST_READS = 2000  # that wait: each run that is watched, and the list
FILES = 4096  # that may be open
TAKEN = (errno.EADDRINUSE, errno.EACCES)  # Windows says the second


class Address(NamedTuple):
    listener: socket.socket
    host: str
    port: int
    token: str

    @property
    def url(self) -> str:
        return f"http://{self.shown_host}:{self.port}/?token={self.token}"

    @property
    def shown_host(self) -> str:
        return bracketed(socket.gethostname() if self.host in ANY else self.host)

    def hosts(self) -> set[str]:
        """Under which names it may be asked."""
        names = {*LOOPBACK, self.shown_host.lower(), bracketed(self.host).lower()}
        ports = {f"{name}:{self.port}" for name in names}
        return ports | names if self.port == 80 else ports


def open_address(host: str, port: int = 0, runs: Path | None = None) -> Address:
    """A socket that listens. Port 0: that of the last time for these runs, the usual one or one of the next, or any.

    On the port of the last time, the token is the same too; not where other machines can listen in.
    """
    file = kept_file(runs) if runs is not None and is_loopback(host) else None
    kept = token_file.read(file) if file else None
    tried = (*([kept.port] if kept else []), *range(USUAL_PORT, USUAL_PORT + TRIED)) if port == 0 else ()
    for number in (*tried, port):
        with contextlib.suppress(PortTakenError):
            listener = listen(host, number)
            port = listener.getsockname()[1]
            token = kept.token if kept and kept.port == port else secrets.token_urlsafe(24)
            if file:
                token_file.write(file, token_file.Kept(token, port))
            return Address(listener, host, port, token)
    raise SettingError(f"studio: port {port} is taken; choose another with --port, or none for a free one")


def kept_file(runs: Path) -> Path | None:
    with contextlib.suppress(OSError, FileError):  # a user without a home
        return token_file.file_of(runs)
    return None


class PortTakenError(Exception):
    pass


def listen(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise SettingError(f"studio: host {host!r} leads nowhere ({error}); the usual one is 127.0.0.1") from None
    family, _, _, _, address = found[0]
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, so that asyncio sends at once
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
        return listener
    except OSError as error:
        listener.close()
        if error.errno in TAKEN:
            raise PortTakenError from None
        raise SettingError(f"studio: cannot listen on {host}, port {port}: {error.strerror or error}") from None


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def serve(folder: Path, address: Address, ready: Callable[[], None]) -> None:
    """Until Ctrl-C, or until the process is asked to end. From `ready` on, both end it without noise."""
    asyncio.run(serving(folder, address, ready))


async def serving(folder: Path, address: Address, ready: Callable[[], None]) -> None:
    reads, looks = WorkQueue(MOST_READS, READ_SECONDS), WorkQueue()
    studio = Studio(folder, reads, looks)
    guard = Guard(studio.app(), address.token, address.hosts(), anywhere=address.host in ANY)
    config = uvicorn.Config(
        guard,
        http=Connection,
        ws="none",
        loop="asyncio",
        lifespan="on",
        access_log=False,  # it would hold the token
        log_config=None,
        server_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=STREAM_SECONDS,
    )
    raise_file_limit()
    for queue in (looks, reads):
        queue.warm()
    try:
        await Server(config, studio, ready).serve(sockets=[address.listener])
    finally:
        looks.stop()
        reads.stop()


def raise_file_limit() -> None:
    """Each connection is an open file; many systems allow 256 or 1,024 unless asked."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Server(uvicorn.Server):
    """Asked to end, it ends the open streams first; and it does not pass the signal on, as an end is no failure."""

    def __init__(self, config: uvicorn.Config, studio: Studio, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.studio, self.ready = studio, ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop, before = asyncio.get_running_loop(), {}

        def stop(number: int, frame: object) -> None:
            self.force_exit = self.should_exit and number == signal.SIGINT  # asked twice: at once
            if not self.should_exit:
                last = threading.Timer(END_SECONDS, os._exit, (0,))
                last.daemon = True
                last.start()
            self.should_exit = True
            loop.call_soon_threadsafe(self.studio.stop)
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what is cut off now is no error

        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, stop)
        self.ready()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
