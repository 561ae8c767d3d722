"""Float steps become int8 steps: the values on their way, with their scales, and the tables that go to flash.

Values that are added share a scale. A sum of products (int32) stays one until something is made of it: a row, the
residual stream, keys, values, or an activation by its table.
"""

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

from glassformer.edge.steps import Operand, Program, Row, Rows, Step, Weight, Whole
from glassformer.errors import EngineError

Array = np.ndarray

HEADROOM = 2  # of int16 rows, over what calibration has seen
LEAST = 1e-9  # of a range: a value that is always 0 has a scale, too
HEADERS = {
    "int8_io": ("bytes", "patch", "copy", "quantise", "dequantise", "dequantise_sums"),
    "int8_requantise": ("requantise", "requantise_add", "keys", "values", "lookup", "relu", "add", "pool"),
    "int8_dots": ("dots",),
    "int8_attention": ("attend",),
    "int8_norm": ("norm",),
}
HEADER_OF = {kernel: header for header, kernels in HEADERS.items() for kernel in kernels}


class Value(NamedTuple):
    """What has become of a float value: numbers q that stand for q * scale + offset."""

    rows: Rows
    scale: Array  # one, or one for each channel
    offset: float = 0.0
    bias: str = ""  # of sums: the table that has been added to them

    @property
    def is_sums(self) -> bool:
        return self.rows.c_type == "int32_t"


