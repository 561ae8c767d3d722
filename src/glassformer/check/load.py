"""A layer from a user's own file: `mine.py:MyLayer`, `mine.py:MyLayer(width=6)`, or the name of an instance."""

import ast
import inspect
from typing import Any

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
    layer = getattr(module, name)
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
            f"{address}: {error}; its settings are {wanted}: write them in the address, as in file.py:MyLayer(width=6)"
        ) from None
    return layer(*arguments, **settings)
