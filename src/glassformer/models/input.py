"""What a model is given: images, texts, rows of numbers, or an input of one's own."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from glassformer.data.dataset import Dataset


class Input(ABC):
    """A frozen dataclass of sizes. One that reads texts has a `vocabulary` and a `context`."""

    reads: ClassVar[str]  # what messages call it: images, texts, rows of numbers
    classes = 0  # how many, where this input is told

    @abstractmethod
    def example(self, batch: int) -> Any:
        """The shape of a batch: a `jax.ShapeDtypeStruct`."""

    @abstractmethod
    def check(self, where: str, x: Any) -> None:
        """Refuse a batch of another shape or type."""

    @abstractmethod
    def for_data(self, data: "Dataset") -> Self:
        """The same with the sizes of a data set."""