@dataclass
class Quantiser:
    """Takes the float steps one after the other and writes down those of int8."""

    program: Program
    weights: dict[str, Array]
    largest: dict[str, Array]  # magnitude of every tagged value
    keep_float: tuple[str, ...]
    tables: dict[str, Array] = field(default_factory=dict)
    values: dict[Rows, Value] = field(default_factory=dict)
    floats: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        given = self.program
        self.made = Program(given.input, {}, given.sample, folders=given.folders)
        self.values[given.sample] = Value(given.sample, np.ones(1))
        self.readers: dict[Rows, list[Step]] = {}
        self.joined: dict[Rows, Rows] = {}
        for step in given.steps:
            for one in step.reads:
                if isinstance(one, Row | Whole):
                    self.readers.setdefault(one.rows, []).append(step)
            self.join(step)
        self.ranges: dict[Rows, float] = {given.sample: max(float(self.largest[given.sample.name].max()), LEAST)}
        for step in given.steps:
            for one in step.writes:
                self.measure(one.rows, step)

    def is_kept(self, step: Step) -> bool:
        return any(fnmatchcase(step.layer, pattern) for pattern in self.keep_float)

    def join(self, step: Step) -> None:
        """Values that are added, and those that lie in one another, share a scale."""
        shared = [one.rows for one in step.operands if isinstance(one, Row | Whole)]
        if step.kernel not in ("residual_forward", "relu_forward"):
            shared = shared[:1]
        for rows in shared:
            for other in (shared[0], rows.root):
                self.joined[self.group(rows)] = self.group(other)

    def group(self, rows: Rows) -> Rows:
        while self.joined.get(rows, rows) is not rows:
            rows = self.joined[rows]
        return rows

    def measure(self, rows: Rows, step: Step) -> None:
        """The largest magnitude of a group of values."""
        found = [float(self.largest[rows.name].max())] if rows.name in self.largest else []
        if step.kernel == "mean_pool_row":  # the mean of something else than the model's own pool, perhaps
            found = [self.ranges[self.group(one)] for one in step.rows_read if self.group(one) in self.ranges]
        if step.kernel in ("residual_forward", "copy_forward"):
            found += [float(np.abs(self.weights[one.name]).max()) for one in step.reads if isinstance(one, Weight)]
        if found:
            self.ranges[self.group(rows)] = max([self.ranges.get(self.group(rows), LEAST), *found])

    def row_scale(self, rows: Rows) -> Array:
        if self.group(rows) not in self.ranges:
            raise EngineError(f"int8: no value is tagged {rows.name!r}, so that it has no range; keep its layer float")
        return np.full(1, HEADROOM * self.ranges[self.group(rows)] / 32767)

    def channels(self, rows: Rows) -> Array:
        """The largest magnitude of each channel."""
        return np.maximum(self.largest[rows.name].reshape(-1, rows.width).max(axis=0), LEAST)

    def emit(
        self, step: Step, kernel: str, y: Row | Whole, reads: tuple[Operand, ...], *sizes: Any, **more: Any
    ) -> None:
        writes = (y, *more.pop("room", ()))
        count = more.pop("count", step.count)
        self.made.steps.append(
            Step(step.layer, f"int8_{kernel}", HEADER_OF[kernel], count, writes, reads, sizes, **more)
        )

    def table(self, name: str, array: Array, dtype: Any, by_row: int = 0) -> Weight:
        """A name of its own, should a layer be used twice."""
        limits = np.iinfo(dtype) if np.issubdtype(dtype, np.integer) else None
        array = np.asarray(array) if limits is None else np.clip(np.round(array), limits.min, limits.max)
        while name in self.tables:
            name += "_again"
        self.tables[name] = array.astype(dtype)
        return Weight(name, by_row)

    def rows(self, like: Rows, c_type: str = "int16_t", name: str = "") -> Rows:
        """Rows of the same form. Where they lie in others of the same type, so do these."""
        base = None
        if like.base is not None:
            base = self.base(like.base).rows
            base = base if base.c_type == c_type else None
        return Rows(name or like.name, like.count, like.width, base, like.skip if base else 0, c_type)

    def base(self, rows: Rows) -> Value:
        """What others lie in, which may be written before it is (a class token in front of tokens)."""
        if rows not in self.values:
            maker = next(step for step in self.program.steps if rows in [one.rows for one in step.writes])
            stays = self.is_kept(maker)
            made = self.rows(rows, "float" if stays else "int16_t")
            self.values[rows] = Value(made, np.ones(1) if stays else self.row_scale(rows))
        return self.values[rows]

    def value(self, rows: Rows) -> Value:
        if rows not in self.values:  # lies in another
            if rows.base is None:
                raise EngineError(f"int8: {rows.name} is read before it is made")
            base = self.row(rows.base) if self.value(rows.base).is_sums else self.value(rows.base)
            own = Rows(rows.name, rows.count, rows.width, base.rows, rows.skip, base.rows.c_type)
            self.values[rows] = base._replace(rows=own)
        return self.values[rows]

    def row(self, rows: Rows, step: Step | None = None) -> Value:
        """As int16."""
        value = self.value(rows)
        if value.rows.c_type == "int16_t":
            return value
        scale = self.row_scale(rows)
        y = self.rows(rows)
        maker = step or owner(rows)
        if value.is_sums:
            multiplier = self.multiplier(value, scale, rows.name)
            self.emit(maker, "requantise", Row(y), (multiplier, Row(value.rows)), y.width, count=y.count)
        else:
            self.emit(maker, "quantise", Row(y), (Row(value.rows),), y.width, float(2 / scale[0]), count=y.count)
        self.values[rows] = Value(y, scale)
        return self.values[rows]

    def scaled_row(self, rows: Rows, step: Step) -> Value:
        """As int16 of its group's scale."""
        value = self.row(rows, step)
        if value.offset or not np.array_equal(value.scale, self.row_scale(rows)):
            raise EngineError(f"int8: {step.layer} adds up what has a scale of its own; keep it float: {step.layer}")
        return value

    def float_rows(self, rows: Rows) -> Rows:
        value = self.value(rows)
        if value.rows.c_type in ("float", "uint8_t"):
            return value.rows
        if value.offset:
            raise EngineError(f"int8: a layer that stays float reads {rows.name}; keep the layer before it float, too")
        y, maker = self.rows(rows, "float"), owner(rows)
        if value.is_sums:
            scale = self.table(f"{rows.name}_scale", np.broadcast_to(value.scale, y.width), np.float32)
            self.emit(maker, "dequantise_sums", Row(y), (scale, Row(value.rows)), y.width)
        else:
            self.emit(maker, "dequantise", Row(y), (Row(value.rows),), y.width, float(value.scale[0]))
        return y

    def stay_float(self, step: Step) -> None:
        """The step as it is, of what is made float for it."""
        self.floats.append(step.layer)

        def operand(one: Operand) -> Operand:
            match one:
                case Row() | Whole():
                    return type(one)(self.float_rows(one.rows))
                case Weight():
                    return self.table(f"{one.name}_float", self.weights[one.name], np.float32, one.by_row)
            return one

        reads = tuple(map(operand, step.reads))
        writes = tuple(type(one)(self.float_made(one.rows)) for one in step.writes)
        after = tuple(self.values[rows].rows for rows in step.after)
        self.made.steps.append(replace(step, writes=writes, reads=reads, after=after))
        rows = step.writes[0].rows  # the others are to work in
        self.values[rows] = Value(writes[0].rows, np.ones(1))
        self.complete(rows, step)

    def float_made(self, rows: Rows) -> Rows:
        return self.values[rows].rows if rows in self.values else self.rows(rows, "float")

    def complete(self, rows: Rows, step: Step) -> None:
        """What others lie in has all of its rows, whatever type these are made in."""
        if rows.base is not None and self.values[rows].rows.base is None:
            if self.base(rows.base).rows.c_type == "float":
                self.float_rows(rows)
            else:
                self.row(rows, step)

    def multiplier(self, sums: Value, scale: Array, name: str) -> Weight:
        """What brings sums to a scale. Half of what is then one is added to them, so that rounding down rounds."""
        width = sums.rows.width
        found = np.broadcast_to(sums.scale / scale, width) * 2.0**32
        if found.max() >= 2**31:
            raise EngineError(f"int8: {name} is too small beside what it is made of; keep its layer float")
        if sums.bias:
            self.tables[sums.bias] += (
                np.round(2.0**31 / np.maximum(np.round(found), 1)).clip(max=2**24).astype(np.int32)
            )
        return self.table(f"{name}_multiplier", found, np.int32)

    def finished(self) -> tuple[Program, dict[str, Array]]:
        """All steps, and their tables, the widest numbers first: there are then no gaps between them in C."""
        if self.program.logits is not None:
            self.made.logits = self.float_rows(self.program.logits)
        self.made.params = {name: table.shape for name, table in self.tables.items()}
        return self.made, dict(sorted(self.tables.items(), key=lambda one: -one[1].itemsize))

    def scales(self) -> dict[str, tuple[Rows, Array]]:
        """Of values that are tagged under their own name, as many numbers of them."""
        found = {}
        for rows, value in self.values.items():
            tagged = None if rows is self.program.sample else self.largest.get(rows.name)
            if tagged is not None and tagged.size == rows.size and not value.offset:
                found[rows.name] = (value.rows, value.scale)
        return found


def owner(rows: Rows) -> Step:
    """Of whose layer a step is that brings a value into another form."""
    return Step(rows.name.rpartition(".")[0], "", "", rows.count, (), (), ())
