"""How far rotary positions reach: each of the published ways to lower their frequencies for longer texts.

linear     every frequency / factor (Chen et al., 2023)
dynamic    a larger base, the longer the text; none up to the trained length (NTK-aware scaling)
llama3     frequency / factor where a wave is longer than the trained context, unchanged where many fit into it, and a
           mixture between (Llama 3.1)
yarn       the same with a straight ramp over the pairs, and what is rotated is scaled (Peng et al., 2023)

Frequencies are base^(-2i / D) for the pair i, in radians per place. `context` is the length of the texts that the model
was trained on before. A setting of ScaledRotary (scaled_rotary.py).
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp

from glassformer.errors import SettingError, ShapeError, at_least
from glassformer.registry import register
from glassformer.shapes import Array, Float, Integer


def frequencies(base: Any, width: int, dtype: Any) -> Float[Array, "*B P"]:
    """Of each pair of a head, in radians per place."""
    return base ** -(jnp.arange(0, width, 2, dtype) / width)


def must_have_halves(width: int) -> None:
    if width % 2:
        raise ShapeError(f"rotary positions: heads of width {width} have no halves; expected an even width")


class RopeScaling(ABC):
    by_length: ClassVar[bool] = False  # whether the frequencies of a text change as it grows

    factor: float

    def __post_init__(self) -> None:
        if not self.factor >= 1:
            raise SettingError(f"rope scaling: factor {self.factor} came, expected 1 or more: texts get longer by it")
        at_least("rope scaling", 1, context=getattr(self, "context", 1))

    def check(self, width: int) -> None:
        """Refuse heads of a width that has no such frequencies."""
        must_have_halves(width)

    @property
    def scale(self) -> float:
        """What rotated values are multiplied by."""
        return 1.0

    @abstractmethod
    def frequencies(
        self, base: float, width: int, length: Integer[Array, "#B 1"], dtype: Any
    ) -> Float[Array, "#B P"] | Float[Array, "P"]:
        """`length` is the number of tokens of each sequence so far."""


@register.part("linear-scaling")
@dataclass(frozen=True)
class LinearScaling(RopeScaling):
    factor: float = 1.0

    def frequencies(self, base: float, width: int, length: Any, dtype: Any) -> Float[Array, "P"]:
        return frequencies(base, width, dtype) / self.factor


@register.part("dynamic-scaling")
@dataclass(frozen=True)
class DynamicScaling(RopeScaling):
    """With a KV cache, a token keeps the rotation that it got when it came, as in transformers."""

    by_length: ClassVar[bool] = True

    factor: float = 1.0
    context: int = 2048

    def check(self, width: int) -> None:
        super().check(width)
        if width < 4:
            raise ShapeError(f"dynamic rope scaling: heads of width {width} have one pair, expected 4 or more")

    def frequencies(self, base: float, width: int, length: Any, dtype: Any) -> Float[Array, "#B P"]:
        longer = jnp.maximum(length, self.context).astype(dtype) / self.context  # 1 up to the context
        stretch = (self.factor * longer - (self.factor - 1)) ** (width / (width - 2))
        return frequencies(base * stretch, width, dtype)


@register.part("llama3-scaling")
@dataclass(frozen=True)
class Llama3Scaling(RopeScaling):
    factor: float = 8.0
    low: float = 1.0  # waves of which fewer fit into the context: lowered by the factor
    high: float = 4.0  # waves of which more fit: as they are
    context: int = 8192

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low < self.high:
            raise SettingError(f"llama3 rope scaling: low {self.low} and high {self.high} came, expected low < high")

    def frequencies(self, base: float, width: int, length: Any, dtype: Any) -> Float[Array, "P"]:
        plain = frequencies(base, width, dtype)
        waves = self.context * plain / (2 * math.pi)  # how many fit into the context
        share = jnp.clip((waves - self.low) / (self.high - self.low), 0, 1)
        return plain * (share + (1 - share) / self.factor)


@register.part("yarn-scaling")
@dataclass(frozen=True)
class YarnScaling(RopeScaling):
    factor: float = 1.0
    context: int = 2048
    fast: float = 32.0  # pairs that turn more often than so within the context stay as they are
    slow: float = 1.0  # pairs that turn less often are lowered by the factor
    attention_factor: float | None = None  # `scale`; None: 0.1 log(factor) + 1, as the paper proposes
    truncate: bool = True  # begin and end the ramp at whole pairs

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.slow < self.fast:
            raise SettingError(
                f"yarn rope scaling: slow {self.slow} and fast {self.fast} came, expected 0 < slow < fast"
            )

    @property
    def scale(self) -> float:
        return 0.1 * math.log(self.factor) + 1.0 if self.attention_factor is None else self.attention_factor

    def frequencies(self, base: float, width: int, length: Any, dtype: Any) -> Float[Array, "P"]:
        def pair(turns: float) -> float:
            """The one that turns so often within the context, as a fraction."""
            return width * math.log(self.context / (turns * 2 * math.pi)) / (2 * math.log(base))

        first, last = pair(self.fast), pair(self.slow)
        if self.truncate:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, width - 1)
        last = last + 0.001 if first == last else last  # a step instead of a ramp
        lowered = jnp.clip((jnp.arange(width // 2, dtype=dtype) - first) / (last - first), 0, 1)
        return frequencies(base, width, dtype) * (1 - lowered + lowered / self.factor)
