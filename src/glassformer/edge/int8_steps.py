"""What becomes of each float step in int8: one entry per float kernel, which writes down the int8 calls.

An entry is given the float step; it returns False where the step is to stay float.
"""

from collections.abc import Callable
from math import e, floor, log2
from typing import Any

import jax.numpy as jnp
import numpy as np

from glassformer.edge import int8
from glassformer.edge.quantiser import HEADROOM, Quantiser, Value
from glassformer.edge.steps import Row, Rows, Turn, Weight, Whole
from glassformer.errors import EngineError
from glassformer.layers import GELU, GELUTanh

MOST = 512  # tokens: as many attention weights of 15 bits, times values of 8 bits, add up in 32; so with scores
ACTIVATIONS = {"gelu_forward": GELU(), "gelu_tanh_forward": GELUTanh()}


def patch(work: Quantiser, step: Any) -> bool:
    """Bytes as they are: what standardising does to them, the linear layer does that reads them."""
    (y,), (*sizes, factor, offset) = step.writes, step.sizes
    rows = work.rows(y.rows)
    work.emit(step, "patch" if len(sizes) == 3 else "bytes", Row(rows), step.reads, *sizes, cheap=step.cheap)
    work.values[y.rows] = Value(rows, np.full(1, float(factor) / 128), -float(offset))
    return True


def linear(work: Quantiser, step: Any) -> bool:
    weight, bias, source = step.reads
    (y,) = step.writes
    x = work.row(source.rows, step)
    w = work.weights[weight.name]
    inputs, outputs = w.shape
    b = (0.0 if bias is None else work.weights[bias.name]) + x.offset * w.sum(axis=0)
    # 127 for the largest weight of a channel, or less where a sum could reach 2^31; the rest is for what rounding adds
    bound = (np.abs(w).sum(axis=0) * 32768 + np.abs(b) / x.scale) / (2**31 - 2**25 - inputs * 2**14)
    size = np.maximum(np.maximum(np.abs(w).max(axis=0) / 127, bound), 1e-12)
    reads = (
        work.table(weight.name, int8.paired(np.round(w / size).T.astype(np.int8)), np.int8),
        work.table(f"{weight.name}_bias", b / (x.scale * size), np.int32),
        Row(x.rows),
    )
    sums = Rows(f"{y.rows.name}_sums", y.rows.count, outputs, c_type="int32_t")
    after = tuple(work.values[rows].rows for rows in step.after)
    work.emit(step, "dots", Row(sums), reads, inputs, outputs, inputs, multiply_adds=step.multiply_adds, after=after)
    work.values[y.rows] = Value(sums, x.scale * size, bias=reads[1].name)
    for reader in work.readers.get(y.rows, []):
        if reader.kernel == "attend_row" and y.rows in reader.wholes_read:
            values(work, step, y.rows, reader)
    work.complete(y.rows, step)
    return True


def keys(work: Quantiser, step: Any) -> bool:
    (columns,), (k, turn) = step.writes, step.reads
    sums, scale = work.value(k.rows), work.channels(k.rows) / 127
    rows = Rows(k.rows.name, k.rows.count + k.rows.count % 2, k.rows.width, c_type="int8_t")
    multiplier = work.multiplier(sums, scale, k.rows.name)
    work.emit(step, "keys", Whole(rows), (multiplier, Row(sums.rows), turn), k.rows.width)
    work.values[columns.rows] = work.values[k.rows] = Value(rows, scale)
    return True


def values(work: Quantiser, step: Any, v: Rows, reader: Any) -> None:
    T, H, D, _ = reader.sizes
    sums, scale = work.value(v), work.channels(v) / 127
    rows = Rows(v.name, H * (D + D % 2), T, c_type="int8_t")
    multiplier = work.multiplier(sums, scale, v.name)
    work.emit(step, "values", Whole(rows), (multiplier, Row(sums.rows), Turn()), T, H, D)
    work.values[v] = Value(rows, scale)


def attend(work: Quantiser, step: Any) -> bool:
    """Queries so scaled that 2^shift of a score double an attention weight."""
    (z, *_), (q, columns, v) = step.writes, step.reads
    T, H, D, scale = step.sizes
    if T > MOST or D >= MOST:
        raise EngineError(
            f"int8: {step.layer} has {T} tokens and heads of width {D}, expected at most {MOST} and {MOST - 1}; "
            "keep it float"
        )
    doubling = work.values[columns.rows].scale * scale * log2(e)
    shift = floor(log2(32767 / HEADROOM / (work.channels(q.rows) * doubling).max()))
    shift = min(max(shift, int8.EXP2_BITS), 24)
    sums, query = work.value(q.rows), Value(work.rows(q.rows), 1 / (doubling * 2.0**shift))
    work.emit(
        step, "requantise", Row(query.rows), (work.multiplier(sums, query.scale, q.rows.name), Row(sums.rows)), H * D
    )
    work.values[q.rows] = query
    made = Value(work.rows(z.rows), work.row_scale(z.rows))
    weight = work.values[v.rows].scale / made.scale * 2.0**20
    if weight.max() >= 2**31:
        raise EngineError(f"int8: {z.rows.name} is too small beside {v.rows.name}; keep {step.layer} float")
    room = (
        Row(Rows(f"{step.layer}.scores", T, max(T, D), c_type="int32_t")),
        Row(Rows(f"{step.layer}.powers", T, T, c_type="int16_t")),
    )
    reads = (
        work.table(f"{z.rows.name}_multiplier", weight, np.int32),
        Row(query.rows),
        Whole(work.values[columns.rows].rows),
        Whole(work.values[v.rows].rows),
    )
    work.emit(step, "attend", Row(made.rows), reads, T, H, D, shift, room=room, multiply_adds=step.multiply_adds)
    work.values[z.rows] = made
    return True


