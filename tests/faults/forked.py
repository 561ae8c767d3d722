"""Commands of glassformer as forked processes: everything is imported once, and a command costs only its own time.

JAX may be forked as long as it has not been asked for its devices; numpy, as long as its BLAS has no threads.
"""

import contextlib
import fcntl
import importlib
import os
import re
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

USED = (
    *("cli", "cli.training_progress", "cli.study_progress", "train.fit", "train.curves", "native.engine"),
    *("hub.run", "hub.folder", "hub.parity", "lab.run", "lab.folder", "lab.report", "lab.report.as_json"),
)
MOST_SAID = 1 << 20  # bytes on stderr
PATIENCE = 180.0  # seconds until a command is said to hang
NOT_OURS = re.compile(r"Traceback|\w(Error|Exception|Warning)\b|^[EWF]\d{4} |[Ss]egmentation|core dumped", re.MULTILINE)

Fault = Callable[[], None]  # done in the new process, before its command


def import_once(work: Path) -> None:
    """Before the first command, in the process that starts them. What they compile is kept in `work`."""
    os.environ["GLASSFORMER_CACHE"] = str(work / "cache")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # many at once: a GPU is not for sharing
    from glassformer.user_cache import keep_programs

    keep_programs()
    for name in USED:
        importlib.import_module(f"glassformer.{name}")


class Ended(NamedTuple):
    """A command that is over."""

    status: int  # negative: the signal that killed it
    said: str  # on stderr
    seconds: float

    @property
    def was_killed(self) -> bool:
        return self.status == -signal.SIGKILL

    @property
    def problem(self) -> str:
        """What a user should never see."""
        if found := NOT_OURS.search(self.said):
            return f"not our message: {found.group()}\n{self.said[-2000:]}"
        if self.was_killed or self.status == 0:
            return ""
        last = (self.said.strip().splitlines() or [""])[-1]
        ours = self.status == 1 and "glassformer: " in self.said
        return "" if ours else f"exit status {self.status}: {last}"


class Command:
    """A command under way, in a folder of its own."""

    def __init__(self, arguments: list[str], folder: Path, fault: Fault | None = None) -> None:
        self.begun = time.monotonic()
        self.err, err = os.pipe()  # and no file, which a full disk would cut short
        fcntl.fcntl(err, fcntl.F_SETPIPE_SZ, MOST_SAID)
        self.pid = os.fork()
        if self.pid == 0:
            become(arguments, folder, err, fault)
        os.close(err)
        self.handle = os.pidfd_open(self.pid)

    def wait(self, seconds: float = PATIENCE) -> Ended | None:
        """None: it is still under way."""
        if not select.select([self.handle], [], [], seconds)[0]:
            return None
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        took = time.monotonic() - self.begun
        os.close(self.handle)
        os.set_blocking(self.err, False)  # its children may still have it open
        with open(self.err, "rb") as said:  # noqa: PTH123
            return Ended(status, (said.read() or b"").decode(errors="replace"), took)

    def kill(self) -> Ended:
        os.kill(self.pid, signal.SIGKILL)
        ended = self.wait()
        assert ended is not None
        return ended

    def end(self) -> Ended:
        """To its end; one that hangs is killed."""
        ended = self.wait()
        if ended is None:
            killed = self.kill()
            return Ended(124, f"{killed.said}\nhangs", killed.seconds)
        return ended


def become(arguments: list[str], folder: Path, err: int, fault: Fault | None) -> None:
    """The command, in the new process."""
    status = 70
    try:
        os.setsid()
        os.chdir(folder)
        nothing = os.open(os.devnull, os.O_RDWR)
        for handle, number in ((nothing, 0), (nothing, 1), (err, 2)):
            os.dup2(handle, number)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - those of the parent may hold text
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        sys.argv = ["glassformer", *arguments]
        if fault is not None:
            fault()
        cli = importlib.import_module("glassformer.cli")
        cli.main()
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(bool(error.code))
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(status)
