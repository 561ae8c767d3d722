"""The whole model in one picture: its layers along the residual stream, read off `structure(model)`.

through   layers that the stream runs through, up to one that has weights: patches, patch; norm; pool, head
adds      layers that read the stream and add to it: resid_mid = resid_pre + attn(norm1(resid_pre))
group     a block, an encoder: lines of its own

Values are given by their names: the page has their numbers, and works out how large an addition is beside its stream.
"""

from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

import jax

from glassformer.formulas import docstring
from glassformer.lens.residual_stream import is_idle
from glassformer.lens.steps import where
from glassformer.lens.trace import Trace
from glassformer.lens.trace_input import TraceInput
from glassformer.models.model import Network
from glassformer.names import gradient_name
from glassformer.structure import Node, Sum, Value, structure

Line = dict[str, Any]


def overview_of(traced: Trace, given: TraceInput) -> list[Line]:
    """The lines of a model, in the order of forward; of a layer without an example of a batch, on the input."""
    model = traced.model
    node = structure(model) if isinstance(model, Network) else structure(model, given.x, **given.keywords)
    return Reader(traced).lines(node)


class Reader:
    """Turns the parts of a composite layer into lines."""

    def __init__(self, traced: Trace) -> None:
        self.traced = traced

    def lines(self, node: Node) -> list[Line]:
        found: list[Line] = []
        waiting: list[Node] = []  # parts that no line shows yet
        made: dict[int, int] = {}  # value -> how many parts came before the one that made it
        for part in boxes_and_groups(node):
            for value in jax.tree.leaves(part.y):
                made.setdefault(id(value), len(made))
            if isinstance(part, Node):
                waiting.append(part)
                continue
            stream, added = sorted((part.a, part.b), key=lambda value: made.get(id(value), -1))
            branch = before(added, waiting, stream)
            ready = before(stream, waiting)
            found += self.through([one for one in waiting if one in ready and one not in branch])
            waiting = [one for one in waiting if one not in ready and one not in branch]
            found.append(self.adds(part, branch, stream, added))
        return found + self.through(waiting)

    def through(self, parts: Iterable[Node]) -> list[Line]:
        found: list[Line] = []
        for part in parts:
            if has_sums(part):
                lines = self.lines(part)
                found += lines if len(lines) == 1 else [self.group(part, lines)]
                continue
            box = self.box(part)
            ahead = found.pop()["boxes"] if found and is_weightless(found[-1]) else []
            found.append({"kind": "through", "boxes": [*ahead, box], "y": box["y"], "gradient": box["gradient"]})
        return found

    def group(self, part: Node, lines: list[Line]) -> Line:
        about = docstring(type(part.layer)).partition("\n")[0]
        return {
            "kind": "group",
            "id": part.name,
            "name": where(part.name.split(".")).rpartition(" · ")[2],
            "title": about.partition(":")[0] or type(part.layer).__name__,
            "about": about,
            "parameters": parameters(part),
            "lines": lines,
        }

    def adds(self, part: Sum, branch: list[Node], stream: Value, added: Value) -> Line:
        return {
            "kind": "adds",
            "boxes": [self.box(one) for one in branch],
            "y": self.name_of(part.y),
            "gradient": self.gradient_of(part.y),
            "stream": self.name_of(stream),
            "added": self.name_of(added),
        }

    def box(self, part: Node) -> Line:
        y: Value = jax.tree.leaves(part.y)[0]
        about = docstring(type(part.layer)).partition("\n")[0]
        return {
            "id": part.name,
            "title": about.partition(":")[0] or type(part.layer).__name__,
            "about": about,
            "layer": type(part.layer).__name__,
            "parameters": parameters(part),
            "shared": shared(part),
            "y": self.name_of(y),
            "gradient": self.gradient_of(y),
        }

    def name_of(self, value: Value) -> str | None:
        return next((name for name in value.names if name in self.traced.values), None)

    def gradient_of(self, value: Value) -> str | None:
        """What arrives at the layer that made it: all of it. A layer that reads it knows its own share alone."""
        return next((d for d in map(gradient_name, value.names) if d in self.traced.gradients), None)


def boxes_and_groups(node: Node) -> Iterator[Node | Sum]:
    """The parts, without dropout that drops nothing; a layer that only puts others in a row is those."""
    for part in node.parts:
        if isinstance(part, Node) and part.is_composite and not has_sums(part) and len(part.parts) > 1:
            yield from boxes_and_groups(part)
        elif not is_idle(part):
            yield part


def has_sums(node: Node) -> bool:
    return any(isinstance(part, Sum) or (part.is_composite and has_sums(part)) for part in node.parts)


def before(value: Value, parts: list[Node], end: Value | None = None) -> list[Node]:
    """Those of the parts that a value is made by, back to another value."""
    wanted, found = {id(value)} - {id(end)}, []
    for part in reversed(parts):
        if any(id(one) in wanted for one in jax.tree.leaves(part.y)):
            found.append(part)
            wanted |= {id(one) for one in jax.tree.leaves((part.x, part.keywords))} - {id(end)}
    return found[::-1]


def is_weightless(line: Line) -> bool:
    return line["kind"] == "through" and not any(box["parameters"] or box["shared"] for box in line["boxes"])


def weights(part: Node) -> dict[str, tuple[int, ...]]:
    return {value.param: value.shape for value in jax.tree.leaves((part.params, part.x)) if value.param}


def parameters(part: Node) -> int:
    """Of its own: a table that two layers read is counted where it stands."""
    return sum(prod(shape) for name, shape in weights(part).items() if name.startswith(f"{part.name}."))


def shared(part: Node) -> list[str]:
    """Weights of another layer that this one reads, too."""
    return [name for name in weights(part) if not name.startswith(f"{part.name}.")]
