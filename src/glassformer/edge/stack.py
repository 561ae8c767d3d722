"""How much stack a function can take on a target, its callees included: a bound, found without running it.

The compiler says how large the frame of each of its functions is (-fcallgraph-info=su); the linked program says who
calls whom, and whether the caller's frame is still there (a call) or gone (a tail call). In functions that were
compiled elsewhere, such as memcpy or the float arithmetic of a processor without FPU, everything that lowers the stack
pointer is added up. Interrupts come on top.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from glassformer.edge.emulator import layout
from glassformer.edge.objects import FLAGS, compiled, compiler, said_by
from glassformer.edge.targets import Target
from glassformer.errors import EngineError

# The compiler's call graph.
NODE = re.compile(r'node: \{ title: "(?:[^"]*:)?([^":]+)" label: "[^"]*\\n(\d+) bytes \(([^)]*)\)')
INDIRECT_CALL = re.compile(r'edge: \{ sourcename: "(?:[^"]*:)?([^":]+)" targetname: "__indirect_call"')

# objdump's lines. Names that begin with a dot are places inside a function.
HEADING = re.compile(r"[0-9a-f]+ <([^.>][^>]*)>:")
INSTRUCTION = re.compile(r" *[0-9a-f]+:\t(.*)")
PLACE = re.compile(r"<([^>+]+)(\+0x[0-9a-f]+)?>")
CALL = re.compile(r"(bl|blx|jal|jalr) ")
BRANCH = re.compile(r"(?!(bl|blx|bf\S*) )(b\S*|cbn?z|j|jr) ")  # bfcsel: what objdump 2.40 takes MVE's vctp for
INDIRECT = re.compile(r"(blx|bx) (?!lr)|(mov|add|ldr)\S* pc\b(?!, \[sp\])|(jr|jalr) (?!ra$)")
PADDING = re.compile(r"nop|\.|movs\sr0, r0$")  # the last: zeros, as Thumb reads them
END = re.compile(r"(b|b\.n|b\.w|bx|j|jr|ret|udf)\b|(pop|ldm|ldr).*\bpc\b")  # nothing runs on from here

# What moves the stack pointer.
PUSH = re.compile(r"(?:v?push\S*|v?stmdb\S* sp!,) \{(.*)\}")
LOWER = re.compile(r"str\S* .*\[sp, #-(\d+)\]!|sub\S* sp, (?:sp, )?#(\d+)|addi? sp,sp,-(\d+)")
RAISE = re.compile(r"v?pop|v?ldm\S* sp!|ldr\S* .*\[sp\], #\d|add\S* sp, (sp, )?#|addi? sp,sp,\d")
MOVE = re.compile(r"(?!str|cmp|sw)\S+ sp\b|.*\[sp(, [^\]]*\]!|\], )")


class Bound(NamedTuple):
    """The deepest path from a function down, with the frame of each function on it."""

    path: tuple[tuple[str, int], ...]

    @property
    def bytes(self) -> int:
        return sum(frame for _, frame in self.path)

    def __str__(self) -> str:
        return " + ".join(f"{name} {frame}" for name, frame in self.path) + f" = {self.bytes} bytes"


class Frame(NamedTuple):
    """What the compiler says of a function of its own."""

    bytes: int
    kind: str  # "static", or "dynamic", which comes first
    indirect: bool  # whether it calls through a pointer


class Function(NamedTuple):
    frame: int
    calls: list[str]
    tail_calls: list[str]  # its own frame is gone by then
    unbounded: str = ""  # why nothing can be said


def bound(target: Target, sources: Iterable[Path], entry: str, flags: Sequence[str] = FLAGS) -> Bound:
    """Of the function `entry` of these sources, compiled with these flags."""
    return Linked.of(target, sources, (entry,), flags).bound(entry)


@dataclass(frozen=True)
class Linked:
    """Some functions, and all that they call, linked for a board, without a main."""

    path: Path
    functions: Mapping[str, Function]

    @classmethod
    def of(cls, target: Target, sources: Iterable[Path], entries: Sequence[str], flags: Sequence[str]) -> Self:
        if not target.qemu:
            raise EngineError(f"a bound of the stack is for boards, and {target.name} is none")
        objects = compiled(target, sources, (*flags, "-fcallgraph-info=su"))
        path = objects[0].with_name(f"{entries[0]}.elf")
        start = ",".join([f"-Wl,--entry={entries[0]}", *(f"--require-defined={entry}" for entry in entries)])
        compiler(target, *layout(target), start, *map(str, objects), "-o", str(path), "-lm")
        frames = frames_of("".join(item.with_suffix(".ci").read_text() for item in objects))
        text = said_by(target, "objdump", "-d", "--no-show-raw-insn", path)
        functions = {
            name: own(name, instructions, frames[name]) if name in frames else foreign(name, instructions)
            for name, instructions in disassembled(text).items()
        }
        return cls(path, functions)

    def bound(self, entry: str) -> Bound:
        return deepest(self.functions, entry, ())


def deepest(functions: Mapping[str, Function], name: str, above: tuple[str, ...]) -> Bound:
    if name in above:
        raise EngineError(f"the stack has no bound: {' calls '.join((*above, name))}")
    frame, calls, tail_calls, unbounded = functions[name]
    if unbounded:
        raise EngineError(f"the stack has no bound: {name} {unbounded}")
    above = (*above, name)
    below = [Bound(((name, frame), *deepest(functions, callee, above).path)) for callee in calls]
    instead = [deepest(functions, callee, above) for callee in tail_calls]
    return max([Bound(((name, frame),)), *below, *instead], key=lambda found: found.bytes)


def frames_of(graphs: str) -> dict[str, Frame]:
    """The compiler's call graphs. Of functions with one name, static in several sources, the worst of each counts."""
    indirect = {found[1] for found in INDIRECT_CALL.finditer(graphs)}
    frames: dict[str, Frame] = {}
    for name, size, kind in NODE.findall(graphs):
        before = frames.get(name, Frame(0, kind, False))
        frames[name] = Frame(max(before.bytes, int(size)), min(before.kind, kind), name in indirect)
    return frames


