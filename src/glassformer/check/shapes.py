"""Declared shapes: every annotation of a layer's signatures, params and cache holds for the arrays that really come."""

import inspect
import typing
from contextlib import nullcontext
from typing import Any

from jaxtyping import jaxtyped

from glassformer.check.draw import Drawn, choices, is_array, is_named_tuple
from glassformer.check.observe import Observed
from glassformer.layers.contract import Layer


def undeclared_shapes(layer: Layer, drawn: Drawn, dy: Any, seen: Observed) -> list[str]:
    """Where an array does not have the shape that its annotation declares; empty when all hold."""
    given = {"params": drawn.params, "x": drawn.x, **drawn.keywords}
    with jaxtyped("context"):  # one context: a letter means the same size in forward and in backward
        return [
            *mismatches(layer, "forward", {**given, "return": (seen.y, seen.cache)}),
            *mismatches(layer, "backward", {"cache": seen.cache, "dy": dy, "return": (seen.dx, seen.dparams)}),
        ]


def mismatches(layer: Layer, method: str, values: dict[str, Any]) -> list[str]:
    hints = typing.get_type_hints(getattr(type(layer), method))
    return [
        wrong for name, value in values.items() for wrong in compare(hints.get(name, Any), value, f"{method}: {name}")
    ]


def compare(annotation: Any, value: Any, where: str, depth: int = 0) -> list[str]:
    if annotation is Any or annotation is inspect.Parameter.empty:
        return []
    if len(choices(annotation)) > 1:
        attempts = [compare(choice, value, where, depth) for choice in choices(annotation)]
        return [] if [] in attempts else attempts[0]
    if annotation is None or annotation is type(None):
        return [] if value is None else [f"{where}: declared None, came {type(value).__name__}"]
    if is_named_tuple(annotation):
        return compare_fields(annotation, value, where, depth)
    if typing.get_origin(annotation) is tuple:
        return compare_tuple(typing.get_args(annotation), value, where, depth)
    if is_array(annotation) and not isinstance(value, annotation):
        came = f"{value.dtype}{list(value.shape)}" if hasattr(value, "shape") else type(value).__name__
        return [f"{where}: declared {annotation.__name__}, came {came}"]
    return []


def compare_fields(annotation: Any, value: Any, where: str, depth: int) -> list[str]:
    if type(value) is not annotation:
        return [f"{where}: declared {annotation.__qualname__}, came {type(value).__name__}"]
    hints = typing.get_type_hints(annotation)
    letters = jaxtyped("context") if depth else nullcontext()  # a part's letters are its own
    with letters:
        return [
            wrong
            for field in annotation._fields
            for wrong in compare(hints[field], getattr(value, field), f"{where}.{field}", depth + 1)
        ]


def compare_tuple(members: tuple[Any, ...], value: Any, where: str, depth: int) -> list[str]:
    if members[-1:] == (...,):
        members = (members[0],) * len(value)
    return [
        wrong
        for i, (member, part) in enumerate(zip(members, value, strict=True))
        for wrong in compare(member, part, f"{where}[{i}]", depth)
    ]
