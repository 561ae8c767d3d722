"""A language model cut in two: all but its head, and the head, so that head and loss can be computed in pieces.

to_head      what comes into the head, with the table it is compared with
from_head    the gradient of all parameters, from those of what came into the head

`forward` is to_head and then the head; `backward` is the head's and then from_head.
"""

from abc import ABC, abstractmethod
from typing import Any

from glassformer.layers import tied_head
from glassformer.shapes import Key


class TiedOutput(ABC):
    @abstractmethod
    def to_head(self, params: Any, x: Any, *, keep: Any = None, key: Key | None = None) -> tuple[tied_head.Inputs, Any]:
        """And the cache, in which that of the head is None."""

    @abstractmethod
    def from_head(self, params: Any, cache: Any, d: tied_head.Inputs) -> Any: ...
