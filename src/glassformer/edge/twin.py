"""A program of steps in NumPy: the same kernels on the same numbers, of many samples at once.

What int8 kernels give is what they give on a device, bit for bit (int8.py). Layers that stay float are computed in
float32, in another order than in C: the same to about seven digits.
"""

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

import jax
import numpy as np

from glassformer.edge import int8
from glassformer.edge.steps import Operand, Program, Row, Rows, Step, Weight, Whole
from glassformer.layers import GELU, GELUTanh
from glassformer.native.plan import Constant
from glassformer.probabilities import softmax

Array = np.ndarray
Given = tuple[Any, ...]  # what the step reads: arrays (N, rows, width), weights, None where there is nothing
Kernel = Callable[[Any, Given], Array]


def computed(
    program: Program, weights: Mapping[str, Array], samples: Array, layers: Mapping[str, Callable[[Array], Array]]
) -> dict[Rows, Array]:
    """Every value of a program, by its rows: (N, count, width). A layer with C of somebody's own is asked itself."""
    N = len(samples)
    arrays: dict[Rows, Array] = {program.sample: samples}

    def read(used: Operand) -> Any:
        match used:
            case Weight():
                found = weights[used.name]
                return found.reshape(-1, used.by_row) if used.by_row else found
            case Constant():
                return np.asarray(used.values, np.float32)
            case Row() | Whole():
                return rows_of(arrays, used.rows)

    def write(step: Step, y: Array) -> None:
        rows = step.writes[0].rows
        if rows.base is None and step.kernel not in COPIES:
            arrays[rows] = y
        else:  # part of another value
            root = rows.root
            whole = arrays.setdefault(root, np.zeros((N, root.count, root.width), y.dtype)).reshape(N, -1)
            y = np.broadcast_to(y, (N, *y.shape)) if step.kernel in COPIES else y
            whole[:, rows.begin : rows.begin + y[0].size] = y.reshape(N, -1)

    for name, steps in groupby(program.steps, lambda step: step.layer if step.kernel not in KERNELS else None):
        if name is None:
            for step in steps:
                write(step, KERNELS[step.kernel](step, tuple(map(read, step.reads))))
        else:
            own = list(steps)
            first, last = own[0], own[-1]
            given = next(read(one) for one in first.reads if isinstance(one, Row | Whole))
            rows = last.writes[0].rows
            write(last, layers[name](given).reshape(N, rows.count, rows.width))
    return arrays


def rows_of(arrays: Mapping[Rows, Array], rows: Rows) -> Array:
    """A value, which may be part of another one."""
    if rows.base is None:
        return arrays[rows]
    flat = arrays[rows.root].reshape(len(arrays[rows.root]), -1)
    return flat[:, rows.begin : rows.begin + rows.size].reshape(len(flat), rows.count, rows.width)


COPIES = {"int8_copy", "copy_forward"}  # of a weight, into the first row


def dots(step: Any, given: Given) -> Array:
    w, bias, x = given
    _, outputs, _ = step.sizes
    return int8.dots(int8.unpaired(w, outputs), bias, x)


def images(x: Array, columns: Any, channels: Any) -> Array:
    return x.reshape(len(x), -1, columns, channels)


def attend(step: Any, given: Given) -> Array:
    *_, H, _, shift = step.sizes
    multiplier, q, k, v = given
    return int8.attend(multiplier, q, k, v, H, shift)


def float_patch(step: Any, given: Given) -> Array:
    columns, channels, size, factor, offset = step.sizes
    return (int8.patch(images(given[0], columns, channels), size) // 128) * np.float32(factor) - np.float32(offset)


def float_norm(step: Any, given: Given) -> Array:
    gain, bias, x = given
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(step.sizes[1])) * gain + bias


def float_attend(step: Any, given: Given) -> Array:
    q, columns, v = given
    T, H, D, scale = step.sizes

    def split(x: Array) -> Array:
        return x.reshape(len(x), T, H, D).swapaxes(1, 2)

    scores = split(q) @ columns.reshape(len(q), H, D, T) * np.float32(scale)
    return (softmax(scores).astype(np.float32) @ split(v)).swapaxes(1, 2).reshape(q.shape)


def by_layer(layer: Any) -> Kernel:
    return lambda step, given: np.asarray(jax.jit(layer.forward)(None, given[0])[0])


KERNELS: dict[str, Kernel] = {
    "int8_bytes": lambda step, given: int8.bytes(given[0]),
    "int8_patch": lambda step, given: int8.patch(images(given[0], *step.sizes[:2]), step.sizes[2]),
    "int8_copy": lambda step, given: given[0],
    "int8_quantise": lambda step, given: int8.quantise(given[0], step.sizes[1]),
    "int8_dequantise": lambda step, given: int8.dequantise(given[0], step.sizes[1]),
    "int8_dequantise_sums": lambda step, given: int8.dequantise_sums(*given),
    "int8_dots": dots,
    "int8_requantise": lambda step, given: int8.requantise(*given),
    "int8_requantise_add": lambda step, given: int8.requantise_add(*given),
    "int8_keys": lambda step, given: int8.keys(*given[:2]),
    "int8_values": lambda step, given: int8.values(*given[:2]),
    "int8_attend": attend,
    "int8_lookup": lambda step, given: int8.lookup(*given),
    "int8_relu": lambda step, given: int8.relu(*given),
    "int8_add": lambda step, given: int8.add(*given),
    "int8_pool": lambda step, given: int8.pool(given[0])[:, None],
    "int8_norm": lambda step, given: int8.norm(given[0], given[1], given[2], step.sizes[1]),
    "standardise_forward": lambda step, given: given[0] * np.float32(step.sizes[1]) - np.float32(step.sizes[2]),
    "standardise_columns_forward": lambda step, given: (given[2] - given[1]) * given[0],
    "patch_forward": float_patch,
    "copy_forward": lambda step, given: given[0],
    "linear_forward": lambda step, given: given[2] @ given[0] + (0 if given[1] is None else given[1]),
    "layer_norm_row": float_norm,
    "column_forward": lambda step, given: given[0].swapaxes(1, 2),
    "attend_row": float_attend,
    "gelu_forward": by_layer(GELU()),
    "gelu_tanh_forward": by_layer(GELUTanh()),
    "relu_forward": lambda step, given: np.maximum(given[0], 0),
    "residual_forward": lambda step, given: given[0] + given[1],
    "mean_pool_row": lambda step, given: given[0].mean(axis=1, keepdims=True),
}
