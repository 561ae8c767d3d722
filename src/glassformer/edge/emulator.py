"""Programs on emulated boards: C sources and a main() are compiled, linked with start/ and run by QEMU.

outcome = run(find("m4"), [folder / "model.c"], MAIN)
logits = outcome.values("logits", np.float32)        # emulator_report("logits", …) in MAIN
outcome.measured("predict").instructions             # emulator_begin(); …; emulator_end("predict");
"""

import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np

from glassformer.edge.objects import FLAGS, compiled, compiler, scratch
from glassformer.edge.targets import Target, available
from glassformer.errors import EngineError, UnknownNameError

ENDINGS = {  # exit statuses of start/
    255: "faulted: a wrong address, or more than 64 KB of stack",
    254: "took more instructions between emulator_begin and emulator_end than can be counted; measure a part",
}
QUIET = ("-display", "none", "-monitor", "none", "-serial", "none")
OUTPUT = ("-semihosting-config", "enable=on,target=native")  # a chardev would not wait where the pipe is full


class Measured(NamedTuple):
    """Between emulator_begin and emulator_end. On the host both are 0."""

    instructions: int
    stack: int  # bytes


@dataclass(frozen=True)
class Outcome:
    """What a program reported, and its exit status."""

    status: int
    reports: dict[str, bytes]  # all of one name, in order

    def values(self, name: str, dtype: type[np.generic]) -> np.ndarray:
        if name not in self.reports:
            raise UnknownNameError(f"the program reported no {name!r}, only {', '.join(self.reports) or 'nothing'}")
        return np.frombuffer(self.reports[name], np.dtype(dtype).newbyteorder("<"))

    def measured(self, name: str) -> Measured:
        """The largest of what was measured under this name."""
        return Measured(*self.values(name, np.uint32).reshape(-1, 2).max(axis=0).tolist())


def run(
    target: Target,
    sources: Iterable[Path],
    main: str,
    flags: Sequence[str] = FLAGS,
    *,
    timeout: float = 30.0,
) -> Outcome:
    """Compile the sources and main, C text that may include emulator.h and the sources' headers; run them."""
    available(target)
    path = program(target, sources, main, flags)
    command = [str(path)]
    if target.qemu:
        emulated = (*target.machine, "-icount", f"shift={target.shift}", *QUIET, *OUTPUT)
        command = [target.qemu, *emulated, "-kernel", *command]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise EngineError(f"the program on {target.name} did not end within {timeout:g} s; it hangs") from None
    if target.qemu and done.returncode in ENDINGS:
        raise EngineError(f"the program on {target.name} {ENDINGS[done.returncode]}")
    if done.returncode and done.stderr:
        raise EngineError(f"the program on {target.name} failed: {done.stderr.decode(errors='replace').strip()}")
    reports: dict[str, bytes] = {}
    for line in done.stdout.decode().splitlines():
        name, _, value = line.partition(" ")
        reports[name] = reports.get(name, b"") + bytes.fromhex(value)
    return Outcome(done.returncode, reports)


def program(target: Target, sources: Iterable[Path], main: str, flags: Sequence[str] = FLAGS) -> Path:
    """The linked program."""
    return linked(target, compiled(target, [*sources, text_file(main)], (*flags, f"-I{start()}")))


@cache
def linked(target: Target, objects: tuple[Path, ...]) -> Path:
    path = objects[-1].with_suffix(".elf")
    own = ("emulator.c", "emulator.S") if target.qemu else ("emulator.c",)
    started = compiled(target, [start() / name for name in own], ("-O2", f"-DCOUNTER_{target.counter}=1"))
    compiler(target, *(layout(target) if target.qemu else ()), *map(str, (*objects, *started)), "-o", str(path), "-lm")
    return path


def layout(target: Target) -> tuple[str, ...]:
    """How the linker lays out an emulated program: only what is called, in the board's memory."""
    code, data = target.memory
    places = f"-Wl,--gc-sections,--defsym=CODE={code},--defsym=DATA={data}"
    return ("-nostartfiles", f"-T{start() / 'emulator.ld'}", places)


@cache
def text_file(text: str) -> Path:
    path = Path(tempfile.mkdtemp(dir=scratch())) / "main.c"
    path.write_text(text)
    return path


@cache
def start() -> Path:
    """The folder of start files."""
    return Path(str(resources.files("glassformer.edge") / "start"))
