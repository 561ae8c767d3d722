"""What formulas are made of: the operations and functions of their grammar, on NumPy arrays of one sample.

Heads and gates come first: (H, T, D). A 1-D array is a row. The page has the same table in lens/web/formula.js.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any  # of NumPy


def rows(x: Array) -> Array:
    """A 1-D array is one row."""
    return np.atleast_2d(x)


def turned(x: Array) -> Array:
    return np.swapaxes(rows(x), -1, -2)


def softmax(x: Array) -> Array:
    """Zeros where all is -inf."""
    highest = np.max(x, axis=-1, keepdims=True)
    weight = np.exp(x - np.where(np.isneginf(highest), 0, highest))
    total = weight.sum(axis=-1, keepdims=True)
    return weight / np.where(total == 0, 1, total)


def sum_to(a: Array, b: Array) -> Array:
    return a.sum(axis=tuple(i for i, size in enumerate(np.shape(b)) if size == 1), keepdims=True)


def split(x: Array, heads: float) -> Array:
    return np.moveaxis(x.reshape(len(x), int(heads), -1), 1, 0)


def shifted(x: Array, by: int) -> Array:
    """Along the tokens; zeros come in."""
    kept = np.roll(x, by, axis=-2)
    kept[..., 0 if by > 0 else -1, :] = 0
    return kept


def one_hot(i: Array, size: float) -> Array:
    return np.eye(int(size))[np.asarray(i, int)]


def patches(x: Array, size: float) -> Array:
    size, (height, width, channels) = int(size), x.shape
    cut = x.reshape(height // size, size, width // size, size, channels)
    return cut.transpose(0, 2, 1, 3, 4).reshape(-1, size * size * channels)


def unpatches(y: Array, size: float, width: float) -> Array:
    size, width = int(size), int(width)
    cut = y.reshape(-1, width // size, size, size, y.shape[-1] // size**2)
    return cut.transpose(0, 2, 1, 3, 4).reshape(-1, width, cut.shape[-1])


def angle(place: Array, base: float, width: float) -> Array:
    return place[:, None] / base ** (2 * (np.arange(width) % (width // 2)) / width)


CONSTANTS = {"pi": math.pi}
OPERATIONS: dict[str, Callable[..., Array]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "@": lambda a, b: rows(a) @ rows(b),
    "^": lambda a, b: a**b,
    "T": turned,
    "neg": lambda a: -a,
    "index": lambda a, i: a[np.asarray(i, int)],
}
FUNCTIONS: dict[str, Callable[..., Array]] = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "erf": np.vectorize(math.erf, otypes=[float]),
    "cos": np.cos,
    "sin": np.sin,
    "step": lambda a: (a > 0) * 1.0,  # 1 where positive
    "max": np.maximum,
    "min": np.minimum,
    # along the last axis, which stays with size 1
    "softmax": softmax,
    "sum": lambda a: np.sum(a, axis=-1, keepdims=True),
    "mean": lambda a: np.mean(a, axis=-1, keepdims=True),
    "pick": lambda a, i: np.take_along_axis(a, np.asarray(i, int)[..., None], axis=-1),  # the entry i of each row
    # along the tokens, the axis before the last, which stays with size 1
    "sum_tokens": lambda a: np.sum(rows(a), axis=-2, keepdims=True),
    "mean_tokens": lambda a: np.mean(rows(a), axis=-2, keepdims=True),
    "before": lambda a: shifted(a, 1),  # the value one time earlier; zero at the first
    "later": lambda a: shifted(a, -1),
    "first": lambda a: a[0],
    "rest": lambda a: a[1:],
    "rows": lambda a, count: a[: int(count)],
    "fill": lambda a, count: np.pad(rows(a), ((0, int(count) - len(rows(a))), (0, 0))),  # zeros below
    "concat": lambda a, b: np.concatenate([rows(a), rows(b)]),
    # what may be seen
    "masked": lambda a, m: np.where(m, a, -np.inf),
    # heads and gates, the first axis
    "split": split,  # (T, H*D) -> (H, T, D)
    "join": lambda z: np.moveaxis(z, 0, 1).reshape(z.shape[1], -1),
    "repeat": lambda k, heads: np.repeat(k, int(heads) // len(k), axis=0),
    "group_sum": lambda d, heads: d.reshape(int(heads), -1, *d.shape[1:]).sum(axis=1),
    "sum_heads": lambda a: a.sum(axis=0),
    "stack": lambda *a: np.stack(a),
    # the rest
    "sum_to": sum_to,  # over the axes along which the second was shared
    "column": lambda a: np.asarray(a)[..., None],
    "onehot": one_hot,
    "reshape": lambda a: a.reshape(-1),  # takes the shape of the left side
    "by_bucket": lambda table, bucket: np.moveaxis(table[np.asarray(bucket, int)], -1, 0),
    "bucket_sum": lambda d, bucket, size: np.einsum("hts,tsr->rh", d, one_hot(bucket, size)),
    "patches": patches,
    "unpatches": unpatches,
    "angle": angle,
    "turn": lambda x: np.concatenate([-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]], axis=-1),
}
