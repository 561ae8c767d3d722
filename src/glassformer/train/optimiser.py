"""Optimisers and schedules: the recipe's words turned into one optax transformation."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from functools import cache
from math import isfinite
from typing import Any, Literal

import jax
import jax.numpy as jnp
import optax

from glassformer.errors import SettingError, at_least
from glassformer.layers.contract import decayed
from glassformer.models.stack import of_tuple
from glassformer.names import named_leaves, nearest, with_leaves

# With settings of their own; any other optimiser of optax that needs a learning rate alone is accepted by its name.
USED = {"sgd": (), "momentum": ("momentum",), "adam": ("b1", "b2"), "adamw": ("b1", "b2", "weight_decay", "decay")}
PRESETS = tuple(USED)
REST, FROZEN = "rest", "frozen"  # what no group names, and what does not learn


@dataclass(frozen=True)
class Schedule:
    """How the learning rate changes over the run."""

    kind: Literal["constant", "step", "exponential", "cosine", "warmup-cosine"] = "constant"
    every: int = 1  # step, exponential: epochs between two changes
    factor: float = 0.5  # step, exponential: what the rate is multiplied by
    warmup: float = 0.1  # warmup-cosine: share of the run that rises
    final: float = 0.0  # cosine, warmup-cosine: share of the rate at the end

    def __post_init__(self) -> None:
        at_least("schedule", 1, every=self.every)
        if not self.factor > 0:
            raise SettingError(f"schedule: factor is {self.factor}, expected a number above 0")
        if not (0 <= self.warmup < 1 and 0 <= self.final <= 1):
            raise SettingError(f"schedule: warmup {self.warmup} and final {self.final} are shares, expected 0 to 1")

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
class Group:
    """Parameters with a learning rate of their own."""

    pattern: str  # of their dotted names: head.*
    rate: float  # times the learning rate; 0: they are frozen

    def __post_init__(self) -> None:
        if not (self.rate >= 0 and isfinite(self.rate)):
            raise SettingError(f"optimiser: the rate of {self.pattern!r} is {self.rate}, expected a number from 0")


@dataclass(frozen=True)
class Optimiser:
    name: str = "sgd"
    lr: float = 0.01
    momentum: float = 0.9  # momentum
    b1: float = 0.9  # adam, adamw
    b2: float = 0.999
    weight_decay: float = 0.0  # adamw
    decay: Literal["matrices", "all"] = "all"  # adamw: what it shrinks; matrices: what each layer declares
    clip: float = 0.0  # largest norm of the whole gradient; 0: as it comes
    schedule: Schedule = field(default_factory=Schedule)
    groups: tuple[Group, ...] = ()  # by name; of several that match, the first
    freeze: tuple[str, ...] = ()  # patterns of the names of parameters that stay as they are; before groups

    def __post_init__(self) -> None:
        if not self.lr > 0:
            raise SettingError(f"optimiser: lr is {self.lr}, expected a number above 0")
        if self.clip < 0 or self.weight_decay < 0:
            raise SettingError(f"optimiser: clip {self.clip} and weight_decay {self.weight_decay} must not be below 0")
        if self.name not in known_names():
            raise SettingError(
                f"optimiser: {self.name!r} is not known{nearest(self.name, known_names())}; "
                f"there are {', '.join(PRESETS)} and optax's"
            )
        if self.name not in PRESETS:
            self.try_out()

    def must_use_its_settings(self) -> None:
        """Refuse a setting that was changed to no effect. Asked of a whole recipe: single changes come in any order."""
        special = {name for used in USED.values() for name in used}
        plain = [made for made in fields(self) if made.name in special - set(USED.get(self.name, ()))]
        ignored = [made for made in plain if getattr(self, made.name) != made.default]
        if ignored:
            raise SettingError(
                f"optimiser: {self.name} does not use "
                + " and ".join(f"{made.name}, which is {getattr(self, made.name)}" for made in ignored)
                + "; choose an optimiser that does, or set it back: "
                + " ".join(f"--set optimiser.{made.name}={made.default}" for made in ignored)
            )

    def try_out(self) -> None:
        """Refuse an optimiser that needs more than gradients and a schedule, before anything is computed."""

        def one_step(params: Any) -> Any:
            transformation = self.transformation(1, 1)
            return transformation.update(params, transformation.init(params), params)

        try:
            jax.eval_shape(one_step, {"w": jnp.zeros((1, 1))})
        except (TypeError, ValueError) as error:
            raise SettingError(f"optimiser: {self.name} cannot be used here: {error}") from None

    def transformation(self, steps_per_epoch: int, epochs: int) -> optax.GradientTransformation:
        return self.with_numbers(lambda times: self.schedule.rate(times * self.lr, steps_per_epoch, epochs), self)

    def with_numbers(self, rate: Callable[[float], Any], numbers: Any) -> optax.GradientTransformation:
        """By so many times a rate, and by the momentum, b1, b2, weight_decay and clip of `numbers`: arrays, where one
        program is to serve several runs."""

        def rated(times: float) -> optax.GradientTransformation:
            return self.update(rate(times), numbers)

        update, clip = rated(1.0), optax.clip_by_global_norm(numbers.clip)
        if self.named:
            own = {str(i): rated(group.rate) for i, group in enumerate(self.named) if group.rate}
            update = optax.partition({REST: update, FROZEN: unchanged(), **own}, of_tuple(self.labels))
            clip = optax.masked(clip, of_tuple(self.learns))
        return optax.chain(clip, update) if self.clip else update

    @property
    def named(self) -> tuple[Group, ...]:
        """All groups in the order in which they are asked."""
        return (*(Group(pattern, 0.0) for pattern in self.freeze), *self.groups)

    def labels(self, params: Any) -> Any:
        """Of each parameter: the number of its group."""

        def label(name: str) -> str:
            found = ((str(i), group.rate) for i, group in enumerate(self.named) if fnmatchcase(name, group.pattern))
            number, rate = next(found, (REST, 1.0))
            return number if rate else FROZEN

        return with_leaves(params, {name: label(name) for name in named_leaves(params)})

    def learns(self, params: Any) -> Any:
        return jax.tree.map(lambda label: label != FROZEN, self.labels(params))

    def must_name(self, params: Any) -> None:
        """Refuse a pattern that no parameter's name matches, and a recipe by which nothing learns."""
        names = list(named_leaves(params))
        for group in self.named:
            if not any(fnmatchcase(name, group.pattern) for name in names):
                parts = [".".join(name.split(".")[:n]) + ".*" for name in names for n in range(1, 1 + name.count("."))]
                near = nearest(group.pattern, [*dict.fromkeys(parts), *names])
                tops = dict.fromkeys(part for part in parts if part.count(".") == 1)
                raise SettingError(
                    f"optimiser: no parameter is called {group.pattern!r}{near}; there are {', '.join(tops or names)}"
                )
        if not any(jax.tree.leaves(self.learns(params))):
            frozen = [repr(group.pattern) for group in self.named if not group.rate]
            patterns = ", ".join(frozen[:4]) + (", …" if frozen[4:] else "")
            raise SettingError(
                f"optimiser: every parameter is frozen (by {patterns}), so nothing would learn; name fewer of them"
            )

    def update(self, rate: Any, numbers: Any = None) -> optax.GradientTransformation:
        """With its own numbers, or with others."""
        numbers = numbers or self
        match self.name:
            case "sgd":
                return optax.sgd(rate)
            case "momentum":
                return optax.sgd(rate, momentum=numbers.momentum)
            case "adam":
                return optax.adam(rate, b1=numbers.b1, b2=numbers.b2)
            case "adamw":
                mask = of_tuple(decayed) if self.decay == "matrices" else None
                decay = numbers.weight_decay
                return optax.adamw(rate, b1=numbers.b1, b2=numbers.b2, weight_decay=decay, mask=mask)
            case _:
                return getattr(optax, self.name)(rate)


def unchanged() -> optax.GradientTransformation:
    """Nothing is added, and nothing remembered. x + -0.0 is x to the bit, which of 0.0 is not true where x is -0.0."""
    return optax.stateless(lambda updates, _: jax.tree.map(lambda update: jnp.full_like(update, -0.0), updates))


@cache
def known_names() -> list[str]:
    """The presets, and every function of optax that begins with a learning rate."""
    functions = inspect.getmembers(optax, inspect.isfunction)
    return [
        *PRESETS,
        *(name for name, made in functions if "learning_rate" in list(inspect.signature(made).parameters)[:1]),
    ]
