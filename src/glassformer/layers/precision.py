"""What is wide: means, variances, softmax, losses and gradients of weights are float32 or better, whatever comes in.

Of bfloat16 only eight bits of a sum survive: what sums many numbers does so in float32. Values between layers keep the
type that comes in. In float32 and float64 nothing changes.
"""

from typing import Any

import jax.numpy as jnp
from jax import lax

from glassformer.shapes import Array, Float


def wide(x: Float[Array, "*B"]) -> Float[Array, "*B"]:
    """At least float32."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def wide_product(x: Float[Array, "I N"], y: Float[Array, "N O"]) -> Float[Array, "I O"]:
    """x @ y, summed and returned at least in float32."""
    return jnp.matmul(x, y, preferred_element_type=jnp.promote_types(jnp.result_type(x, y), jnp.float32))


def is_narrow(dtype: Any) -> bool:
    return jnp.promote_types(dtype, jnp.float32) != dtype


def as_stored(x: Float[Array, "*B"], dtype: Any) -> Float[Array, "*B"]:
    """The same value; where activations are narrow, one in which the compiler does not see how it was made.

    What is made of it in backward is then computed there, not kept from forward; and it is itself not computed twice.
    Left to itself, XLA keeps wide values between forward and backward, and writing and reading them takes longer.
    """
    return lax.optimization_barrier(x) if is_narrow(dtype) else x
