"""A plan: every call a model makes, forward and backward, and every buffer, with the time it is alive.

The layers write it down (`layers.py`, in the order of `lower.py`), `write.py` turns it into C. Buffers that are never
alive together share bytes, so a sample stays in the fastest cache, and a forward-only plan needs little memory.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any, ClassVar, overload

import numpy as np

from glassformer.errors import EngineError
from glassformer.structure import Value

ALIGNED = 16  # floats: buffers begin on a cache line
LARGE = 1 << 16  # floats: a weight whose gradient is not copied for every shard of samples (c/host.h)
LARGE_TABLE = 1 << 20  # floats: the same of a table of symbols; its logits are never all there (c/head_loss.h)
TABLE_PIECE, HEAD_TOKENS = 64, 128  # rows of it that are taken at a time, and tokens: c/table_part.h, c/head_loss.h
BY_ROWS = {"embedding_backward": "embedding_rows", "head_loss_backward": "head_loss_rows"}  # gradients of tables

Size = int | float | str  # a str is C: `PADDED(49)`


@dataclass(eq=False)
class Buffer:
    """Activations or gradients of one group of samples."""

    name: str
    shape: tuple[Size, ...]
    base: "Buffer | None" = None  # whose numbers it has in another shape, or whose place it has taken
    over: "Buffer | None" = None  # whose place it may take, if nobody reads that one later
    of: "Buffer | None" = None  # whose gradient it is
    born: int = -1  # the calls between which it is alive
    dies: int = -1
    offset: int = -1

    def floats(self, lanes: int) -> int:
        """With rows padded where the shape says so."""
        return prod(padded(size, lanes) for size in self.shape)

    @property
    def rows(self) -> int:
        return prod(int(size) for size in self.shape[:-1])

    @property
    def width(self) -> int:
        return int(self.shape[-1])

    @property
    def root(self) -> "Buffer":
        """Where its numbers lie."""
        return self if self.base is None else self.base.root


@dataclass(frozen=True)
class Param:
    """A weight, its gradient, or its transpose."""

    name: str
    role: str = ""  # "", "d" or "transposed"


@dataclass(frozen=True)
class Constant:
    """Numbers that are known beforehand."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class Input:
    """What the samples are, one of them: a call that reads it is made for each sample of the group."""

    shape: tuple[int, ...]
    is_bytes: bool  # else floats, or
    is_words: bool = False  # 32-bit integers: token ids, and what comes with them (tokens.py)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def c_type(self) -> str:
        return "int32_t" if self.is_words else "uint8_t" if self.is_bytes else "float"


Operand = Buffer | Param | Constant | Input


@dataclass(frozen=True)
class Call:
    """One kernel: what it writes, what it reads (None: NULL), and its sizes, which the compiler sees as constants."""

    kernel: str
    header: str
    writes: tuple[Buffer | Param | None, ...]
    reads: tuple[Operand | None, ...]
    sizes: tuple[Size, ...]

    @property
    def operands(self) -> tuple[Operand | None, ...]:
        return (*self.writes, *self.reads)

    @property
    def buffers(self) -> list[Buffer]:
        return [used for used in self.operands if isinstance(used, Buffer)]


@dataclass(frozen=True)
class Keys:
    """Where the keys of dropout lie: of each sample its place in the batch, then two words for each layer."""

    buffer: Buffer
    layers: tuple[str, ...]


@dataclass(frozen=True)
class Adapter:
    """Thin matrices that are trained beside some weights (layers/lora.py). The model's own are then called base.…"""

    names: frozenset[str]  # of these weights
    rank: int
    scale: float


# (dy, into) -> dx, writing its calls down. `into` has a part of x's gradient already, or is None; it may be dy itself.
# Who can add to it returns it; dx is added to it otherwise.
Backward = Callable[[Buffer, Any], Any]


