"""Axis letters and array types, fixed once for the whole project.

A signature such as `Float[Array, "B T C"]` is a claim; the contract suite checks it with these letters.
"""

from dataclasses import dataclass
from typing import Any

import jax
from jaxtyping import Array, Bool, Float, Integer, PRNGKeyArray, UInt8

__all__ = ["AXES", "Array", "Bool", "Float", "Integer", "Key", "Static", "UInt8"]

Key = PRNGKeyArray

AXES = {
    "B": "batch",
    "T": "tokens (of the query, where there are two sequences)",
    "S": "source tokens: what the query looks at",
    "M": "most tokens that a table of positions can place",
    "C": "width of the model",
    "H": "heads",
    "J": "heads of keys and values, where several query heads share one",
    "D": "width of one head",
    "A": "width of all heads side by side, H * D",
    "E": "width of all key heads side by side, J * D",
    "R": "buckets of distances between tokens",
    "N": "batch and heads together",
    "W": "places that a query of window attention can look at",
    "F": "width of the feed-forward layer",
    "V": "vocabulary",
    "K": "classes",
    "L": "layers",
    "I": "width going into a linear layer",
    "O": "width coming out of a linear layer",
    "P": "values in one patch",
    "Y": "rows of an image",
    "X": "columns of an image",
    "G": "colour channels of an image (1 = grey)",
}


@jax.tree_util.register_static
@dataclass(frozen=True)
class Static:
    """A plain value kept in a cache (a size, a yes or no): part of the tree's structure, so known while compiling."""

    value: Any
