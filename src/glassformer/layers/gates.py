"""What recurrent layers share: their state, the projections of all gates at once, and how weights are initialised."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.layers.linear import project, project_backward
from glassformer.shapes import Array, Float, Key


class State(NamedTuple):
    """What a recurrent layer remembers between two tokens."""

    h: Float[Array, "B O"]
    c: Float[Array, "B O"] | None = None  # the memory cell of an LSTM


def zero_state(batch: int, width: int, dtype: Any = None, *, cell: bool = False) -> State:
    """What every sequence starts from."""
    zero = jnp.zeros((batch, width), dtype)
    return State(h=zero, c=zero if cell else None)


def project_gates(
    x: Float[Array, "*B I"], w: Float[Array, "I _ O"], b: Float[Array, "_ O"] | None
) -> Float[Array, "*B _ O"]:
    """x @ w + b for every gate: one product, whatever their number."""
    b = None if b is None else joined(b)
    return project(x, joined(w), b).reshape(*x.shape[:-1], *w.shape[1:])


def project_gates_backward(
    x: Float[Array, "*B I"], w: Float[Array, "I _ O"], b: Float[Array, "_ O"] | None, dy: Float[Array, "*B _ O"]
) -> tuple[Float[Array, "*B I"], Float[Array, "I _ O"], Float[Array, "_ O"] | None]:
    """The gradients of `project_gates`: (dx, dw, db)."""
    dx, dw, db = project_backward(x, joined(w), None if b is None else joined(b), joined(dy))
    return dx, dw.reshape(w.shape), None if db is None else db.reshape(w.shape[1:])


def joined(gates: Float[Array, "*B _ O"]) -> Float[Array, "*B _"]:
    """All gates in one row."""
    return gates.reshape(*gates.shape[:-2], -1)


def uniform(key: Key, *shape: int, width: int) -> Float[Array, "..."]:
    """Uniform in ±1 / sqrt(width), as PyTorch starts its recurrent layers."""
    return jax.random.uniform(key, shape, minval=-(width**-0.5), maxval=width**-0.5)
