"""A table that says how tensors of a Hugging Face file become our parameters, read in either direction.

Ours are (in, out), and every part has a leaf of its own. Theirs may be transposed, or hold several side by side.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.errors import CheckpointError
from glassformer.names import named_leaves, nearest, with_leaves
from glassformer.train.weights import not_finite


@dataclass(frozen=True)
class Tensor:
    theirs: str
    ours: tuple[str, ...]  # dotted names; several stand side by side along the last axis
    transposed: bool = False  # theirs is the transpose
    shape: tuple[int, ...] | None = None  # ours with its axes taken apart, where theirs has more of them
    axes: tuple[int, ...] | None = None  # the axes of `shape` in the order of theirs

    def to_theirs(self, ours: Any) -> Any:
        apart = ours if self.shape is None else ours.reshape(self.shape)
        return apart.T if self.transposed else apart if self.axes is None else apart.transpose(self.axes)

    def to_ours(self, theirs: Any, shape: tuple[int, ...]) -> Any:
        back = None if self.axes is None else tuple(self.axes.index(i) for i in range(len(self.axes)))
        apart = theirs.T if self.transposed else theirs if back is None else theirs.transpose(back)
        return apart.reshape(shape)

    def shape_of_theirs(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        shape = self.shape or shape
        return shape[::-1] if self.transposed else shape if self.axes is None else tuple(shape[i] for i in self.axes)


def linear(theirs: str, w: str, b: str, transposed: bool = True) -> list[Tensor]:
    """torch.nn.Linear keeps (out, in); GPT-2's Conv1D keeps (in, out)."""
    return [Tensor(f"{theirs}.weight", (w,), transposed), Tensor(f"{theirs}.bias", (b,))]


def norm(theirs: str, ours: str) -> list[Tensor]:
    return [Tensor(f"{theirs}.weight", (f"{ours}.gain",)), Tensor(f"{theirs}.bias", (f"{ours}.bias",))]


def to_theirs(table: Iterable[Tensor], params: Any) -> dict[str, Any]:
    """Our parameters, or their gradients, by the names and in the shapes of theirs."""
    leaves = named_leaves(params)
    return {row.theirs: row.to_theirs(jnp.concatenate([leaves[name] for name in row.ours], axis=-1)) for row in table}


def to_ours(
    table: Iterable[Tensor],
    tensors: Mapping[str, Any],
    model: Any,
    ignored: Iterable[str] = (),
    copies: Mapping[str, str] = {},
) -> Any:
    """The parameters of `model` from their tensors. One that is missing, left over or of another shape is named.

    `ignored` are the ends of names that may be there and hold nothing of their own, such as buffers of old files.
    `copies` may be there as well: the ends of their names, and the tensor that each must be equal to.
    The values need only a shape until all are known to fit, and are then read one by one.
    """
    table = list(table)
    must_match(table, tensors, type(model).__name__, (*ignored, *copies))
    wanted = jax.eval_shape(model.init, jax.random.key(0))
    leaves = named_leaves(wanted)
    shapes = {row.theirs: side_by_side([leaves[name].shape for name in row.ours]) for row in table}
    for row in table:
        came, expected = tuple(tensors[row.theirs].shape), row.shape_of_theirs(shapes[row.theirs])
        if came != expected:
            raise CheckpointError(f"the tensor {row.theirs!r} has shape {came}, the settings say {expected}")
    must_be_copies(tensors, copies)
    bad = []
    for row in table:
        theirs = jnp.asarray(tensors[row.theirs])
        bad += [] if jnp.isfinite(theirs).all() else [row.theirs]
        joined = row.to_ours(theirs, shapes[row.theirs])
        leaves |= dict(zip(row.ours, jnp.split(joined, len(row.ours), axis=-1), strict=True))
    if bad:
        raise CheckpointError(f"{not_finite(bad, len(table))}; copy the file again, or take another checkpoint")
    return with_leaves(wanted, leaves)


def must_match(table: list[Tensor], tensors: Mapping[str, Any], model: str, ignored: tuple[str, ...]) -> None:
    known = {row.theirs for row in table}
    for row in table:
        if row.theirs not in tensors:
            raise CheckpointError(f"the tensor {row.theirs!r} is missing{nearest(row.theirs, list(tensors))}")
    for name in tensors:
        if name not in known and not name.endswith(ignored):
            raise CheckpointError(f"the tensor {name!r} has no place in {model}{nearest(name, [*known])}")


def must_be_copies(tensors: Mapping[str, Any], copies: Mapping[str, str]) -> None:
    """transformers 5 does not tie tensors that differ, whatever the config says; earlier releases do."""
    for end, original in copies.items():
        for name in (name for name in tensors if name.endswith(end) and name != original):
            if not np.array_equal(np.asarray(tensors[name]), np.asarray(tensors[original])):
                raise CheckpointError(
                    f"the tensor {name!r} is there and differs from {original!r}, to which the config ties it; "
                    "set tie_word_embeddings to false, or remove it"
                )


def side_by_side(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    return *shapes[0][:-1], sum(shape[-1] for shape in shapes)
