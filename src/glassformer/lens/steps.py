"""A model as steps from its input to its loss: one for each layer at work, with what it says of itself.

A layer that only puts others together, such as a block, has a step for each value it makes in between.
"""

from dataclasses import dataclass
from itertools import groupby
from typing import Any

from glassformer.formulas import docstring
from glassformer.lens.provenance import Provenance
from glassformer.names import gradient_name


@dataclass(frozen=True)
class Step:
    """Values and gradients come in the order they were made."""

    id: str  # blocks.0.attn
    title: str  # the first clause of the layer's docstring
    short: str  # its own part of the name: attn
    layer: str  # the class
    where: str  # block 0; nothing at the top
    about: str  # the first line of the layer's docstring
    forward: tuple[str, ...]  # formulas
    backward: tuple[str, ...]
    values: tuple[str, ...]
    gradients: tuple[str, ...]
    weights: tuple[str, ...]
    gates: tuple[str, ...]  # what its gates are called


def steps_of(made: Provenance) -> list[Step]:
    """In the order of forward. A layer that only hands on what it was given is none: dropout that drops nothing."""
    steps: dict[str, Step] = {}
    for scope, group in groupby(made.trace.values, key=owner_of):
        names = tuple(group)
        works = made.scopes.get(scope)
        if not works or all(name in made.equations and made.equations[name].work is None for name in names):
            continue
        is_between = id(works[0]) in made.containers
        step = names[-1] if is_between else scope
        if step not in steps:
            steps[step] = between(made, step, names) if is_between else whole(made, scope)
    return list(steps.values())


def whole(made: Provenance, scope: str) -> Step:
    """The step of a layer, with everything in its scope."""

    def inside(names: Any) -> tuple[str, ...]:
        return tuple(name for name in names if owner_of(name) == scope)

    hidden = [name for name in made.hidden if name in made.equations]
    values = inside([*(name for name in hidden if not is_gradient(name)), *made.trace.values])
    gradients = inside([*made.trace.gradients, *filter(is_gradient, hidden)])
    return step_of(made, scope, scope, values, gradients, inside(made.trace.params))


def between(made: Provenance, name: str, names: tuple[str, ...]) -> Step:
    back = tuple(one for one in map(gradient_name, names) if one in made.trace.gradients)
    return step_of(made, name, owner_of(name), names, back, ())


def step_of(
    made: Provenance, name: str, scope: str, values: tuple[str, ...], back: tuple[str, ...], weights: tuple[str, ...]
) -> Step:
    layer = made.scopes[scope][0].layer
    about = docstring(type(layer)).partition("\n")[0]
    words = name.split(".")
    own = 2 if words[-1].isdecimal() else 1
    return Step(
        id=name,
        title=about.partition(":")[0] or type(layer).__name__,
        short=" ".join(words[-own:]),
        layer=type(layer).__name__,
        where=where(words[:-own]),
        about=about,
        forward=formulas(made, values),
        backward=formulas(made, (*back, *map(gradient_name, weights))),
        values=values,
        gradients=back,
        weights=weights,
        gates=getattr(layer, "gates", ()),
    )


def formulas(made: Provenance, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(made.equations[name]) for name in names if name in made.equations and made.equations[name].work)


def owner_of(name: str) -> str:
    """The scope a value belongs to."""
    return name.rpartition(".")[0]


def is_gradient(name: str) -> bool:
    return name.rpartition(".")[2].startswith("d")


def where(words: list[str]) -> str:
    """
    >>> where(["decoder", "blocks", "1"])
    'decoder · block 1'
    """
    found: list[str] = []
    for word in words:
        if word.isdecimal() and found:
            found[-1] = f"{found[-1].removesuffix('s')} {word}"
        else:
            found.append(word)
    return " · ".join(found)
