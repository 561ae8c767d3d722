"""What all models share, a table of their parts when printed; and what image models do, a check of what comes in."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from glassformer.errors import ShapeError
from glassformer.models.images import Images
from glassformer.shapes import Key


class Network(ABC):
    """A layer made of layers. Settings, init, forward and backward stand in each model's own file."""

    tasks: ClassVar[tuple[str, ...]] = ("classify",)  # that it can do, by name; the first is the usual one

    @abstractmethod
    def init(self, key: Key) -> Any: ...
    @abstractmethod
    def forward(self, params: Any, x: Any) -> tuple[Any, Any]: ...
    @abstractmethod
    def backward(self, params: Any, cache: Any, dy: Any) -> tuple[Any, Any]: ...

    @abstractmethod
    def example(self, batch: int) -> Any:
        """The shape of a batch this model takes: a `jax.ShapeDtypeStruct`, or several in a NamedTuple."""

    def __str__(self) -> str:
        from glassformer.models.summary import summarise

        return summarise(self).table()

    def _repr_html_(self) -> str:
        from glassformer.models.summary import summarise

        return summarise(self).html()


class Model(Network):
    """A network that reads images."""

    images: Images

    def example(self, batch: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((batch, *self.images.shape), jnp.uint8)

    def check_input(self, x: Any) -> None:
        if x.shape[1:] != self.images.shape:
            raise ShapeError(
                f"{type(self).__name__}: a batch of shape {x.shape} came, expected (batch, "
                f"{', '.join(map(str, self.images.shape))}): rows, columns, channels; "
                "grey images need a last axis of 1: images[..., None]"
            )
