"""From a model's structure to an ONNX graph: a layer that has an entry is taken whole, any other by its parts.

Values are known by their names in the graph. A weight keeps its own, `blocks.0.attn.w_q`; what a layer computes is
named after the layer, `blocks.0.attn.pattern`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import numpy as np

from glassformer import registry
from glassformer.errors import EngineError
from glassformer.names import last_word
from glassformer.structure import Node, Sum, Value


class Graph:
    """An ONNX graph while it is written."""

    def __init__(self, weights: Mapping[str, Any], others: Iterable[str] = (), *, any_length: bool = False) -> None:
        """`others` are the names of inputs and outputs: nothing else is called so."""
        self.weights = weights
        self.any_length = any_length  # whether sequences may be shorter than those that the structure was made of
        self.nodes: list[Any] = []
        self.arrays: dict[str, np.ndarray] = {}  # the weights and constants that are read, by name
        self.shared: dict[Any, str] = {}  # what several layers read and one has made
        self._names: dict[Value, str] = {}
        self._taken = {*weights, *others}
        self._scope = ""

    def op(self, kind: str, *inputs: str, name: str = "", outputs: int = 1, **attributes: Any) -> Any:
        """A node; what it makes is called `name` inside its layer. Returns its name, or of several outputs their names.

        Inputs are names; attributes are those of the ONNX operator.
        """
        from onnx import helper

        made = [self._new(name or kind) for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, made, name=made[0], **attributes))
        return made[0] if outputs == 1 else made

    def constant(self, value: Any, name: str) -> str:
        """The same numbers are kept once. Whole numbers are shapes and axes: int64, as ONNX has them."""
        array = np.asarray(value)
        array = array.astype(np.int64 if np.issubdtype(array.dtype, np.integer) else np.float32)
        return self.once((array.shape, array.dtype.str, array.tobytes()), lambda: self._keep(array, name))

    def once(self, key: Any, make: Any) -> str:
        """What `make` returns, made for the first that asks."""
        if key not in self.shared:
            self.shared[key] = make()
        return self.shared[key]

    def know(self, values: Any, names: Any) -> None:
        """Give values their names in the graph: both in the same form."""
        self._names.update(zip(jax.tree.leaves(values), jax.tree.leaves(names), strict=True))

    def named(self, values: Any) -> Any:
        """The names of values, in the same form; a weight is put into the graph when it is first read."""
        return jax.tree.map(self._name, values)

    def layer(self, part: Node | Sum, x: Any = None) -> Any:
        """Write what a layer computes, and return the names of its results. Without x, its input is known already."""
        if isinstance(part, Sum):
            name = last_word(part.y.names[0]) if part.y.names else "sum"
            self.know(part.y, self.op("Add", *self.named((part.a, part.b)), name=name))
            return self.named(part.y)
        if x is not None:
            self.know(part.x, x)
        entry, kind = registry.onnx_of(type(part.layer)), type(part.layer).__name__
        if entry is None and part.glue:
            raise EngineError(
                f"ONNX export has no {kind} yet ({part.name or 'the model'}); docs/own-models.md says how to add it"
            )
        outer, self._scope = self._scope, part.name
        if entry is None:
            for inner in part.parts:
                self.layer(inner)
        else:
            self.know(part.y, entry(self, part, self.named(part.x)))
        self._scope = outer
        return self.named(part.y)

    def finish(self, last: str, name: str) -> None:
        """Call the last result `name`."""
        for node in self.nodes:
            node.input[:] = [name if one == last else one for one in node.input]
            node.output[:] = [name if one == last else one for one in node.output]

    def _name(self, value: Value) -> str:
        if value in self._names:
            return self._names[value]
        if value.param:
            self._names[value] = value.param
            self.arrays[value.param] = np.asarray(self.weights[value.param], np.float32)
        elif added := _added_axes(value):
            (read,) = value.origin.read  # pyright: ignore[reportOptionalMemberAccess]
            self._names[value] = self.op("Unsqueeze", self._name(read), self.constant(added, "axes"), name="mask")
        else:
            made = f"made by {value.origin.primitive}" if value.origin else "made in Python"
            raise EngineError(f"ONNX export has no {value.dtype} of shape {value.shape} {made} yet (in {self._scope})")
        return self._names[value]

    def _keep(self, array: np.ndarray, name: str) -> str:
        name = self._new(name)
        self.arrays[name] = array
        return name

    def _new(self, name: str) -> str:
        free = full = f"{self._scope}.{name}" if self._scope else name
        number = 1
        while free in self._taken:
            number += 1
            free = f"{full}_{number}"
        self._taken.add(free)
        return free


def _added_axes(value: Value) -> list[int]:
    """Where a mask has axes of 1 that what it was made of has not; empty where more was done to it."""
    if value.origin is None or value.origin.primitive != "broadcast_in_dim":
        return []
    kept = value.origin.settings["broadcast_dimensions"]
    added = [axis for axis in range(len(value.shape)) if axis not in kept]
    sizes = [1 if axis in added else value.origin.read[0].shape[kept.index(axis)] for axis in range(len(value.shape))]
    return added if tuple(sizes) == value.shape else []