def activation(work: Quantiser, step: Any) -> bool:
    y, (x,) = step.writes[0].rows, step.rows_read
    sums = work.value(x)
    if not sums.is_sums:
        return False
    scale, made = work.channels(x).max(keepdims=True) / 127, Value(work.rows(y), work.row_scale(y))
    found, _ = ACTIVATIONS[step.kernel].forward(None, jnp.asarray(np.arange(-128, 128) * scale, jnp.float32))
    table = work.table(f"{step.layer}.table", np.asarray(found, np.float64) / made.scale, np.int16)
    work.emit(step, "lookup", Row(made.rows), (table, work.multiplier(sums, scale, x.name), Row(sums.rows)), y.width)
    work.values[y] = made
    return True


def relu(work: Quantiser, step: Any) -> bool:
    (y,), (x,) = step.writes, step.rows_read
    value = work.scaled_row(x, step)
    made = value._replace(rows=work.rows(y.rows))
    work.emit(step, "relu", Row(made.rows), (Row(value.rows),), x.width, in_place=True)
    work.values[y.rows] = made
    return True


def residual(work: Quantiser, step: Any) -> bool:
    """Sums are added where they are brought to the scale of the stream."""
    (y,), (first, second) = step.writes, step.reads
    made = Value(work.rows(y.rows), work.row_scale(y.rows))

    def operand(one: Any) -> Row | Weight:
        if isinstance(one, Weight):
            return work.table(one.name, work.weights[one.name] / made.scale, np.int16, one.by_row)
        return Row(work.scaled_row(one.rows, step).rows)

    for one, other in ((second, first), (first, second)):
        if isinstance(one, Row) and work.value(one.rows).is_sums:
            sums, base = work.value(one.rows), operand(other)
            multiplier = work.multiplier(sums, made.scale, one.rows.name)
            in_place = isinstance(base, Row)
            work.emit(
                step,
                "requantise_add",
                Row(made.rows),
                (base, multiplier, Row(sums.rows)),
                y.rows.width,
                in_place=in_place,
            )
            break
    else:
        work.emit(step, "add", Row(made.rows), (operand(first), operand(second)), y.rows.width, in_place=True)
    work.values[y.rows] = made
    return True


def norm(work: Quantiser, step: Any) -> bool:
    (y,), (gain, bias, source), (width, eps) = step.writes, step.reads, step.sizes
    x, made = work.row(source.rows, step), Value(work.rows(y.rows), work.row_scale(y.rows))
    found = work.weights[gain.name] / made.scale * 2.0**16
    if np.abs(found).max() >= 2**31:
        raise EngineError(f"int8: {y.rows.name} is too small beside the gain; keep {step.layer} float")
    reads = (
        work.table(gain.name, found, np.int32),
        work.table(bias.name, (work.weights[bias.name] / made.scale).clip(-(2**30), 2**30), np.int32),
        Row(x.rows),
    )
    least = max(1, min(round(float(eps * (width / x.scale[0]) ** 2)), 2**60))
    work.emit(step, "norm", Row(made.rows), reads, width, least, in_place=True, cheap=True)
    work.values[y.rows] = made
    return True


def pool(work: Quantiser, step: Any) -> bool:
    (y,), (source, turn), (T, width) = step.writes, step.reads, step.sizes
    x = work.row(source.rows, step)
    if x.offset:
        return False
    sums = Rows(f"{y.rows.name}_sums", 1, width, c_type="int32_t")
    work.emit(step, "pool", Whole(sums), (Row(x.rows), turn), width)
    work.values[y.rows] = Value(sums, x.scale / (4 * T))
    return True


def token(work: Quantiser, step: Any) -> bool:
    """A class token, in front of what lies behind it already."""
    (y,), (weight,), (width,) = step.writes, step.reads, step.sizes
    made = work.base(y.rows)
    table = work.table(weight.name, work.weights[weight.name] / made.scale, np.int16)
    work.emit(step, "copy", Whole(made.rows), (table,), width)
    return True


Handler = Callable[[Quantiser, Any], bool]  # False: the step stays float
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
