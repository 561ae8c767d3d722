"""int8 inference in NumPy, bit for bit what the C kernels compute: `dots` here is `int8_dots` in c/int8_dots.h.

A row (one token) is int16, q standing for q * scale; weights, keys and values are int8. Products add up exactly in
int32, and one multiplication brings a sum to the scale of what is made of it. All functions take any number of leading
axes, samples and tokens, where C takes one row; where C stores values transposed, this does not.
"""

from typing import NamedTuple

import numpy as np

Array = np.ndarray

EXP2_BITS = 7
EXP2 = np.round(32767 * 2.0 ** -(np.arange(1 << EXP2_BITS) / (1 << EXP2_BITS))).astype(np.int64)


def multiply(a: Array, b: Array) -> Array:
    """a * b / 2^32, rounded down."""
    return (a.astype(np.int64) * b) >> 32


def saturate16(a: Array) -> Array:
    return np.clip(a, -32768, 32767).astype(np.int16)


def saturate8(a: Array) -> Array:
    return np.clip(a, -128, 127).astype(np.int8)


def dots(w: Array, bias: Array | None, x: Array) -> Array:
    """Sums of rows x (I) with each row of w (O, I)."""
    # whole numbers below 2^53 are exact in float64, and its matrix product is the fast one
    found = (x.astype(np.float64) @ np.swapaxes(w, -1, -2).astype(np.float64)).astype(np.int32)
    return found if bias is None else found + bias


def paired(w: Array) -> Array:
    """Rows of int8 as they lie in C: two at a time, their numbers taking turns."""
    even = np.pad(w, ((0, len(w) % 2), (0, 0)))
    return even.reshape(len(even) // 2, 2, -1).swapaxes(1, 2).reshape(-1)


def unpaired(w: Array, outputs: int) -> Array:
    """(O, I) again."""
    return w.reshape(-(-outputs // 2), -1, 2).swapaxes(1, 2).reshape(-(-outputs // 2) * 2, -1)[:outputs]


def requantise(multiplier: Array, sums: Array) -> Array:
    return saturate16(multiply(sums, multiplier))


def requantise_add(base: Array, multiplier: Array, sums: Array) -> Array:
    return saturate16(base + multiply(sums, multiplier))


def keys(multiplier: Array, sums: Array) -> Array:
    return saturate8(multiply(sums, multiplier))


values = keys  # C writes them transposed


def lookup(table: Array, multiplier: Array, sums: Array) -> Array:
    return table[saturate8(multiply(sums, multiplier)).astype(np.intp) + 128]


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def add(a: Array, b: Array) -> Array:
    return saturate16(a.astype(np.int32) + b)


def pool(x: Array) -> Array:
    """Four times the sum of rows."""
    return 4 * x.sum(axis=-2, dtype=np.int32)


class Root(NamedTuple):
    """1 / sqrt(n) = mantissa / 2^(46 + half)."""

    mantissa: Array  # 2^30 to 2^31 - 1
    half: Array


def inverse_root(n: Array) -> Root:
    m, half = n.astype(np.uint64), np.zeros(n.shape, np.int64)
    while (large := m >= 1 << 32).any():
        m, half = np.where(large, m >> np.uint64(2), m), half + large
    while (small := m < 1 << 30).any():
        m, half = np.where(small, m << np.uint64(2), m), half - small
    y = 2287070085 - ((m * np.uint64(1307280671)) >> np.uint64(32))
    for _ in range(3):
        square = (y * y) >> np.uint64(32)
        y = (y * ((3 << 28) - ((square * m) >> np.uint64(32)))) >> np.uint64(29)
    return Root(np.minimum(y, 0x7FFFFFFF).astype(np.int64), half)


def norm(gain: Array, bias: Array, x: Array, eps: int) -> Array:
    C, x = x.shape[-1], x.astype(np.int64)
    total = x.sum(axis=-1, keepdims=True)
    root = inverse_root(C * (x * x).sum(axis=-1, keepdims=True) - total * total + eps)
    centred = (C * x - total << np.maximum(2 - root.half, 0)) >> np.maximum(root.half - 2, 0)
    return saturate16(multiply(multiply(centred, root.mantissa), gain) + bias)


def softmax(scores: Array, shift: int) -> Array:
    """Powers of two; their sum is the total by which `divide` divides."""
    below = scores.max(axis=-1, keepdims=True).astype(np.int64) - scores
    powers = EXP2[below >> (shift - EXP2_BITS) & ((1 << EXP2_BITS) - 1)]
    return (powers >> np.minimum(below >> shift, 16)).astype(np.int16)


def divide(multiplier: Array, sums: Array, total: Array) -> Array:
    root = inverse_root(total)
    inverse = np.minimum(root.mantissa * root.mantissa >> 31, 0x7FFFFFFF)
    shift = 17 + 2 * root.half
    mean = (multiply(sums, inverse) + (1 << (shift - 1))) >> shift
    return saturate16(multiply(mean, multiplier))


def attend(multiplier: Array, q: Array, k: Array, v: Array, heads: int, shift: int) -> Array:
    """z (…, T, C) of q, k and v (…, T, C)."""

    def split(x: Array) -> Array:
        return x.reshape(*x.shape[:-1], heads, -1).swapaxes(-2, -3)

    powers = softmax(dots(split(k), None, split(q)), shift)
    sums = dots(split(v).swapaxes(-1, -2), None, powers)
    total = powers.sum(axis=-1, dtype=np.int64, keepdims=True)
    z = divide(multiplier.reshape(heads, 1, -1), sums, total)
    return z.swapaxes(-2, -3).reshape(q.shape)


def bytes(x: Array) -> Array:
    return x.astype(np.int16) * np.int16(128)


def patch(x: Array, size: int) -> Array:
    """Rows of images (…, Y, X, G), one for each patch."""
    *N, Y, X, G = x.shape
    cut = x.reshape(*N, Y // size, size, X // size, size, G).swapaxes(-3, -4)
    return bytes(cut.reshape(*N, Y // size * (X // size), -1))


def quantise(x: Array, factor: float) -> Array:
    twice = x.astype(np.float32) * np.float32(factor)
    whole = np.where(twice > -65536, np.where(twice < 65534, twice, 65534), -65536).astype(np.int32)
    return np.trunc((whole + np.where(whole < 0, -1, 1)) / 2).astype(np.int16)


def dequantise(x: Array, scale: float) -> Array:
    return x.astype(np.float32) * np.float32(scale)


def dequantise_sums(scale: Array, sums: Array) -> Array:
    return sums.astype(np.float32) * scale.astype(np.float32)
