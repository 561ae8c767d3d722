"""What a text model is given: how many symbols there are, how many tokens it takes; and how its weights start."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import jax
import jax.numpy as jnp

from glassformer.errors import ShapeError, at_least
from glassformer.layers import GELU, GELUTanh, ReLU, SiLU
from glassformer.models.input import Input
from glassformer.shapes import Array, Integer, Key

if TYPE_CHECKING:
    from glassformer.data.dataset import Dataset

Activation = GELU | GELUTanh | ReLU | SiLU

STD = 0.02  # of every matrix at the start, as in GPT-2 and BERT


@dataclass(frozen=True)
class Text(Input):
    reads: ClassVar[str] = "texts"

    vocabulary: int = 50257  # V
    context: int = 1024  # M: the longest sequence
    multiple: int = 1  # of which the vocabulary for a data set is one: rows that no symbol has make GPUs faster

    def __post_init__(self) -> None:
        at_least("text", 1, vocabulary=self.vocabulary, context=self.context, multiple=self.multiple)

    def example(self, batch: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((batch, self.context), jnp.int32)

    def check(self, where: str, x: Integer[Array, "B T"]) -> None:
        if x.ndim != 2 or not jnp.issubdtype(x.dtype, jnp.integer):
            raise ShapeError(
                f"{where}: {x.dtype} of shape {x.shape} came, expected integers (batch, tokens): "
                "one row of token ids per sequence; a single sequence needs a first axis of 1: ids[None]"
            )
        if x.shape[1] > self.context:
            raise ShapeError(
                f"{where}: {x.shape[1]} tokens came, the context is {self.context}; "
                f"cut the text, or make the model with a context of {x.shape[1]}"
            )

    def for_data(self, data: "Dataset") -> Self:
        return replace(self, vocabulary=-(-data.symbols // self.multiple) * self.multiple)


def normal_matrices(key: Key, params: Any) -> Any:
    """Every matrix drawn anew from a normal distribution of STD; gains and biases stay as they are."""
    leaves, structure = jax.tree.flatten(params)
    keys = jax.random.split(key, len(leaves))
    return structure.unflatten(
        STD * jax.random.normal(k, leaf.shape) if leaf.ndim == 2 else leaf for k, leaf in zip(keys, leaves, strict=True)
    )
