"""What a study compares: a number of each run, which way is better, and how it is spelt.

    from glassformer import register
    from glassformer.lab.metric import Metric

    @register.metric(Metric("brier", unit="points", scale=100, higher=False))
    def brier(outputs: np.ndarray, labels: np.ndarray) -> float: …

A record holds the raw number (accuracy 0.85, loss 1.31); everything that is said and drawn is `shown`: the raw number
times `scale` (85 %). `gain` is a difference turned so that up is better, whatever the metric. A run that failed has no
number of its own: `worst` stands in for it, the level of chance for an accuracy, so that survivors are never averaged
alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from glassformer import registry
from glassformer.errors import SettingError, UnknownNameError
from glassformer.names import nearest


@dataclass(frozen=True)
class Metric:
    """Frozen and hashable: it may stand in a plan."""

    name: str  # "accuracy", as it stands in a plan and in a sentence
    unit: str = "points"  # of a difference: "+3.1 points"
    suffix: str = ""  # of a level: "85 %"
    scale: float = 1.0  # shown = raw x scale: 100 for a share
    higher: bool = True  # is better
    worst: float | None = None  # raw: what no better than chance is, and what a failed run counts as; None: unknown
    logit: bool = False  # a share of 1: sums have a meaning as log-odds only
    margin: float = 1.0  # shown: the smallest difference that anybody cares about, where the plan does not say
    low: float = -math.inf  # raw: what it can be at all
    high: float = math.inf

    def __post_init__(self) -> None:
        if not self.name:
            raise SettingError("metric: the name is empty, expected one word: Metric('brier')")
        if not self.scale > 0:
            raise SettingError(f"metric {self.name}: scale is {self.scale}, expected a number above 0")
        if not self.margin > 0:
            raise SettingError(f"metric {self.name}: margin is {self.margin}, expected a number above 0")
        if self.logit and (self.low, self.high) != (0.0, 1.0):
            raise SettingError(
                f"metric {self.name}: logit is for shares, from 0 to 1; it goes from {self.low:g} to {self.high:g}"
            )

    @property
    def sign(self) -> float:
        """+1 where more is better, -1 where less is."""
        return 1.0 if self.higher else -1.0

    def shown(self, raw: float) -> float:
        """
        >>> ACCURACY.shown(0.85), LOSS.shown(1.5)
        (85.0, 1.5)
        """
        return self.scale * raw

    def raw(self, shown: float) -> float:
        return shown / self.scale

    def gain(self, new: float, old: float) -> float:
        """Shown, and turned so that up is better: a loss that falls by 0.2 is a gain of 0.2.

        >>> round(ACCURACY.gain(0.9, 0.85), 9), round(LOSS.gain(1.3, 1.5), 9)
        (5.0, 0.2)
        """
        return self.sign * self.scale * (new - old)

    def better(self, a: float, b: float) -> bool:
        """Whether raw `a` is better than raw `b`."""
        return self.sign * (a - b) > 0

    @property
    def places(self) -> int:
        """Behind the point, of a level: a tenth of the margin shows."""
        return max(1, 1 - math.floor(math.log10(self.margin)))

    def level(self, shown: float, places: int | None = None) -> str:
        """A level as a sentence has it.

        >>> ACCURACY.level(97.58), LOSS.level(1.5), ACCURACY.level(float("nan"))
        ('97.6 %', '1.500', 'unknown')
        """
        if math.isnan(shown):
            return "unknown"
        places = self.places if places is None else places
        return f"{shown:.{places}f}{f' {self.suffix}' if self.suffix else ''}"

    def chance(self, classes: int | None) -> float | None:
        """Raw: `worst` where it is set, else what guessing among so many classes gives; None: not known."""
        if self.worst is not None:
            return self.worst
        if not classes or classes < 2:
            return None
        return {"accuracy": 1 / classes, "loss": math.log(classes), "perplexity": float(classes)}.get(self.name)


ACCURACY = Metric("accuracy", "points", "%", 100.0, logit=True, low=0.0, high=1.0)
F1 = Metric("F1", "points", "%", 100.0, worst=0.0, logit=True, low=0.0, high=1.0)
EXACT_MATCH = Metric("exact match", "points", "%", 100.0, worst=0.0, logit=True, low=0.0, high=1.0)
LOSS = Metric("loss", "nats", higher=False, margin=0.01, low=0.0)
PERPLEXITY = Metric("perplexity", "perplexity", higher=False, margin=0.1, low=1.0)
TIME_TO_TARGET = Metric("time to target", "s", "s", higher=False, low=0.0)
BUILT_IN = (ACCURACY, LOSS, PERPLEXITY, F1, EXACT_MATCH, TIME_TO_TARGET)


def metric_named(name: str, *, margin: float | None = None, worst: float | None = None) -> Metric:
    """By its name, with what a plan says of it."""
    known = {one.name: one for one in BUILT_IN}
    found = known.get(name) or own(name)
    if found is None:
        raise UnknownNameError(
            f"no metric is called {name!r}{nearest(name, metric_names())}; known: {', '.join(metric_names())}; an own "
            "one is registered by @register.metric in a file given with --code"
        )
    return replace(
        found,
        margin=found.margin if margin is None else margin,
        worst=found.worst if worst is None else worst,
    )


def own(name: str) -> Metric | None:
    there = registry.find("metric", name)
    return there.metric if there else None


def function_of(metric: Metric) -> Callable[..., float] | None:
    """What computes it from outputs and labels; None for a built-in one."""
    there = registry.find("metric", metric.name)
    return there.entry if there else None


def metric_names() -> list[str]:
    return [*dict.fromkeys([*(one.name for one in BUILT_IN), *registry.names("metric")])]
