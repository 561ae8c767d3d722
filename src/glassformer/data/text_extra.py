"""The packages of the extra `glassformer[text]`, imported where they are used; a missing one says how to get it."""

import importlib
from typing import Any

from glassformer.errors import DataError

INSTALL = "pip install 'glassformer[text]'"


def text_package(name: str, what: str) -> Any:
    """The module called `name`; `what` needs it and stands in the message where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise DataError(f"{what}: the Python package {name.partition('.')[0]} is not installed; {INSTALL}") from None
