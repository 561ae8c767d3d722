"""One host of several, under watch: XLA aborts its process as soon as a peer is lost, with a dump of its stack.

So a command with --hosts runs itself once more in a child, and only waits: what XLA writes goes to a log of the child,
and however the child ends, one sentence says why.
"""

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from typing import IO, Any, NamedTuple, NoReturn

import typer

from glassformer.errors import GlassformerError, SettingError, TrainingError

WATCHED = "GLASSFORMER_WATCHED"  # set for a child: its log, and a pipe that closes when its parent ends
NOTE = "glassformer-note "  # begins a line of the log that the child has written for its parent
LOST = 75  # how a child ends that saw an operation fail because of its peers
OF_PEERS = ("Gloo", "NCCL", "heartbeat", "oordination", "onnection", "UNAVAILABLE", "barrier")
SHOWN = 30  # lines of the log, of an end that nothing explains
HEARTBEAT = "GLASSFORMER_HEARTBEAT_SECONDS"  # without a sign of life, after which a host is lost
JOIN = "GLASSFORMER_JOIN_SECONDS"  # within which all hosts have to come
DEFAULTS = {HEARTBEAT: 10, JOIN: 300}  # the latter as JAX has it
EXPECTED = (
    "expected auto (SLURM, Open MPI, Kubernetes, TPU pods), or ADDRESS:PORT,COUNT,INDEX: where host 0 can be reached, "
    "how many hosts there are, and which this one is, such as 10.0.0.1:1234,2,0"
)
log_of_child: list[int] = []  # its file descriptor, where this process is one


class Hosts(NamedTuple):
    """Where the first host is reached, how many there are and which this one is; None: JAX finds out."""

    coordinator: str | None = None
    processes: int | None = None
    process: int | None = None


def parse_hosts(text: str) -> Hosts:
    if text == "auto":
        return Hosts()
    try:
        address, count, index = text.split(",")
        found = Hosts(address, int(count), int(index))
        name, _, port = address.rpartition(":")
        fits = bool(name) and 0 < int(port) < 1 << 16
    except ValueError:
        raise SettingError(f"--hosts: {text!r} came, {EXPECTED}") from None
    if not fits:
        raise SettingError(f"--hosts: {address!r} is no ADDRESS:PORT; {EXPECTED}")
    if not 0 <= int(index) < int(count):
        raise SettingError(f"--hosts: host {index} of {count} came; hosts are counted from 0, so {EXPECTED}")
    return found


def watched() -> bool:
    """Whether this process is the child that trains."""
    return WATCHED in os.environ


@contextlib.contextmanager
def one_of(hosts: str) -> Iterator[bool]:
    """In a child, one of the hosts that the text names; whether it is the first. Without a text it is alone."""
    if not hosts:
        yield True
        return
    apart_from_xla()
    try:
        index, count = join(parse_hosts(hosts))
        note(joined=[index, count])
        yield index == 0
        shut_down()
    except BaseException as error:
        end(error)  # at once: to leave in an orderly way, JAX would wait for peers


def join(hosts: Hosts) -> tuple[int, int]:
    """Become one of the hosts, before anything else is done with JAX: which, and of how many."""
    import jax

    try:
        jax.distributed.initialize(
            *hosts, initialization_timeout=seconds(JOIN), heartbeat_timeout_seconds=seconds(HEARTBEAT)
        )
    except jax.errors.JaxRuntimeError as error:
        raise TrainingError(cannot_listen(hosts, str(error))) from None
    except (ValueError, TypeError):
        raise SettingError(f"--hosts: auto came, and no cluster was found in the environment; {EXPECTED}") from None
    return jax.process_index(), jax.process_count()


def cannot_listen(hosts: Hosts, why: str) -> str:
    where = hosts.coordinator or "the address that JAX has found"
    return f"--hosts: host 0 cannot listen on {where} ({why}); another process may have the port: choose another"


def seconds(variable: str) -> int:
    """As the environment has it."""
    text = os.environ.get(variable, str(DEFAULTS[variable]))
    if not text.isdecimal() or not int(text):
        raise SettingError(f"{variable}: {text!r} came, expected a number of seconds from 1")
    return int(text)


def shut_down() -> None:
    """All hosts together; before this, none is missing."""
    import jax

    jax.distributed.shutdown()


