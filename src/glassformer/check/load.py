"""A user's own layer: in a file, `mine.py:MyLayer`, `mine.py:MyLayer(width=6)` or an instance there; or registered."""

import ast
import inspect
from typing import Any

from glassformer import registry
from glassformer.errors import ContractError, UnknownNameError
from glassformer.layers.contract import Layer
from glassformer.names import nearest
from glassformer.registry import load_code


def load_layer(address: str) -> Layer:
    file, _, expression = address.rpartition(":")
    module = load_code(file)
    name, arguments, settings = parse(expression, address)
    if not hasattr(module, name):
        raise UnknownNameError(f"{file}: nothing is called {name!r} there{nearest(name, vars(module))}")
    return as_layer(getattr(module, name), name, arguments, settings, address)


def registered_layer(address: str) -> Layer | None:
    """An own layer, loss or model by the name it is registered under: `my-net`, `gain(width=6)`; else None."""
    name, bracket, rest = address.partition("(")
    for what in ("model", "layer", "loss"):
        found = registry.find(what, name.strip())
        if found and not found.__module__.startswith("glassformer."):
            _, arguments, settings = parse(f"_{bracket}{rest}", address)
            return as_layer(found, name, arguments, settings, address)
    return None


def as_layer(layer: Any, name: str, arguments: list[Any], settings: dict[str, Any], address: str) -> Layer:
    if isinstance(layer, type) or arguments or settings:
        layer = construct(layer, arguments, settings, address)
    missing = [method for method in ("init", "forward", "backward") if not callable(getattr(layer, method, None))]
    if missing:
        raise ContractError(
            f"{address}: a layer has init, forward and backward; {name} has no {' and no '.join(missing)}"
        )
    return layer


def parse(expression: str, address: str) -> tuple[str, list[Any], dict[str, Any]]:
    """`MyLayer(6, heads=2)` -> the name and its literal arguments."""
    try:
        tree = ast.parse(expression, mode="eval").body
        if isinstance(tree, ast.Name):
            return tree.id, [], {}
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
            settings = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in tree.keywords}
            return tree.func.id, [ast.literal_eval(argument) for argument in tree.args], settings
    except (SyntaxError, ValueError):
        pass
    raise ContractError(f"{address}: expected a name or a call with plain values, such as file.py:MyLayer(width=6)")


def construct(layer: Any, arguments: list[Any], settings: dict[str, Any], address: str) -> Any:
    try:
        inspect.signature(layer).bind(*arguments, **settings)
    except TypeError as error:
        wanted = inspect.signature(layer)
        raise ContractError(
            f"{address}: {error}; its settings are {wanted}: write them behind its name, as in MyLayer(width=6)"
        ) from None
    return layer(*arguments, **settings)
