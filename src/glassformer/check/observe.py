"""One run of a layer, forward and backward, with everything it tags on the way."""

from typing import Any, NamedTuple

from glassformer.check.draw import Drawn
from glassformer.errors import ContractError
from glassformer.layers.contract import Layer
from glassformer.names import Visitor, visiting


class Observed(NamedTuple):
    y: Any
    cache: Any
    dx: Any
    dparams: Any
    forward: dict[str, Any]  # tags, in the order they came
    backward: dict[str, Any]


def observe(layer: Layer, drawn: Drawn, dy: Any) -> Observed:
    forward: dict[str, Any] = {}
    backward: dict[str, Any] = {}
    with visiting(seen_once(forward)):
        y, cache = pair(layer, "forward", layer.forward(drawn.params, drawn.x, **drawn.keywords), "(y, cache)")
    with visiting(seen_once(backward)):
        dx, dparams = pair(layer, "backward", layer.backward(drawn.params, cache, dy), "(dx, dparams)")
    return Observed(y=y, cache=cache, dx=dx, dparams=dparams, forward=forward, backward=backward)


def pair(layer: Layer, method: str, result: Any, expected: str) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise ContractError(f"{type(layer).__name__}: {method} returned {type(result).__name__}, expected {expected}")
    return result


def seen_once(into: dict[str, Any]) -> Visitor:
    """A visitor that records, and refuses two values of one name."""

    def record(name: str, value: Any) -> Any:
        if name in into:
            raise ContractError(f"two values are tagged {name!r}; open a scope, or give one of them another name")
        into[name] = value
        return value

    return record
