"""Optimisers and schedules: the recipe's words turned into one optax transformation."""

from dataclasses import dataclass, field
from typing import Any, Literal

import optax

from glassformer.errors import SettingError
from glassformer.names import nearest

# The seeds of the common ones; any other optimiser of optax that takes a learning rate is accepted by name.
PRESETS = ("sgd", "momentum", "adam", "adamw")


@dataclass(frozen=True)
class Schedule:
    """How the learning rate changes over the run."""

    kind: Literal["constant", "step", "exponential", "cosine", "warmup-cosine"] = "constant"
    every: int = 1  # step, exponential: epochs between two changes
    factor: float = 0.5  # step, exponential: what the rate is multiplied by
    warmup: float = 0.1  # warmup-cosine: share of the run that rises
    final: float = 0.0  # cosine, warmup-cosine: share of the rate at the end

    def rate(self, peak: float, steps_per_epoch: int, epochs: int) -> optax.Schedule:
        total = steps_per_epoch * epochs
        match self.kind:
            case "constant":
                return optax.constant_schedule(peak)
            case "step":
                return optax.exponential_decay(peak, self.every * steps_per_epoch, self.factor, staircase=True)
            case "exponential":
                return optax.exponential_decay(peak, self.every * steps_per_epoch, self.factor)
            case "cosine":
                return optax.cosine_decay_schedule(peak, total, self.final)
            case "warmup-cosine":
                rise = max(1, round(self.warmup * total))
                return optax.warmup_cosine_decay_schedule(0.0, peak, rise, max(total, rise + 1), self.final * peak)


@dataclass(frozen=True)
class Optimiser:
    name: str = "sgd"
    lr: float = 0.01
    momentum: float = 0.9  # momentum
    b1: float = 0.9  # adam, adamw
    b2: float = 0.999
    weight_decay: float = 0.0  # adamw
    clip: float = 0.0  # largest norm of the whole gradient; 0: as it comes
    schedule: Schedule = field(default_factory=Schedule)

    def __post_init__(self) -> None:
        if not self.lr > 0:
            raise SettingError(f"optimiser: lr is {self.lr}, expected a number above 0")
        if self.clip < 0 or self.weight_decay < 0:
            raise SettingError(f"optimiser: clip {self.clip} and weight_decay {self.weight_decay} must not be below 0")
        if self.name not in PRESETS and not callable(getattr(optax, self.name, None)):
            raise SettingError(f"optimiser: {self.name!r} is not known{nearest(self.name, list(PRESETS))}")

    def transformation(self, steps_per_epoch: int, epochs: int) -> optax.GradientTransformation:
        rate = self.schedule.rate(self.lr, steps_per_epoch, epochs)
        update = self.update(rate)
        return optax.chain(optax.clip_by_global_norm(self.clip), update) if self.clip else update

    def update(self, rate: Any) -> optax.GradientTransformation:
        match self.name:
            case "sgd":
                return optax.sgd(rate)
            case "momentum":
                return optax.sgd(rate, momentum=self.momentum)
            case "adam":
                return optax.adam(rate, b1=self.b1, b2=self.b2)
            case "adamw":
                return optax.adamw(rate, b1=self.b1, b2=self.b2, weight_decay=self.weight_decay)
            case _:
                return getattr(optax, self.name)(rate)
