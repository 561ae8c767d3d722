"""From the steps of a float model to those of int8: scales by calibration, weights by channel.

Of every value the largest magnitude is measured on calibration samples, under the name by which the model tags it. Rows
become int16 with room for twice that; keys and values become int8 by channel, and so do the weights. Values that are
added share a scale. A sum of products (int32) goes straight to what is made of it: a row, the residual stream, keys,
values, or an activation by its table. What has no int8 kernel, and what is asked to, stays float.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from math import ceil, e, floor, inf, log2, log10
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.edge import int8
from glassformer.edge.plan import Layout, layout_of
from glassformer.edge.steps import Operand, Program, Row, Rows, Step, Turn, Weight, Whole, program_of
from glassformer.edge.twin import computed, rows_of
from glassformer.errors import DataError, EngineError, SettingError
from glassformer.layers import GELU, GELUTanh
from glassformer.names import named_leaves, recording, visiting

Array = np.ndarray

AT_ONCE = 250  # samples computed together
HEADROOM = 2  # of int16 rows, over what calibration has seen
MOST = 512  # tokens: as many attention weights of 15 bits, times values of 8 bits, add up in 32; so with scores
ACTIVATIONS = {"gelu_forward": GELU(), "gelu_tanh_forward": GELUTanh()}


@dataclass(frozen=True)
class QuantisedModel:
    """The int8 steps of a model with their weights, and what they compute, bit for bit."""

    model: Any
    params: Any
    program: Program
    weights: dict[str, Array]  # as they lie in flash
    scales: dict[str, tuple[Rows, Array]]  # of values that the float model tags, by name
    stays_float: tuple[str, ...]  # layers

    def layout(self) -> Layout:
        """Its memory; of steps of its own, which a layout may change."""
        return layout_of(replace(self.program, steps=[replace(step) for step in self.program.steps]))

    def logits(self, samples: Array) -> Array:
        """(N, K), as a device gives them."""
        logits = self.program.logits
        return np.concatenate([rows_of(values, logits)[:, 0] for _, values in self.computed(samples)])  # pyright: ignore[reportArgumentType]

    def computed(self, samples: Array) -> Iterator[tuple[Array, dict[Rows, Array]]]:
        """Some samples after the others, and every value of theirs."""
        samples = checked(self.model, samples)
        for start in range(0, len(samples), AT_ONCE):
            part = samples[start : start + AT_ONCE]
            yield part, computed(self.program, self.weights, part.reshape(len(part), self.program.sample.count, -1))

    def noise(self, samples: Array) -> dict[str, float]:
        """Signal-to-quantisation-noise ratio in dB of each value, by its name in the float model, in order."""
        signal, noise = dict.fromkeys(self.scales, 0.0), dict.fromkeys(self.scales, 0.0)
        for part, values in self.computed(samples):
            tagged = traced(self.model, self.params, part)
            for name, (rows, scale) in self.scales.items():
                exact = tagged[name].astype(np.float64)
                found = (rows_of(values, rows) * scale).reshape(exact.shape)
                signal[name] += (exact**2).sum()
                noise[name] += ((found - exact) ** 2).sum()
        return {name: 10 * log10(signal[name] / noise[name]) if noise[name] else inf for name in signal}


def quantise(model: Any, params: Any, samples: Array, keep_float: Sequence[str] = ()) -> QuantisedModel:
    """Calibrate on samples, as the model reads them. Layers whose name fits one of `keep_float` stay float."""
    program = program_of(model)
    layers = {step.layer for step in program.steps}
    for pattern in keep_float:
        if not any(fnmatchcase(layer, pattern) for layer in layers):
            raise SettingError(f"keep-float: no layer fits {pattern!r}; there are {', '.join(sorted(layers))}")
    weights = {name: np.asarray(leaf, np.float64) for name, leaf in named_leaves(params).items()}
    for name, array in weights.items():
        if not np.isfinite(array).all():
            raise EngineError(f"int8: the weight {name} has NaN or infinity in it; train again")
    largest: dict[str, Array] = {}
    samples = checked(model, samples)
    for start in range(0, len(samples), AT_ONCE):
        for name, value in traced(model, params, samples[start : start + AT_ONCE]).items():
            here = np.abs(value).max(axis=0)
            if not np.isfinite(here).all():
                raise DataError(f"int8: {name} becomes NaN or infinity on the calibration samples; the model is broken")
            largest[name] = np.maximum(here, largest.get(name, 0.0))
    work = Quantiser(program, weights, largest, tuple(keep_float))
    work.run()
    tables = dict(sorted(work.tables.items(), key=lambda one: -one[1].itemsize))  # no gaps between them in C
    return QuantisedModel(model, params, work.made, tables, work.scales(), tuple(dict.fromkeys(work.floats)))


def checked(model: Any, samples: Array) -> Array:
    """Samples of the model's own shape and type."""
    samples, expected = np.asarray(samples), model.example(1)
    if len(samples) == 0:
        raise DataError("int8: no calibration samples came, expected some of the training data")
    if samples.shape[1:] != expected.shape[1:]:
        raise DataError(
            f"int8: calibration samples of shape {samples.shape[1:]} came, the model reads {expected.shape[1:]}"
        )
    if expected.dtype != np.uint8:
        samples = samples.astype(np.float32)
    elif samples.dtype != np.uint8:
        raise DataError(f"int8: calibration samples of type {samples.dtype} came, the model reads bytes, 0 to 255")
    if samples.dtype == np.float32 and not np.isfinite(samples).all():
        raise DataError("int8: calibration samples have NaN or infinity in them")
    return samples


