"""A table that says how tensors of a Hugging Face file become our parameters, read in either direction.

Ours are (in, out), and every part has a leaf of its own. Theirs may be turned, (out, in), or hold several side by side.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from glassformer.errors import CheckpointError
from glassformer.names import named_leaves, nearest, with_leaves


@dataclass(frozen=True)
class Tensor:
    theirs: str
    ours: tuple[str, ...]  # dotted names; several stand side by side along the last axis
    turned: bool = False  # theirs is the transpose


def linear(theirs: str, w: str, b: str, turned: bool = True) -> list[Tensor]:
    """torch.nn.Linear keeps (out, in); GPT-2's Conv1D keeps (in, out)."""
    return [Tensor(f"{theirs}.weight", (w,), turned), Tensor(f"{theirs}.bias", (b,))]


def norm(theirs: str, ours: str) -> list[Tensor]:
    return [Tensor(f"{theirs}.weight", (f"{ours}.gain",)), Tensor(f"{theirs}.bias", (f"{ours}.bias",))]


def to_theirs(table: Iterable[Tensor], params: Any) -> dict[str, Any]:
    """Our parameters, or their gradients, by the names and in the shapes of theirs."""
    leaves = named_leaves(params)
    joined = {row.theirs: jnp.concatenate([leaves[name] for name in row.ours], axis=-1) for row in table}
    return {row.theirs: joined[row.theirs].T if row.turned else joined[row.theirs] for row in table}


def to_ours(table: Iterable[Tensor], tensors: Mapping[str, Any], model: Any, ignored: Iterable[str] = ()) -> Any:
    """The parameters of `model` from their tensors. One that is missing, left over or of another shape is named.

    `ignored` are the ends of names that may be there and hold nothing of their own: copies, and buffers of old files.
    """
    table = list(table)
    wanted = jax.eval_shape(model.init, jax.random.key(0))
    sizes = named_leaves(wanted)
    leaves: dict[str, Any] = {}
    for row in table:
        if row.theirs not in tensors:
            raise CheckpointError(f"the tensor {row.theirs!r} is missing{nearest(row.theirs, list(tensors))}")
        value = jnp.asarray(tensors[row.theirs])
        shape = (*sizes[row.ours[0]].shape[:-1], sum(sizes[name].shape[-1] for name in row.ours))
        expected = shape[::-1] if row.turned else shape
        if value.shape != expected:
            raise CheckpointError(f"the tensor {row.theirs!r} has shape {value.shape}, the settings say {expected}")
        pieces = jnp.split(value.T if row.turned else value, len(row.ours), axis=-1)
        leaves |= dict(zip(row.ours, pieces, strict=True))
    known = {row.theirs for row in table}
    for name in tensors:
        if name not in known and not name.endswith(tuple(ignored)):
            raise CheckpointError(
                f"the tensor {name!r} has no place in {type(model).__name__}{nearest(name, [*known])}"
            )
    return with_leaves(wanted, leaves)
