"""Whether values are split over several devices. Then axes that lie on different ones are not joined."""

from math import prod

import jax

BATCH = ("data", "fsdp")  # the axes of a mesh over which a batch is split (train/placement.py)


def is_sharded() -> bool:
    """While a program for a mesh of devices is traced (`jax.set_mesh`)."""
    return not jax.sharding.get_abstract_mesh().empty


def batch_parts(batch: int) -> int:
    """Into how many parts a batch of this size is split; 1 on one device."""
    sizes = jax.sharding.get_abstract_mesh().shape
    parts = prod(sizes.get(axis, 1) for axis in BATCH)
    return 1 if batch % parts else parts
