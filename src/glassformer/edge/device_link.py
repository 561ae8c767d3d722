"""The line to a device: stdin and stdout of a command, or a serial port. Silence has an end."""

import contextlib
import os
import re
import select
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from glassformer.errors import DeviceError, SettingError

SERIAL = re.compile(r"(/dev/[^\s:]+)(?::(\d+))?")
BAUD = 115200
LONGEST = 1 << 26  # bytes in a line
AGAIN = 1.0  # seconds after which a serial port is asked once more: many boards start anew when it is opened
LEAVE = 1.0  # seconds that a command has to end by itself


@dataclass
class Link:
    """Lines out and in."""

    who: str
    reads: int  # file descriptors that do not block
    writes: int
    timeout: float  # seconds of silence
    ending: Callable[[], str] = lambda: ""  # why it ended, if it did
    loses: bool = False  # what was sent before the device listened
    waiting: bytearray = field(default_factory=bytearray)

    def send(self, line: str) -> None:
        left = f"{line}\n".encode()
        while left:
            if not select.select([], [self.writes], [], self.timeout)[1]:
                raise DeviceError(f"{self.who}: it took nothing in for {self.timeout:g} s{self.ending()}")
            try:
                left = left[os.write(self.writes, left) :]
            except OSError:
                return  # it has ended; what it said before is read first

    def line(self, deadline: float | None = None) -> str | None:
        """The next one; None if the deadline came first."""
        while (end := self.waiting.find(b"\n")) < 0:
            if len(self.waiting) > LONGEST:
                raise DeviceError(f"{self.who}: a line of more than {LONGEST:,} bytes came")
            wait = self.timeout if deadline is None else max(deadline - time.monotonic(), 0.0)
            if not select.select([self.reads], [], [], wait)[0]:
                if deadline is not None:
                    return None
                raise DeviceError(
                    f"{self.who}: silent for {self.timeout:g} s; a slow device may take a longer --device-timeout"
                )
            try:
                came = os.read(self.reads, 1 << 16)
            except OSError:
                came = b""
            if not came:
                raise self.ended()
            self.waiting += came
        found = self.waiting[:end].decode("ascii", "replace").rstrip("\r")
        del self.waiting[: end + 1]
        return found

    def ended(self) -> DeviceError:
        return DeviceError(f"{self.who}: it ended before it had answered{self.ending()}")


@contextmanager
def connected(device: str, timeout: float) -> Iterator[Link]:
    """`device`: a command, or a serial port such as /dev/ttyACM0, or /dev/ttyACM0:9600."""
    if not timeout > 0:
        raise SettingError(f"--device-timeout: {timeout:g} came, expected seconds above 0")
    if os.name != "posix":
        raise SettingError("--device: it works on Linux and macOS only")
    port = SERIAL.fullmatch(device.strip())
    with serial_port(port[1], int(port[2] or BAUD), timeout) if port else command(device, timeout) as link:
        yield link


@contextmanager
def serial_port(path: str, baud: int, timeout: float) -> Iterator[Link]:
    import termios
    import tty

    speed = getattr(termios, f"B{baud}", None)
    if speed is None:
        raise SettingError(f"--device: {baud} came as the speed of {path}, expected one of its own, such as {BAUD}")
    try:
        port = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError as error:
        raise DeviceError(f"{path}: the serial port cannot be opened: {error.strerror}") from None
    try:
        try:
            tty.setraw(port)
            settings = termios.tcgetattr(port)
        except termios.error:
            raise DeviceError(f"{path}: this is no serial port") from None
        settings[2] |= termios.CLOCAL | termios.CREAD
        settings[4] = settings[5] = speed
        termios.tcsetattr(port, termios.TCSANOW, settings)
        termios.tcflush(port, termios.TCIOFLUSH)
        yield Link(path, port, port, timeout, loses=True)
    finally:
        os.close(port)


@contextmanager
def command(text: str, timeout: float) -> Iterator[Link]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise SettingError(f"--device: {text!r} is no command: {error}") from None
    if not words:
        raise SettingError("--device: expected a command, or a serial port such as /dev/ttyACM0")
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, bufsize=0, start_new_session=True
            )
        except OSError as error:
            raise DeviceError(f"{words[0]}: the command cannot be run: {error.strerror}") from None

        def ending() -> str:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LEAVE)
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()[-1:]
            status = "" if process.returncode is None else f" (status {process.returncode})"
            return status + "".join(f": {line}" for line in lines)

        out, into = process.stdout, process.stdin
        assert out is not None
        assert into is not None
        os.set_blocking(into.fileno(), False)
        try:
            yield Link(words[0], out.fileno(), into.fileno(), timeout, ending)
        finally:
            into.close()
            out.close()
            stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """A command that reads ends when its input does; what still runs then is ended, with all that it started."""
    for way in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LEAVE)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, way)
    process.wait()
