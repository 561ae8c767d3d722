"""C sources as objects of a target: compiled once in a process, and what the compiler's tools say of them."""

import atexit
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from glassformer.edge.targets import Target, available
from glassformer.errors import EngineError
from glassformer.native.build import run_compiler

# Without contraction float results are the same on every target; without errno a square root is one instruction.
FLAGS = ("-O2", "-ffp-contract=off", "-fno-math-errno")
ALWAYS = ("-std=c99", "-ffunction-sections", "-fdata-sections")
LIBRARY = ("memcpy", "memset", "sqrtf")  # all that a model may call
HELPER = re.compile(r"__aeabi_\w+|__\w+[sd][if]\d?")  # arithmetic that the processor lacks
DOUBLE = re.compile(r"df|_aeabi_c?d|2d")


class Sizes(NamedTuple):
    """Bytes by kind of section."""

    text: int
    rodata: int
    data: int
    bss: int

    @property
    def flash(self) -> int:
        return self.text + self.rodata + self.data

    @property
    def ram(self) -> int:
        return self.data + self.bss


class Symbol(NamedTuple):
    name: str
    kind: str  # nm's letter; U: undefined
    size: int


def compiled(target: Target, sources: Iterable[Path], flags: Sequence[str] = FLAGS) -> tuple[Path, ...]:
    """An object for each source. Headers are looked for in the folders of all of them."""
    available(target, to_run=False)
    sources = tuple(sources)
    folders = dict.fromkeys(source.parent for source in sources)
    headers = [header for folder in folders for header in sorted(folder.glob("*.h"))]
    return tuple(
        translated(
            target, source, (*ALWAYS, *flags, *(f"-I{folder}" for folder in folders)), digest([source, *headers])
        )
        for source in sources
    )


@cache
def translated(target: Target, source: Path, flags: tuple[str, ...], content: str) -> Path:
    """The object of one source, in a folder of its own, beside whatever else the compiler writes."""
    del content  # names what is in the source and its headers
    path = Path(tempfile.mkdtemp(dir=scratch())) / f"{source.stem}.o"
    compiler(target, *flags, "-c", str(source), "-o", str(path))
    return path


def compiler(target: Target, *arguments: str) -> None:
    status, said = run_compiler([target.compiler, *target.flags, *arguments])
    if status:
        lines = [line for line in said.splitlines() if re.search(r"error:|undefined reference|not defined", line)] or [
            said
        ]
        raise EngineError(f"{target.compiler} for {target.name} failed: {lines[0]}")


def digest(paths: Iterable[Path]) -> str:
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()


@cache
def scratch() -> Path:
    """A folder for the life of this process."""
    folder = Path(tempfile.mkdtemp(prefix="glassformer-edge-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def sizes(target: Target, files: Iterable[Path]) -> Sizes:
    """Of objects, or of a linked program: what goes to flash (text, rodata, data) and to RAM (data, bss)."""
    total = dict.fromkeys(Sizes._fields, 0)
    for line in said_by(target, "size", "-A", *files).splitlines():
        match line.split():
            case [section, size, _] if section.startswith("."):
                kind = section.split(".")[1]
                kind = kind[1:] if kind in ("srodata", "sdata", "sbss") else kind  # RISC-V's small ones
                if kind in total:
                    total[kind] += int(size)
    return Sizes(**total)


def symbols(target: Target, files: Iterable[Path]) -> list[Symbol]:
    """Every symbol of the files with its size; the undefined ones are those that none of them defines."""
    found = []
    for line in said_by(target, "nm", "-S", *files).splitlines():
        match line.split():
            case [_, size, kind, name]:
                found.append(Symbol(name, kind, int(size, 16)))
            case [_, kind, name] | [kind, name]:
                found.append(Symbol(name, kind, 0))
    defined = {symbol.name for symbol in found if symbol.kind != "U"}
    return [symbol for symbol in dict.fromkeys(found) if symbol.kind != "U" or symbol.name not in defined]


def forbidden(target: Target, files: Iterable[Path]) -> list[str]:
    """What the files call and a model may not: anything but three functions, and arithmetic other than double's."""
    undefined = [symbol.name for symbol in symbols(target, files) if symbol.kind == "U"]
    return [n for n in undefined if n not in LIBRARY and (DOUBLE.search(n) or not HELPER.fullmatch(n))]


def said_by(target: Target, tool: str, *arguments: str | Path) -> str:
    return subprocess.run([target.tool(tool), *arguments], capture_output=True, text=True, check=True).stdout
