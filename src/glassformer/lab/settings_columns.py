"""The settings of a recipe as columns of a table: one for each number or word, by its dotted name."""

import json
from collections.abc import Iterable
from typing import Any

from glassformer.train.recipe import Recipe
from glassformer.train.settings import to_plain

SEED = "training.seed"  # a column of its own, of every run


def settings_of(recipe: Recipe) -> dict[str, Any]:
    """
    >>> settings_of(Recipe())["optimiser.lr"] == Recipe().optimiser.lr
    True
    """
    found = flat(to_plain(recipe))
    found.pop(SEED, None)
    return found


def flat(plain: Any, name: str = "") -> dict[str, Any]:
    """Tables are opened; lists stay whole, as JSON.

    >>> flat({"model": {"kind": "mlp", "hidden": [64, 32]}, "data": "mnist"})
    {'model.kind': 'mlp', 'model.hidden': '[64, 32]', 'data': 'mnist'}
    """
    if isinstance(plain, dict):
        return {
            key: value
            for inner, one in plain.items()
            for key, value in flat(one, f"{name}.{inner}".lstrip(".")).items()
        }
    return {name: json.dumps(plain) if isinstance(plain, list) else plain}


def varying(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Names whose values differ between the rows, or that some rows lack: another model has other settings.

    >>> varying([{"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}])
    ['b', 'c']
    """
    rows = list(rows)
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if len({repr(row.get(name)) for row in rows}) > 1]
