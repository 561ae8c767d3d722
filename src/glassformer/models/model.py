"""What a model tells of itself, besides being a layer: what it reads, what it can do, what its output means."""

import dataclasses
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

from glassformer.errors import ContractError
from glassformer.models.input import Input
from glassformer.models.limits import check_sizes
from glassformer.shapes import Key

if TYPE_CHECKING:
    from glassformer.data.dataset import Dataset


class Network(ABC):
    """A layer made of layers. Settings, init, forward and backward stand in each model's own file.

    What is above models never asks of which class a model is; it asks for these declarations.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classify",)  # that it can do, by name; the first is the usual one
    output_axis: ClassVar[str] = "classes"  # what its last axis is: classes, symbols, places (tokens), numbers
    task_parts: ClassVar[tuple[str, ...]] = ("head",)  # that belong to the task: another one begins them afresh

    has_stack: ClassVar[bool] = False  # whether its blocks are a Stack (models/stack.py), which an engine may scan

    def __post_init__(self) -> None:
        """Settings come from anywhere. A model that checks more of its own calls this one, too."""
        check_sizes(self)

    @property
    @abstractmethod
    def input(self) -> Input:
        """What it reads: one of its settings."""

    @abstractmethod
    def init(self, key: Key) -> Any: ...
    @abstractmethod
    def forward(self, params: Any, x: Any) -> tuple[Any, Any]: ...
    @abstractmethod
    def backward(self, params: Any, cache: Any, dy: Any) -> tuple[Any, Any]: ...

    def example(self, batch: int) -> Any:
        """The shape of a batch this model takes: a `jax.ShapeDtypeStruct`, or several in a NamedTuple."""
        return self.input.example(batch)

    def for_data(self, data: "Dataset", task: str) -> "Network":
        """The same model with the sizes of a data set, ready for a task."""
        for field in dataclasses.fields(self):  # pyright: ignore[reportArgumentType]
            if getattr(self, field.name) is self.input:
                return dataclasses.replace(self, **{field.name: self.input.for_data(data)})  # pyright: ignore
        raise ContractError(f"{type(self).__name__}: its input is none of its settings; define for_data(data, task)")

    def pooled(self, by: str) -> "Network":
        """The same, if its head makes one vector of all tokens, by their "mean" or by the "first"."""
        return self

    def to_look_at(self) -> Self:
        """A model that computes the same with its insides in view, for the lens: names and params are the same."""
        return self

    @property
    def backbone(self) -> "Network":
        """The model without what a task has put on it."""
        return self

    def __str__(self) -> str:
        from glassformer.models.summary import summarise

        return summarise(self).table()

    def _repr_html_(self) -> str:
        from glassformer.models.summary import summarise

        return summarise(self).html()
