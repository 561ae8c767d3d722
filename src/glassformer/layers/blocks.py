"""Blocks of tokens: cut a long sequence into pieces of one size, and put them side by side again."""

import jax.numpy as jnp

from glassformer.shapes import Array, Float, Integer


def cut(x: Float[Array, "N T *D"], size: int) -> Float[Array, "_ N _ *D"]:
    """(N, T, …) -> (blocks, N, size, …); the last block is padded with zeros (False)."""
    count = -(-x.shape[1] // size)
    return jnp.moveaxis(fill(x, count * size).reshape(x.shape[0], count, size, *x.shape[2:]), 1, 0)


def joined(blocks: Float[Array, "_ N _ *D"], tokens: int) -> Float[Array, "N T *D"]:
    """Undo `cut`: without the padding of the last block."""
    x = jnp.moveaxis(blocks, 0, 1)
    return x.reshape(x.shape[0], -1, *x.shape[3:])[:, :tokens]


def fill(x: Float[Array, "N T *D"], tokens: int) -> Float[Array, "N _ *D"]:
    return jnp.pad(x, [(0, tokens - size if axis == 1 else 0) for axis, size in enumerate(x.shape)])


def places(tokens: int, size: int) -> Integer[Array, "_ _"]:
    """Where each token of each block stands in the sequence."""
    count = -(-tokens // size)
    return jnp.arange(count * size).reshape(count, size)
