"""Writing token by token: what was read so far is kept in a state, so that a token costs the same anywhere in a text.

prefill    prompts -> the scores of the token that follows each, and the state
step       the state and one token a row -> the scores of the token that follows it, and the state after it

The scores are those of `forward` over the whole text. Every array of a state has one row per text. A state whose size
depends on the tokens it holds is made larger before they come (`make_room`), so that a short text takes little memory.
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from glassformer.shapes import Array, Float, Integer

ENDLESS = 2**31 - 1


class Source(NamedTuple):
    """The part of a state that belongs to the prompt, and that no step changes: rows of one prompt have the same."""

    keep: Any  # bool (B, S): where it is real
    memory: Any  # what steps attend to


class Incremental(ABC):
    """A language model that has its own prefill and step; without them, every token costs a forward of the text."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """The most tokens that a state can hold."""

    @abstractmethod
    def prefill(
        self, params: Any, ids: Integer[Array, "B T"], lengths: Integer[Array, "B"]
    ) -> tuple[Float[Array, "B V"], Any]:
        """Prompts padded at the end, of which `lengths` tokens are real. A model that answers a prompt, instead of
        going on from it, also takes the `start_token` that it writes its answer behind."""

    def make_room(self, state: Any, tokens: int) -> Any:
        """The state with room for a text of so many tokens. As it is, where its size does not depend on them."""
        return state

    @abstractmethod
    def step(self, params: Any, state: Any, tokens: Integer[Array, "B"]) -> tuple[Float[Array, "B V"], Any]: ...
