"""From numbers to places: a straight scale with round marks."""

import math
from dataclasses import dataclass

STEPS = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True)
class Scale:
    low: float
    high: float
    start: float  # pixels
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def inside(self, value: float) -> bool:
        return self.low <= value <= self.high

    def held(self, value: float) -> float:
        """The place of a value, or of the edge it is beyond."""
        return self(min(max(value, self.low), self.high))

    def marks(self, about: int) -> list[float]:
        return marks(self.low, self.high, about)


def marks(low: float, high: float, about: int) -> list[float]:
    """Round numbers within, about so many.

    >>> marks(-7, 41, 6)
    [0.0, 10.0, 20.0, 30.0, 40.0]
    """
    rough = (high - low) / max(about, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = min((one * power for one in STEPS), key=lambda step: abs(math.log(step / rough)))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


def around(values: list[float], room: float = 0.04) -> tuple[float, float]:
    """Low and high with a little room; of equal values, too."""
    low, high = min(values), max(values)
    more = room * (high - low) or 1.0
    return low - more, high + more


def shown(mark: float) -> str:
    """
    >>> shown(10.0), shown(2.5), shown(-5.0)
    ('10', '2.5', '−5')
    """
    return f"{mark:g}".replace("-", "\N{MINUS SIGN}")
