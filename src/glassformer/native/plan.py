"""A plan: every call a model makes, forward and backward, and every buffer, with the time it is alive.

The layers write it down (`layers.py`), `write.py` turns it into C. Buffers that are never alive together share bytes,
so a sample stays in the fastest cache, and a forward-only plan needs little memory.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import jax

from glassformer.models import Model
from glassformer.names import named_leaves

ALIGNED = 16  # floats: buffers begin on a cache line

Size = int | float | str  # a str is C: `PADDED(49)`


@dataclass(eq=False)
class Buffer:
    """Activations or gradients of one group of samples."""

    name: str
    shape: tuple[Size, ...]
    born: int = -1  # the calls between which it is alive
    dies: int = -1
    offset: int = -1

    def floats(self, lanes: int) -> int:
        """With rows padded where the shape says so."""
        return prod(padded(size, lanes) for size in self.shape)

    @property
    def rows(self) -> int:
        return prod(int(size) for size in self.shape[:-1])


@dataclass(frozen=True)
class Param:
    """A weight, its gradient, or its transpose."""

    name: str
    role: str = ""  # "", "d" or "transposed"


@dataclass(frozen=True)
class Call:
    """One kernel: what it writes, what it reads (None: NULL), and its sizes, which the compiler sees as constants."""

    kernel: str
    header: str
    writes: tuple[Buffer | Param, ...]
    reads: tuple[Buffer | Param | None, ...]
    sizes: tuple[Size, ...]


Backward = Callable[..., Buffer]  # dy -> dx, writing its calls down


@dataclass
class Plan:
    samples: int  # B: of one group, which go through together
    params: dict[str, tuple[int, ...]]  # shapes by name, in the order in which they lie
    rewrites: bool = True  # exact rewrites (docs/native.md); off, the calls are those of the Python model
    forward: list[Call] = field(default_factory=list)
    backward: list[Call] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    transposed: list[str] = field(default_factory=list)  # weights whose transpose is needed
    backwards: bool = False  # calls are now those of the backward pass

    def buffer(self, name: str, *shape: Size) -> Buffer:
        made = Buffer(name, shape)
        self.buffers.append(made)
        return made

    def param(self, name: str) -> Param | None:
        """A weight that the model may not have: a bias, say."""
        return Param(name) if name in self.params else None

    def call(
        self,
        kernel: str,
        header: str,
        writes: tuple[Buffer | Param | None, ...],
        reads: tuple[Buffer | Param | None, ...],
        sizes: tuple[Size, ...],
    ) -> None:
        calls = self.backward if self.backwards else self.forward
        calls.append(Call(kernel, header, writes, reads, sizes))  # pyright: ignore[reportArgumentType]

    def transpose_of(self, weight: Param) -> Param:
        if weight.name not in self.transposed:
            self.transposed.append(weight.name)
        return Param(weight.name, "transposed")


def gradient(weight: Param | None) -> Param | None:
    return None if weight is None else Param(weight.name, "d")


def padded(size: Size, lanes: int) -> int:
    """The number that C's PADDED(n) gives with this many lanes."""
    if isinstance(size, str):
        size = -(-int(size.removeprefix("PADDED(").removesuffix(")")) // lanes) * lanes
    return int(size)


def params_of(model: Model) -> dict[str, tuple[int, ...]]:
    tree = jax.eval_shape(model.init, jax.random.key(0))
    return {name: leaf.shape for name, leaf in named_leaves(tree).items()}


def place(plan: Plan, lanes: int) -> int:
    """Give every buffer its place in one arena; returns its floats. Buffers that overlap in time do not in space."""
    calls = [*plan.forward, *plan.backward]
    for time, call in enumerate(calls):
        for used in (*call.writes, *call.reads):
            if isinstance(used, Buffer):
                used.born = time if used.born < 0 else used.born
                used.dies = time
    plan.buffers = [buffer for buffer in plan.buffers if buffer.born >= 0]
    logits, dlogits = ends(plan)
    logits.dies = max(logits.dies, len(plan.forward))  # the loss reads one and writes the other between the passes
    dlogits.born = min(dlogits.born, len(plan.forward) - 1)
    size = 0
    for buffer in sorted(plan.buffers, key=lambda b: -b.floats(lanes)):
        buffer.offset = first_gap(buffer, [b for b in plan.buffers if b.offset >= 0], lanes)
        size = max(size, buffer.offset + rounded(buffer.floats(lanes)))
    return size


def first_gap(buffer: Buffer, placed: list[Buffer], lanes: int) -> int:
    """The lowest offset at which the buffer meets none that is alive at the same time."""
    neighbours = [b for b in placed if b.born <= buffer.dies and buffer.born <= b.dies]
    offset = 0
    for other in sorted(neighbours, key=lambda b: b.offset):
        if offset + rounded(buffer.floats(lanes)) <= other.offset:
            break
        offset = max(offset, other.offset + rounded(other.floats(lanes)))
    return offset


def rounded(floats: int) -> int:
    return -(-floats // ALIGNED) * ALIGNED


def ends(plan: Plan) -> tuple[Buffer, Buffer]:
    """The logits, and their gradient (in a forward-only plan the logits again)."""
    by_name: dict[str, Any] = {buffer.name: buffer for buffer in plan.buffers}
    return by_name["logits"], by_name.get("dlogits", by_name["logits"])
