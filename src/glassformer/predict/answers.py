"""What a run's task makes of one text, or of one row of numbers."""

from dataclasses import dataclass
from math import exp


@dataclass(frozen=True)
class ClassAnswer:
    name: str
    probability: float
    probabilities: dict[str, float]  # of every class


@dataclass(frozen=True)
class Found:
    """A piece of the text: text[start:end] of what was read. What span gives, and tag several of."""

    name: str
    text: str
    start: int
    end: int
    probability: float  # of a tag: the mean over its tokens


@dataclass(frozen=True)
class TagAnswer:
    parts: tuple[Found, ...]


@dataclass(frozen=True)
class Guess:
    symbol: str
    probability: float


@dataclass(frozen=True)
class Gap:
    start: int  # where <mask> stands
    best: tuple[Guess, ...]


@dataclass(frozen=True)
class MaskedAnswer:
    gaps: tuple[Gap, ...]


@dataclass(frozen=True)
class NextAnswer:
    best: tuple[Guess, ...]
    loss: float | None  # nats for each symbol but the first; None: there is no other

    @property
    def perplexity(self) -> float | None:
        return None if self.loss is None else exp(self.loss)


@dataclass(frozen=True)
class TranslateAnswer:
    text: str
    ended: bool  # by <end>, not for want of room


@dataclass(frozen=True)
class PromptAnswer:
    text: str
    ended: bool  # by <end>, not for want of room


@dataclass(frozen=True)
class NumbersAnswer:
    values: tuple[float, ...]


Answer = NumbersAnswer | ClassAnswer | TagAnswer | Found | MaskedAnswer | NextAnswer | TranslateAnswer | PromptAnswer
