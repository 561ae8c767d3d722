"""What a model is made of and what it costs: one row per part, counted from the computation itself.

Parts and shapes are those of its structure, multiply-adds those of the matrix products that forward and backward really
contain, and the bytes those of the cache: what training keeps from forward for backward, every array counted once.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from html import escape
from itertools import takewhile
from typing import Any

import jax

from glassformer.models.model import Network
from glassformer.names import named_leaves
from glassformer.structure import Node, structure
from glassformer.tables import html_table, text_table

COLUMNS = ("parameters", "forward", "backward", "kept")
HEAD = ("part", "output", "parameters", "multiply-adds forward", "backward", "kept for backward")


@dataclass(frozen=True)
class Part:
    name: str
    shape: tuple[int, ...]  # of what comes out, with the batch
    parameters: int
    forward: int  # multiply-adds per sample
    backward: int
    kept: int  # bytes of cache for the whole batch


@dataclass(frozen=True)
class Summary:
    model: str
    batch: int
    parts: tuple[Part, ...]

    def total(self, column: str) -> int:
        return sum(getattr(part, column) for part in self.parts)

    def as_dict(self) -> dict[str, Any]:
        totals = {column: self.total(column) for column in COLUMNS}
        return {**asdict(self), "total": totals}

    def rows(self) -> list[list[str]]:
        return [
            [part.name, "x".join(map(str, part.shape)), *(counted(getattr(part, column)) for column in COLUMNS)]
            for part in self.parts
        ]

    def total_row(self) -> list[str]:
        return ["total", "", *(f"{self.total(column):,}" for column in COLUMNS)]

    def note(self) -> str:
        return f"output and bytes (float32) for a batch of {self.batch}; multiply-adds per sample"

    def table(self) -> str:
        """The summary as aligned text."""
        return "\n".join([self.model, *text_table(HEAD, self.rows(), left=2, total=self.total_row()), self.note()])

    def html(self) -> str:
        """The same for notebooks."""
        table = html_table(HEAD, self.rows(), left=2, total=self.total_row(), caption=self.note())
        return f"<code>{escape(self.model)}</code>{table}"


def summarise(model: Network, batch: int = 1) -> Summary:
    """Trace the model, without computing anything, and count."""
    params = jax.eval_shape(model.init, jax.random.key(0))
    forward, (y, cache) = jax.make_jaxpr(model.forward, return_shape=True)(params, model.example(batch))
    backward = jax.make_jaxpr(model.backward)(params, cache, y)
    parts = parts_of(structure(model, model.example(batch)))
    names = list(parts)
    parameters = sum_by_part(((name, math.prod(leaf.shape)) for name, leaf in named_leaves(params).items()), names)
    forward_macs = sum_by_part(multiply_adds(forward.jaxpr), names)
    backward_macs = sum_by_part(multiply_adds(backward.jaxpr), names)
    kept = sum_by_part(cache_bytes(cache, forward.jaxpr), names)
    return Summary(
        model=repr(model),
        batch=batch,
        parts=tuple(
            Part(
                name=name,
                shape=jax.tree.leaves(parts[name].y)[0].shape,
                parameters=parameters[name],
                forward=forward_macs[name] // batch,
                backward=backward_macs[name] // batch,
                kept=kept[name],
            )
            for name in names
        ),
    )


def parts_of(node: Node) -> dict[str, Node]:
    """The layers that compute something themselves, by name and in order."""
    found: dict[str, Node] = {}
    for part in node.parts:
        if not isinstance(part, Node) or part.y is part.x:  # dropout in evaluation
            continue
        found |= parts_of(part) if part.is_composite else {part.name: part}
    return found


def sum_by_part(amounts: Iterable[tuple[str, int]], parts: list[str]) -> dict[str, int]:
    """Add each named amount to the innermost part that contains it; what a container keeps, to its first part."""
    sums = dict.fromkeys(parts, 0)
    for name, amount in amounts:
        inside = [part for part in parts if f"{name}.".startswith(f"{part}.")]
        sums[max(inside, key=len) if inside else max(parts, key=lambda part: shared_words(part, name))] += amount
    return sums


def shared_words(a: str, b: str) -> int:
    """
    >>> shared_words("blocks.0.norm1", "blocks.0.given.x")
    2
    """
    same = (left == right for left, right in zip(a.split("."), b.split("."), strict=False))
    return sum(takewhile(bool, same))


def cache_bytes(cache: Any, jaxpr: Any) -> Iterator[tuple[str, int]]:
    """Bytes by name. An array that two layers keep (what one puts out, the next takes in) is counted once."""
    leaves = named_leaves(cache)
    variables = jaxpr.outvars[len(jaxpr.outvars) - len(leaves) :]  # y comes first
    seen: set[int] = set()
    for (name, leaf), variable in zip(leaves.items(), variables, strict=True):
        if id(variable) not in seen:
            yield name, math.prod(leaf.shape) * leaf.dtype.itemsize
        seen.add(id(variable))


def multiply_adds(jaxpr: Any, outer: str = "") -> Iterator[tuple[str, int]]:
    """Every matrix product, also inside jitted functions and loops: the scopes it stands in, and its multiply-adds."""
    for equation in jaxpr.eqns:
        where = outer + str(equation.source_info.name_stack).replace("/", ".") + "."
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            left, result = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
            yield where, math.prod(result) * math.prod(left[axis] for axis in contracted)
        times = equation.params["length"] if equation.primitive.name == "scan" else 1
        for value in equation.params.values():
            for one in value if isinstance(value, tuple) else (value,):  # the branches of a choice
                inner = getattr(one, "jaxpr", one)  # of a jitted function
                if hasattr(inner, "eqns"):
                    yield from ((name, times * amount) for name, amount in multiply_adds(inner, where))


def counted(number: int) -> str:
    return f"{number:,}" if number else "-"