@dataclass
class Plan:
    samples: int  # B: of one group, which go through together
    params: dict[str, tuple[int, ...]]  # shapes by name, in the order in which they lie
    input: Input = Input((), is_bytes=True)
    title: str = ""
    frozen: frozenset[str] = frozenset()  # weights that stay as they are
    adapter: Adapter | None = None
    forward: list[Call] = field(default_factory=list)
    backward: list[Call] = field(default_factory=list)
    columns: list[Call] = field(default_factory=list)  # gradients of large weights, after all samples are through
    rows: list[Call] = field(default_factory=list)  # and of large tables
    loss: Call | None = None  # where the last layer's logits are never all there: it and the loss
    output: Value | None = None  # what the model gives, where it is trained
    buffers: list[Buffer] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)  # of headers that are not glassformer's own
    values: dict[Value, Any] = field(default_factory=dict)  # the buffers in which values of the structure lie
    words: Any = None  # of a row, where samples are texts (tokens.py)
    keys: "Keys | None" = None  # of layers that drop out
    logits: Buffer | None = None
    dlogits: Buffer | None = None
    backwards: bool = False  # calls are now those of the backward pass
    entries: ClassVar[dict[type, Any]] = {}  # layers that are computed otherwise than on this machine

    def buffer(self, name: str, *shape: Size, over: Buffer | None = None) -> Buffer:
        """`over`: of the same size, and the kernel may write here while it reads there: number by number, in place."""
        return self._made(Buffer(name, shape, over=over))

    def view(self, x: Buffer, *shape: Size) -> Buffer:
        """The same numbers in another shape."""
        return self._made(Buffer(x.name, shape, base=x))

    def _made(self, buffer: Buffer) -> Buffer:
        self.buffers.append(buffer)
        return buffer

    def param(self, value: Value | None) -> Any:
        """A weight, as the node has it (`node.params.w`); None where the layer has none: a bias, say."""
        if value is None:
            return None
        if not value.param:
            raise EngineError(f"the native engine reads weights as they are, and {value} is computed from them")
        return Param(self.named(value.param))

    def named(self, weight: str) -> str:
        """What the model calls so."""
        return weight if self.adapter is None else f"base.{weight}"

    def beside(self, weight: Value) -> tuple[Param, Param] | None:
        """The thin matrices beside a weight."""
        if self.adapter is None or weight.param not in self.adapter.names:
            return None
        return Param(f"a.{weight.param}"), Param(f"b.{weight.param}")

    def operand(self, value: Value) -> Any:
        """What an entry is given for a value that no call has made: a weight, or integers written in the model."""
        return value if not value.param and np.issubdtype(value.dtype, np.integer) else self.param(value)

    @overload
    def gradient(self, x: Buffer, over: Buffer | None = None) -> Buffer: ...
    @overload
    def gradient(self, x: Param, over: None = None) -> Param: ...
    @overload
    def gradient(self, x: None, over: None = None) -> None: ...
    def gradient(self, x: Buffer | Param | None, over: Buffer | None = None) -> Buffer | Param | None:
        """Where a gradient is written: of a buffer, a new buffer; of a weight, its place, to which kernels add."""
        if isinstance(x, Buffer):
            return self._made(Buffer("", x.shape, over=over, of=x))
        return None if x is None or not self.is_trained(x.name) else Param(x.name, "d")

    def constant(self, name: str, values: Any) -> Constant:
        """Numbers that are written into the program; the same ones once."""
        numbers = tuple(map(float, np.asarray(values).ravel()))
        return next((made for made in self.constants if made.values == numbers), Constant(name, numbers))

    def is_trained(self, name: str) -> bool:
        return name not in self.frozen

    def learns(self, value: Value) -> bool:
        """Whether it is a weight that is trained, or one beside which something is."""
        return bool(value.param) and (self.is_trained(self.named(value.param)) or self.beside(value) is not None)

    def transpose_of(self, weight: Param) -> Param:
        """For kernels that read a weight by columns. It is made once a step."""
        return Param(weight.name, "transposed")

    def call(
        self,
        kernel: str,
        header: str,
        writes: tuple[Buffer | Param | None, ...],
        reads: tuple[Operand | None, ...],
        sizes: tuple[Size, ...],
    ) -> None:
        """Write a call down. The kernel's arguments are what it writes, what it reads, and sizes, in this order."""
        (self.backward if self.backwards else self.forward).append(Call(kernel, header, writes, reads, sizes))

    @property
    def calls(self) -> list[Call]:
        loss = [] if self.loss is None else [self.loss]
        return [*self.forward, *loss, *self.backward, *self.columns, *self.rows]

    @property
    def transposed(self) -> list[str]:
        """Weights whose transpose is read."""
        read = [used for call in self.calls for used in call.operands if isinstance(used, Param)]
        return list(dict.fromkeys(used.name for used in read if used.role == "transposed"))

    @property
    def constants(self) -> list[Constant]:
        return list(dict.fromkeys(used for call in self.calls for used in call.reads if isinstance(used, Constant)))

    def close(self) -> None:
        """All calls are written down: leave out what nobody reads, and see which buffers take another one's place."""
        self.backward = live(self.backward)
        self.defer()
        for time, call in enumerate(self.calls):
            for used in call.buffers:
                for one in (used, used.root):
                    one.born = time if one.born < 0 else one.born
                    one.dies = time
        logits, dlogits = ends(self)
        logits.dies = max(logits.dies, len(self.forward))  # the loss reads one and writes the other between the passes
        dlogits.born = min(dlogits.born, len(self.forward) - 1)
        self.buffers = [buffer for buffer in self.buffers if buffer.born >= 0]
        take_places(self.buffers)
        name_buffers(self)
        self.buffers = [buffer for buffer in self.buffers if buffer.base is None]

    def defer(self) -> None:
        """Gradients of large weights and tables come last. What they read is copied where a later call writes over it,
        or adds to it: the gradient of a residual stream."""
        now: list[Call] = []
        copies: dict[tuple[Buffer, int], Buffer] = {}
        large = list(map(self.is_large, self.backward))
        for time, call in enumerate(self.backward):
            if not large[time]:
                now.append(call)
                continue
            reads = []
            after = [later for later, deferred in zip(self.backward[time:], large[time:], strict=True) if not deferred]
            for used in call.reads:
                changed = isinstance(used, Buffer) and used.root in {w.root for one in after for w in written(one)}
                if isinstance(used, Buffer) and changed:
                    key = used.root, len(after)  # the same until the next call that could change it
                    if key not in copies:
                        copies[key] = self._made(Buffer("", used.shape, of=used.of or used))
                        now.append(Call("copy_forward", "copy", (copies[key],), (used,), (used.rows * used.width,)))
                    used = copies[key]
                reads.append(used)
            later = replace(call, kernel=BY_ROWS.get(call.kernel, call.kernel), reads=tuple(reads))
            (self.rows if call.kernel in BY_ROWS else self.columns).append(later)
        self.backward = now

    def is_large(self, call: Call) -> bool:
        weight = call.writes[0]
        if call.kernel == "linear_backward_w":  # a weight that is used twice is added to twice: in the shards
            return weight is not None and prod(self.params[weight.name]) >= LARGE and self.is_alone(call)
        return call.kernel in BY_ROWS and (weight is None or self.is_large_table(weight.name))

    def is_alone(self, call: Call) -> bool:
        """Whether no other call writes to the same gradients."""
        own = {one for one in call.writes if isinstance(one, Param)}
        return sum(not own.isdisjoint(other.writes) for other in self.backward) == 1

    def is_large_table(self, name: str) -> bool:
        return prod(self.params[name]) >= LARGE_TABLE

    @property
    def apart(self) -> set[str]:
        """Weights whose gradient has no copy in the shards of samples."""
        after = {one.name for call in (*self.columns, *self.rows) for one in call.writes if one}
        return after - {one.name for call in self.backward for one in call.writes if isinstance(one, Param)}