def traced(model: Any, params: Any, samples: Array) -> dict[str, Array]:
    """Every float value that the model tags. One program serves all: a smaller last part is padded."""
    found = compiled_trace(model, params, np.resize(samples, (AT_ONCE, *samples.shape[1:])))
    arrays = {name: np.asarray(value)[: len(samples)] for name, value in found.items()}
    return {name: value for name, value in arrays.items() if np.issubdtype(value.dtype, np.floating)}


@partial(jax.jit, static_argnums=0)
def compiled_trace(model: Any, params: Any, samples: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with visiting(recording(found)):
        model.forward(params, samples)
    return found


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
        self.ranges: dict[Rows, float] = {}
        for step in given.steps:
            for one in step.writes:
                self.measure(one.rows, step)

    def run(self) -> None:
        for step in self.program.steps:
            if self.is_kept(step) or not (step.kernel in HANDLERS and HANDLERS[step.kernel](self, step)):
                self.stay_float(step)
        logits = self.program.logits
        assert logits is not None
        self.made.logits = self.float_rows(logits)
        self.made.params = {name: table.shape for name, table in self.tables.items()}

    def is_kept(self, step: Step) -> bool:
        return any(fnmatchcase(step.layer, pattern) for pattern in self.keep_float)

    # scales

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
        read = [self.weights[one.name] for one in step.reads if isinstance(one, Weight)]
        added = read if step.kernel in ("residual_forward", "copy_forward") else []
        if step.kernel == "mean_pool_row":  # the mean of what is tagged elsewhere
            found = [self.ranges.get(self.group(one), 0.0) for one in step.rows_read]
        else:
            found = [float(one.max()) for one in ([self.largest[rows.name]] if rows.name in self.largest else [])]
        group = self.group(rows)
        self.ranges[group] = max([self.ranges.get(group, 0.0), *found, *(float(np.abs(one).max()) for one in added)])

    def row_scale(self, rows: Rows) -> Array:
        largest = self.ranges.get(self.group(rows), 0.0)
        return np.full(1, HEADROOM * max(largest, 1e-9) / 32767)

    def channels(self, rows: Rows) -> Array:
        """The largest magnitude of each channel."""
        return np.maximum(self.largest[rows.name].reshape(-1, rows.width).max(axis=0), 1e-9)

    # steps

    def emit(
        self, step: Step, kernel: str, y: Row | Whole, reads: tuple[Operand, ...], *sizes: Any, **more: Any
    ) -> None:
        writes = (y, *more.pop("work", ()))
        count = more.pop("count", step.count)
        self.made.steps.append(Step(step.layer, f"int8_{kernel}", HEADERS[kernel], count, writes, reads, sizes, **more))

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
                    if one.name not in self.tables:
                        self.table(one.name, self.weights[one.name], np.float32)
            return one

        reads = tuple(map(operand, step.reads))
        writes = tuple(type(one)(self.float_made(one.rows)) for one in step.writes)
        after = tuple(self.values[rows].rows for rows in step.after)
        self.made.steps.append(replace(step, writes=writes, reads=reads, after=after))
        for one, made in zip(step.writes, writes, strict=True):
            self.values[one.rows] = Value(made.rows, np.ones(1))
            self.complete(one.rows, step)

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

    def scales(self) -> dict[str, tuple[Rows, Array]]:
        """Of values that are tagged under their own name, as many numbers of them."""
        found = {}
        for rows, value in self.values.items():
            tagged = self.largest.get(rows.name)
            if tagged is not None and tagged.size == rows.size and not value.offset:
                found[rows.name] = (value.rows, value.scale)
        return found


def owner(rows: Rows) -> Step:
    """Of whose layer a step is that brings a value into another form."""
    return Step(rows.name.rpartition(".")[0], "", "", rows.count, (), (), ())


def patch(self: Quantiser, step: Step) -> bool:
    """Bytes as they are: what standardising does to them, the linear layer does that reads them."""
    (y,), (*sizes, factor, offset) = step.writes, step.sizes
    rows = self.rows(y.rows)
    self.emit(step, "patch" if len(sizes) == 3 else "bytes", Row(rows), step.reads, *sizes, cheap=step.cheap)
    self.values[y.rows] = Value(rows, np.full(1, float(factor) / 128), -float(offset))
    return True


def linear(self: Quantiser, step: Step) -> bool:
    weight, bias, source = step.reads
    (y,) = step.writes
    x = self.row(source.rows, step)
    w = self.weights[weight.name]
    inputs, outputs = w.shape
    b = (0.0 if bias is None else self.weights[bias.name]) + x.offset * w.sum(axis=0)
    # 127 for the largest weight of a channel, or less where a sum could reach 2^31; the rest is for what rounding adds
    bound = (np.abs(w).sum(axis=0) * 32768 + np.abs(b) / x.scale) / (2**31 - 2**25 - inputs * 2**14)
    size = np.maximum(np.maximum(np.abs(w).max(axis=0) / 127, bound), 1e-12)
    reads = (
        self.table(weight.name, int8.paired(np.round(w / size).T.astype(np.int8)), np.int8),
        self.table(f"{weight.name}_bias", b / (x.scale * size), np.int32),
        Row(x.rows),
    )
    sums = Rows(f"{y.rows.name}_sums", y.rows.count, outputs, c_type="int32_t")
    after = tuple(self.values[rows].rows for rows in step.after)
    self.emit(step, "dots", Row(sums), reads, inputs, outputs, inputs, multiply_adds=step.multiply_adds, after=after)
    self.values[y.rows] = Value(sums, x.scale * size, bias=reads[1].name)
    for reader in self.readers.get(y.rows, []):
        if reader.kernel == "attend_row" and y.rows in reader.wholes_read:
            values(self, step, y.rows, reader)
    self.complete(y.rows, step)
    return True


def keys(self: Quantiser, step: Step) -> bool:
    (columns,), (k, turn) = step.writes, step.reads
    sums, scale = self.value(k.rows), self.channels(k.rows) / 127
    rows = Rows(k.rows.name, k.rows.count + k.rows.count % 2, k.rows.width, c_type="int8_t")
    multiplier = self.multiplier(sums, scale, k.rows.name)
    self.emit(step, "keys", Whole(rows), (multiplier, Row(sums.rows), turn), k.rows.width)
    self.values[columns.rows] = self.values[k.rows] = Value(rows, scale)
    return True


def values(self: Quantiser, step: Step, v: Rows, reader: Step) -> None:
    T, H, D, _ = reader.sizes
    sums, scale = self.value(v), self.channels(v) / 127
    rows = Rows(v.name, H * (D + D % 2), T, c_type="int8_t")  # pyright: ignore[reportArgumentType]
    multiplier = self.multiplier(sums, scale, v.name)
    self.emit(step, "values", Whole(rows), (multiplier, Row(sums.rows), Turn()), T, H, D)
    self.values[v] = Value(rows, scale)


def attend(self: Quantiser, step: Step) -> bool:
    """Queries so scaled that 2^shift of a score double an attention weight."""
    (z, *_), (q, columns, v) = step.writes, step.reads
    T, H, D, scale = step.sizes
    if T > MOST or D >= MOST:
        raise EngineError(
            f"int8: {step.layer} has {T} tokens and heads of width {D}, expected at most {MOST} and {MOST - 1}; keep it float"
        )
    doubling = self.values[columns.rows].scale * scale * log2(e)
    shift = floor(log2(32767 / HEADROOM / (self.channels(q.rows) * doubling).max()))
    shift = min(max(shift, int8.EXP2_BITS), 24)
    sums, query = self.value(q.rows), Value(self.rows(q.rows), 1 / (doubling * 2.0**shift))
    self.emit(
        step, "requantise", Row(query.rows), (self.multiplier(sums, query.scale, q.rows.name), Row(sums.rows)), H * D
    )
    self.values[q.rows] = query
    made = Value(self.rows(z.rows), self.row_scale(z.rows))
    weight = self.values[v.rows].scale / made.scale * 2.0**20
    if weight.max() >= 2**31:
        raise EngineError(f"int8: {z.rows.name} is too small beside {v.rows.name}; keep {step.layer} float")
    work = (
        Row(Rows(f"{step.layer}.scores", T, max(T, D), c_type="int32_t")),
        Row(Rows(f"{step.layer}.powers", T, T, c_type="int16_t")),
    )
    reads = (
        self.table(f"{z.rows.name}_multiplier", weight, np.int32),
        Row(query.rows),
        Whole(self.values[columns.rows].rows),
        Whole(self.values[v.rows].rows),
    )
    self.emit(step, "attend", Row(made.rows), reads, T, H, D, shift, work=work, multiply_adds=step.multiply_adds)
    self.values[z.rows] = made
    return True


def activation(self: Quantiser, step: Step) -> bool:
    y, (x,) = step.writes[0].rows, step.rows_read and (step.rows_read[0],)
    sums = self.value(x)
    if not sums.is_sums:
        return False
    scale, made = self.channels(x).max(keepdims=True) / 127, Value(self.rows(y), self.row_scale(y))
    found, _ = ACTIVATIONS[step.kernel].forward(None, jnp.asarray(np.arange(-128, 128) * scale, jnp.float32))
    table = self.table(f"{step.layer}.table", np.asarray(found, np.float64) / made.scale, np.int16)
    self.emit(step, "lookup", Row(made.rows), (table, self.multiplier(sums, scale, x.name), Row(sums.rows)), y.width)
    self.values[y] = made
    return True


def relu(self: Quantiser, step: Step) -> bool:
    (y,), (x,) = step.writes, step.rows_read
    value = self.scaled_row(x, step)
    made = value._replace(rows=self.rows(y.rows))
    self.emit(step, "relu", Row(made.rows), (Row(value.rows),), x.width, in_place=True)
    self.values[y.rows] = made
    return True


def residual(self: Quantiser, step: Step) -> bool:
    """Sums are added where they are brought to the scale of the stream."""
    (y,), (first, second) = step.writes, step.reads
    made = Value(self.rows(y.rows), self.row_scale(y.rows))

    def operand(one: Operand) -> Operand:
        if isinstance(one, Weight):
            return self.table(one.name, self.weights[one.name] / made.scale, np.int16, one.by_row)
        return Row(self.scaled_row(one.rows, step).rows)  # pyright: ignore[reportOptionalMemberAccess]

    for one, other in ((second, first), (first, second)):
        if isinstance(one, Row) and self.value(one.rows).is_sums:
            sums, base = self.value(one.rows), operand(other)
            multiplier = self.multiplier(sums, made.scale, one.rows.name)
            in_place = isinstance(base, Row)
            self.emit(
                step,
                "requantise_add",
                Row(made.rows),
                (base, multiplier, Row(sums.rows)),
                y.rows.width,
                in_place=in_place,
            )
            break
    else:
        self.emit(step, "add", Row(made.rows), (operand(first), operand(second)), y.rows.width, in_place=True)
    self.values[y.rows] = made
    return True


def norm(self: Quantiser, step: Step) -> bool:
    (y,), (gain, bias, source), (width, eps) = step.writes, step.reads, step.sizes
    x, made = self.row(source.rows, step), Value(self.rows(y.rows), self.row_scale(y.rows))
    found = self.weights[gain.name] / made.scale * 2.0**16
    if np.abs(found).max() >= 2**31:
        raise EngineError(f"int8: {y.rows.name} is too small beside the gain; keep {step.layer} float")
    reads = (
        self.table(gain.name, found, np.int32),
        self.table(bias.name, (self.weights[bias.name] / made.scale).clip(-(2**30), 2**30), np.int32),
        Row(x.rows),
    )
    least = max(1, min(round(float(eps * (width / x.scale[0]) ** 2)), 2**60))
    self.emit(step, "norm", Row(made.rows), reads, width, least, in_place=True, cheap=True)
    self.values[y.rows] = made
    return True


def pool(self: Quantiser, step: Step) -> bool:
    (y,), (source, turn), (T, width) = step.writes, step.reads, step.sizes
    x = self.row(source.rows, step)
    if x.offset:
        return False
    sums = Rows(f"{y.rows.name}_sums", 1, width, c_type="int32_t")
    self.emit(step, "pool", Whole(sums), (Row(x.rows), turn), width)
    self.values[y.rows] = Value(sums, x.scale / T)
    return True


def token(self: Quantiser, step: Step) -> bool:
    """A class token, in front of what lies behind it already."""
    (y,), (weight,), (width,) = step.writes, step.reads, step.sizes
    made = self.base(y.rows)
    table = self.table(weight.name, self.weights[weight.name] / made.scale, np.int16)
    self.emit(step, "copy", Whole(made.rows), (table,), width)
    return True


Handler = Callable[[Quantiser, Step], bool]  # False: the step stays float
HANDLERS: dict[str, Handler] = {
    "standardise_forward": patch,
    "patch_forward": patch,
    "linear_forward": linear,
    "column_forward": keys,
    "attend_row": attend,
    "gelu_forward": activation,
    "gelu_tanh_forward": activation,
    "relu_forward": relu,
    "residual_forward": residual,
    "layer_norm_row": norm,
    "mean_pool_row": pool,
    "copy_forward": token,
}
HEADERS = {
    **dict.fromkeys(("bytes", "patch", "copy", "quantise", "dequantise", "dequantise_sums"), "int8_io"),
    **dict.fromkeys(
        ("requantise", "requantise_add", "keys", "values", "lookup", "relu", "add", "pool"), "int8_requantise"
    ),
    "dots": "int8_dots",
    "attend": "int8_attention",
    "norm": "int8_norm",
}