def disassembled(text: str) -> dict[str, list[str]]:
    """The instructions of each function, also those it has set apart as rarely run (name.cold).

    One that runs on into the next, as assembler may, ends with a branch to it.
    """
    functions: dict[str, list[str]] = {}
    current = ["ret"]
    for line in text.replace(".cold", "").splitlines():
        if heading := HEADING.match(line):
            if not END.match(current[-1]):
                current.append(f"b <{heading[1]}>")
            current = functions.setdefault(heading[1], ["nop"])
        elif (found := INSTRUCTION.match(line)) and not PADDING.match(found[1]):
            current.append(re.sub(r"\s+", " ", found[1]))
    return functions


def own(name: str, instructions: Iterable[str], frame: Frame) -> Function:
    """A function of the sources."""
    unbounded = f"has a {frame.kind} frame" if frame.kind != "static" else ""
    unbounded = "calls through a pointer" if frame.indirect else unbounded
    return Function(frame.bytes, places(CALL, name, instructions), places(BRANCH, name, instructions), unbounded)


def foreign(name: str, instructions: list[str]) -> Function:
    """A function of a library, often assembler: a branch elsewhere may leave its frame in place."""
    unclear = [text for text in instructions if INDIRECT.match(text) and not PLACE.search(text)]
    frame = 0
    for text in instructions:
        if pushed := PUSH.match(text):
            frame += registers(pushed[1])
        elif lowered := LOWER.match(text):
            frame += int(next(filter(None, lowered.groups())))
        elif MOVE.match(text) and not RAISE.match(text):
            unclear.append(text)
    calls = places(CALL, name, instructions) + places(BRANCH, name, instructions)
    return Function(frame, calls, [], f"of a library has {unclear[0]!r}" if unclear else "")


def places(kind: re.Pattern[str], name: str, instructions: Iterable[str]) -> list[str]:
    """Where calls or branches lead, but for those to a place inside the function."""
    found = (PLACE.search(text) for text in instructions if kind.match(text))
    return sorted({to[1] for to in found if to and (to[1] != name or (kind is CALL and not to[2]))})


def registers(pushed: str) -> int:
    """Bytes of a list of registers: "r4, r5, lr" or "d8-d15"."""
    total = 0
    for item in pushed.split(", "):
        first, _, last = item.partition("-")
        total += (int(last[1:]) - int(first[1:]) + 1 if last else 1) * (8 if item[0] == "d" else 4)
    return total
