"""Tuning a part of a model: which of a run's parameters learn when it goes on from the weights of another.

full    all of them
head    the head of the model, which belongs to its task
bias    every bias, and the head
lora    thin matrices beside the targets (layers/lora.py), and the head

A head that gives symbols (of a language model) is no task's own: `bias` and `lora` let it learn only where it is new.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import jax

from glassformer.errors import SettingError
from glassformer.layers.contract import Layer, is_bias, param_shapes
from glassformer.layers.lora import LoRA, Params, check_adapter
from glassformer.models.model import Network
from glassformer.names import named_leaves, nearest
from glassformer.registry import register


class Tune(ABC):
    """What learns of a model. Patterns are of the model's own parameter names."""

    def network(self, model: Network) -> Layer:
        """What is trained: the model, or a layer around it."""
        return model

    @abstractmethod
    def learns(self, model: Network) -> list[str]:
        """The parameters of the network that learn."""

    def base(self, params: Any) -> Any:
        """Of the network's params, the model's own, as they are before anything is added."""
        return params

    def with_base(self, params: Any, base: Any) -> Any:
        return base

    def merged(self, model: Network, params: Any) -> Any:
        """The model's params with what was learned."""
        return params

    def with_head(self, model: Network, *, own: bool) -> "Tune":
        """The same, with the parts named that learn as a whole; `own`: the head belongs to the task, or is new."""
        return self


@register.part("full")
@dataclass(frozen=True)
class Full(Tune):
    def learns(self, model: Network) -> list[str]:
        return names_of(model)


@register.part("head")
@dataclass(frozen=True)
class Head(Tune):
    def learns(self, model: Network) -> list[str]:
        found = head_names(model)
        if not found:
            raise SettingError(
                f"tune: {type(model).__name__} has no weights in {' or '.join(model.task_parts)} that could be tuned "
                "alone (its output may be made with the embedding's table); tune bias, lora or full"
            )
        return found


@register.part("bias")
@dataclass(frozen=True)
class Bias(Tune):
    also: tuple[str, ...] | None = None  # patterns of what learns beside; None: the head

    def learns(self, model: Network) -> list[str]:
        beside = matching(self.also, model)
        return [name for name in names_of(model) if is_bias(name) or name in beside]

    def with_head(self, model: Network, *, own: bool) -> "Bias":
        return self if self.also is not None else Bias(patterns_of_head(model, own=own))


@register.part("lora")
@dataclass(frozen=True)
class LowRank(Tune):
    rank: int = 4
    alpha: float = 8.0  # the update is a @ b, times alpha / rank
    targets: tuple[str, ...] = ("*.w_q", "*.w_v")  # patterns of matrices
    also: tuple[str, ...] | None = None  # patterns of what learns as a whole; None: the head

    def __post_init__(self) -> None:
        check_adapter(self.rank, self.alpha)

    def network(self, model: Network) -> LoRA:
        return LoRA(model, self.rank, self.alpha, self.targets)

    def learns(self, model: Network) -> list[str]:
        names = named_leaves(param_shapes(self.network(model)))
        whole = {f"base.{name}" for name in matching(self.also, model)}
        return [name for name in names if name in whole or not name.startswith("base.")]

    def base(self, params: Params) -> Any:
        return params.base

    def with_base(self, params: Params, base: Any) -> Params:
        return params._replace(base=base)

    def merged(self, model: Network, params: Params) -> Any:
        return self.network(model).merged(params)

    def with_head(self, model: Network, *, own: bool) -> "LowRank":
        if self.also is not None:
            return self
        return LowRank(self.rank, self.alpha, self.targets, patterns_of_head(model, own=own))

    def adapter(self, model: Network, params: Params) -> dict[str, jax.Array]:
        """What was learned, by name; and of a head of which anything learns, all, for it may be new."""
        learns, head = self.learns(model), head_names(model)
        tuned = any(name.partition(".")[2] in head for name in learns)
        kept = {*learns, *(f"base.{name}" for name in head if tuned)}
        return {name: leaf for name, leaf in named_leaves(params).items() if name in kept}


def names_of(model: Network) -> list[str]:
    return list(named_leaves(param_shapes(model)))


def head_names(model: Network) -> list[str]:
    """The parameters of the head, as the model declares what belongs to its task."""
    heads = tuple(f"{part}." for part in model.task_parts)
    return [name for name in names_of(model) if name.startswith(heads)]


def patterns_of_head(model: Network, *, own: bool) -> tuple[str, ...]:
    names = head_names(model) if own else []
    return tuple(f"{part}.*" for part in model.task_parts if any(name.startswith(f"{part}.") for name in names))


def matching(patterns: tuple[str, ...] | None, model: Network) -> set[str]:
    names = names_of(model)
    for pattern in patterns or ():
        if not any(fnmatchcase(name, pattern) for name in names):
            tops = [*dict.fromkeys(f"{name.partition('.')[0]}.*" for name in names)]
            raise SettingError(
                f"tune: no parameter is called {pattern!r}{nearest(pattern, [*tops, *names])}; "
                f"there are {', '.join(tops)}"
            )
    return {name for name in names for pattern in patterns or () if fnmatchcase(name, pattern)}
