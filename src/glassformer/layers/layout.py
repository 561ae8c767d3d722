"""How values lie in memory: in the order of their axes. A compiler for GPUs may choose another, and transpose."""

import jax
from jax.experimental.layout import Layout, with_layout_constraint

from glassformer.layers.sharding import is_sharded
from glassformer.shapes import Array, Float


def in_order(x: Float[Array, "*B"]) -> Float[Array, "*B"]:
    """The same value, its last axis next to each other in memory; says nothing on a CPU.

    Nor on a mesh: XLA would gather the whole value on every device to say it.
    """
    if jax.default_backend() == "cpu" or is_sharded():
        return x
    return with_layout_constraint(x, Layout(tuple(range(x.ndim))))
