"""Whether values are split over several devices. Then axes that lie on different ones are not joined."""

import jax


def is_sharded() -> bool:
    """While a program for a mesh of devices is traced (`jax.set_mesh`)."""
    return not jax.sharding.get_abstract_mesh().empty
