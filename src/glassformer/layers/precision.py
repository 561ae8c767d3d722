"""What is wide: means, variances, softmax, losses and gradients of weights are float32 or better, whatever comes in.

Of bfloat16 only eight bits of a sum survive: what sums many numbers does so in float32. Values between layers keep the
type that comes in. In float32 and float64 nothing changes.
"""

import jax.numpy as jnp

from glassformer.shapes import Array, Float


def wide(x: Float[Array, "*B"]) -> Float[Array, "*B"]:
    """At least float32."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def wide_product(x: Float[Array, "I N"], y: Float[Array, "N O"]) -> Float[Array, "I O"]:
    """x @ y, summed and returned at least in float32."""
    return jnp.matmul(x, y, preferred_element_type=jnp.promote_types(jnp.result_type(x, y), jnp.float32))