def written(call: Call) -> list[Buffer]:
    return [used for used in call.writes if isinstance(used, Buffer)]


def live(calls: list[Call]) -> list[Call]:
    """Calls but for those that only write what nobody reads: the gradient of the pixels, say."""
    kept, read = [], set()
    for call in reversed(calls):
        if any(isinstance(used, Param) or (used and used.root in read) for used in call.writes):
            kept.append(call)
            read |= {used.root for used in call.reads if isinstance(used, Buffer)}
    return kept[::-1]


def take_places(buffers: list[Buffer]) -> None:
    """A buffer takes the place of another if that is not used any more after the call that writes it first."""
    for buffer in buffers:
        if buffer.over is None:
            continue
        there, own = (family(root, buffers) for root in (buffer.over.root, buffer))
        if max(one.dies for one in there) <= min(one.born for one in own):
            buffer.base = buffer.over
    for buffer in buffers:
        root = buffer.root
        root.born, root.dies = min(root.born, buffer.born), max(root.dies, buffer.dies)
        root.shape = buffer.shape  # as it is read last


def family(root: Buffer, buffers: list[Buffer]) -> list[Buffer]:
    return [buffer for buffer in buffers if buffer.root is root]


def name_buffers(plan: Plan) -> None:
    """Gradients after what they are of; and no name twice."""
    taken = set(map(word, plan.params))
    for buffer in plan.buffers:
        if buffer.base is not None:
            continue
        name = buffer.name if buffer.of is None else f"d{buffer.of.root.name}"
        same = (f"{name}.{number}" for number in range(2, len(plan.buffers) + 2))
        buffer.name = next(one for one in (name, *same) if word(one) not in taken)
        taken.add(word(buffer.name))


def word(name: str) -> str:
    """A dotted name in C."""
    return name.replace(".", "_")


def padded(size: Size, lanes: int) -> int:
    """The number that C's PADDED(n) gives with this many lanes, or SOURCES(n), which takes two vectors at once."""
    if isinstance(size, str):
        kind, _, count = size.removesuffix(")").partition("(")
        whole = lanes * (2 if kind == "SOURCES" else 1)
        size = -(-int(count) // whole) * whole
    return int(size)


def place(plan: Plan, lanes: int, aligned: int = ALIGNED) -> int:
    """Give every buffer its place in one arena; returns its floats. Buffers that overlap in time do not in space."""
    sizes = {buffer: -(-buffer.floats(lanes) // aligned) * aligned for buffer in plan.buffers}
    for buffer in sorted(plan.buffers, key=lambda b: -b.floats(lanes)):
        buffer.offset = first_gap(buffer, [b for b in plan.buffers if b.offset >= 0], sizes)
    return max((buffer.offset + size for buffer, size in sizes.items()), default=0)


def first_gap(buffer: Any, placed: list[Any], sizes: dict[Any, int]) -> int:
    """The lowest offset at which the buffer meets none that is alive at the same time."""
    neighbours = [b for b in placed if b.born <= buffer.dies and buffer.born <= b.dies]
    offset = 0
    for other in sorted(neighbours, key=lambda b: b.offset):
        if offset + sizes[buffer] <= other.offset:
            break
        offset = max(offset, other.offset + sizes[other])
    return offset


def ends(plan: Plan) -> tuple[Buffer, Buffer]:
    """The logits, and their gradient (in a forward-only plan the logits again)."""
    if plan.logits is None:
        raise ValueError("a plan without logits")
    return plan.logits.root, (plan.dlogits or plan.logits).root
