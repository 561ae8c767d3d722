"""Blocks of tokens: cut a long sequence into pieces of one size, and put them side by side again."""

import jax.numpy as jnp

from glassformer.shapes import Array, Float, Integer


def cut(x: Float[Array, "*N T D"], size: int, axis: int = -2) -> Float[Array, "_ *N _ D"]:
    """(N, T, D) -> (blocks, N, size, D); the last block is padded with zeros (False)."""
    at, count = axis % x.ndim, -(-x.shape[axis] // size)
    blocks = fill(x, count * size, axis).reshape(*x.shape[:at], count, size, *x.shape[at + 1 :])
    return jnp.moveaxis(blocks, at, 0)


def joined(blocks: Float[Array, "_ *N _ D"], tokens: int) -> Float[Array, "*N T D"]:
    """Undo `cut`: without the padding of the last block."""
    x = jnp.moveaxis(blocks, 0, -3)
    return x.reshape(*x.shape[:-3], -1, x.shape[-1])[..., :tokens, :]


def fill(x: Float[Array, "*N T D"], tokens: int, axis: int = -2) -> Float[Array, "*N _ D"]:
    return jnp.pad(x, [(0, tokens - size if i == axis % x.ndim else 0) for i, size in enumerate(x.shape)])


def places(tokens: int, size: int) -> Integer[Array, "_ _"]:
    """Where each token of each block stands in the sequence."""
    count = -(-tokens // size)
    return jnp.arange(count * size).reshape(count, size)
