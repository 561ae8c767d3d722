"""How values lie in memory: in the order of their axes. A compiler for GPUs may choose another, and turn them."""

import jax
from jax.experimental.layout import Layout, with_layout_constraint

from glassformer.shapes import Array, Float


def in_order(x: Float[Array, "*B"]) -> Float[Array, "*B"]:
    """The same value, its last axis next to each other in memory; says nothing on a CPU."""
    return x if jax.default_backend() == "cpu" else with_layout_constraint(x, Layout(tuple(range(x.ndim))))