def apart_from_xla() -> None:
    """What C++ code writes goes to the log, what Python writes to where it always did. Ends with its parent."""
    log, alive = map(int, os.environ.pop(WATCHED).split(","))
    streams = [(sys.stdout, 1), (sys.stderr, 2)]
    for stream, _ in streams:
        stream.flush()
    sys.stdout, sys.stderr = (open(os.dup(number), "w", errors="replace", buffering=1) for _, number in streams)  # noqa: PTH123, SIM115
    for _, number in streams:
        os.dup2(log, number)
    log_of_child.append(log)
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))  # a lost peer is no reason to write down all memory

    def to_log(failed: threading.ExceptHookArgs) -> None:
        """Of a thread that fails, whoever waits for it hears."""
        os.write(log, f"{failed.exc_value}\n".encode())

    def until_alone() -> None:
        os.read(alive, 1)
        os._exit(1)

    threading.excepthook = to_log
    threading.Thread(target=until_alone, daemon=True).start()


def note(**facts: Any) -> None:
    """For the parent, where there is one."""
    for log in log_of_child:
        os.write(log, f"{NOTE}{json.dumps(facts)}\n".encode())


def end(error: BaseException) -> NoReturn:
    from glassformer.train.listener import InterruptedRunError

    code = 1
    if isinstance(error, GlassformerError):
        if isinstance(error, InterruptedRunError):  # it is for all
            shut_down()
        print(f"glassformer: {error}", file=sys.stderr)
    elif isinstance(error, typer.BadParameter):
        print(f"glassformer: {error.format_message()}", file=sys.stderr)
        code = error.exit_code
    elif isinstance(error, KeyboardInterrupt):
        code = 130
    elif any(word in str(error) for word in OF_PEERS):
        code = LOST
        os.write(2, f"{error}\n".encode())
    else:
        traceback.print_exception(error)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def watch(hosts: str) -> int:
    """Run this command in a child; the status to end with, everything said."""
    parse_hosts(hosts)  # it may be refused
    for variable in DEFAULTS:
        seconds(variable)  # refused before anything is started
    reading, writing = os.pipe()  # it closes when this process ends, however it ends
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        child = subprocess.Popen(
            [sys.executable, *sys.orig_argv[1:]],
            env={**os.environ, WATCHED: f"{log.fileno()},{reading}"},
            pass_fds=(log.fileno(), reading),
            process_group=0,  # the terminal's Ctrl-C comes here alone, and is passed on once
        )
        os.close(reading)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: child.send_signal(number))
        code = child.wait()
        os.close(writing)
        message = why(code, said(log), hosts)
    if message:
        print(f"glassformer: {message}", file=sys.stderr)
    return code if 0 <= code != LOST else 1


def said(log: IO[str]) -> str:
    log.seek(0)
    return log.read()


def why(code: int, log: str, hosts: str) -> str:
    """In words, how a child came to its end; nothing where it has said so itself."""
    facts: dict[str, Any] = {}
    for line in log.splitlines():
        if line.startswith(NOTE):
            facts |= json.loads(line.removeprefix(NOTE))
    lines = [line for line in log.splitlines() if not line.startswith((NOTE, "[Gloo]"))]
    fatal = code == -signal.SIGABRT and "JAX distributed service detected fatal errors" in log
    if not fatal and code != LOST:
        if code >= 0:
            return ""
        if "Failed to add port to server" in log:  # of which XLA sometimes crashes before it can say so
            return cannot_listen(parse_hosts(hosts), signal.Signals(-code).name)
        last = "\n".join(["; the last that it wrote:", *lines[-SHOWN:]]) if lines else ""
        return f"the process that trains was ended by {signal.Signals(-code).name}{last}"
    if "joined" not in facts:
        return (
            f"--hosts {hosts}: host 0 could not be reached, or not all hosts came, within {seconds(JOIN)} s "
            f"({JOIN}); start the same command on every host within that time, and see that the address is right and "
            "no firewall closes the port"
        )
    index, count = facts["joined"]
    go_on = f"with --resume {facts['run']}" if "run" in facts else "with --resume and its run folder"
    return (
        f"host {index} of {count}: {lost_host(log, index, count)} was lost: it ended, or gave no sign of life for "
        f"{seconds(HEARTBEAT)} s; what it said itself stands in its own output. Training has stopped here, too. Go on "
        f"from the last checkpoint {go_on}, on these hosts or on another number of them"
    )


def lost_host(log: str, index: int, count: int) -> str:
    found = re.search(r"stopped sending heartbeats\):\s+(\d+)|[Tt]ask[: ](\d+) heartbeat timeout", log)
    lost = int(found[1] or found[2]) if found else 1 - index if count == 2 else None
    return f"host {lost}" if lost not in (None, index) else "another host"
