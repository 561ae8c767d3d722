"""A model as a list of steps over tokens: what a device computes, one row after the other.

A server keeps every value of every token. A device has no room for that, and needs little of it: most layers make a
token from that token alone, so their values live for one row. A step says what it reads row by row and what it must
have whole: attention reads one query, and the keys and values of all tokens. `plan.py` makes loops of the steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from glassformer.errors import EngineError
from glassformer.native.plan import Constant, Input, Size
from glassformer.structure import Value

BYTES = {"float": 4, "int32_t": 4, "int16_t": 2, "int8_t": 1, "uint8_t": 1}


@dataclass(eq=False)
class Rows:
    """A value: `count` tokens of `width` numbers."""

    name: str
    count: int
    width: int
    base: "Rows | None" = None  # whose numbers it has
    skip: int = 0  # numbers of the base that come before
    c_type: str = "float"

    @property
    def root(self) -> "Rows":
        return self if self.base is None else self.base.root

    @property
    def begin(self) -> int:
        """Where its numbers begin in the root's."""
        return 0 if self.base is None else self.skip + self.base.begin

    @property
    def size(self) -> int:
        return self.count * self.width

    @property
    def item(self) -> int:
        """Bytes of a number."""
        return BYTES[self.c_type]


@dataclass(frozen=True)
class Row:
    """The row of the token whose turn it is."""

    rows: Rows


@dataclass(frozen=True)
class Whole:
    """All rows."""

    rows: Rows


@dataclass(frozen=True)
class Weight:
    name: str
    by_row: int = 0  # numbers of it that belong to one token; 0: all of it to each


@dataclass(frozen=True)
class Turn:
    """The number of the token whose turn it is."""


Operand = Row | Whole | Weight | Constant | Turn | None


@dataclass(eq=False)
class Step:
    """One kernel call for each of `count` tokens: what it writes, what it reads, its sizes, in the order of C."""

    layer: str  # dotted name of the layer that asks for it
    kernel: str
    header: str
    count: int
    writes: tuple[Row | Whole, ...]
    reads: tuple[Operand, ...]
    sizes: tuple[Size, ...]
    multiply_adds: int = 0  # for one token
    in_place: bool = False  # the result may lie where the first row that is read does
    cheap: bool = False  # rather computed again than kept for all tokens
    after: tuple[Rows, ...] = ()  # read by a later step of the same loop: must be whole when it begins

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (*self.writes, *self.reads)

    @property
    def rows_read(self) -> list[Rows]:
        return [one.rows for one in self.reads if isinstance(one, Row)]

    @property
    def wholes_read(self) -> list[Rows]:
        return [*self.after, *(one.rows for one in self.reads if isinstance(one, Whole))]


class Adapter(NamedTuple):
    """Of a matrix `w` that is tuned by lora: its thin matrices are the weights `a.w` and `b.w`."""

    rank: int
    scale: float


@dataclass
class Program:
    """All steps of a model, forward, for one sample."""

    input: Input
    params: dict[str, tuple[int, ...]]
    sample: Rows
    steps: list[Step] = field(default_factory=list)
    folders: list[Any] = field(default_factory=list)  # of headers that are not glassformer's own
    logits: Rows | None = None
    adapters: Mapping[str, Adapter] = field(default_factory=dict)  # by the name of the matrix

    def row_step(
        self, layer: str, kernel: str, header: str, y: Rows, reads: tuple[Operand, ...], *sizes: Size, **more: Any
    ) -> Rows:
        """A step whose result is a row for each row it reads."""
        self.steps.append(Step(layer, kernel, header, y.count, (Row(y),), reads, sizes, **more))
        return y

    def weight(self, value: Value | None) -> Weight | None:
        if value is None:
            return None
        if not value.param:
            raise EngineError(f"a device reads weights as they are, and {value} is computed from them")
        return Weight(value.param)
