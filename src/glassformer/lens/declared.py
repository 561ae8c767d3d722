"""What a layer declares of its arrays: the axis letters in its signatures, its Params, Inputs and Cache, and `axes`."""

import inspect
from functools import cache
from typing import Any, get_args, get_type_hints

import numpy as np

from glassformer.lens.trace import Trace, Work
from glassformer.names import last_word

Dims = tuple[str, ...]  # as in the annotation: ("B", "T", "C"), ("*B", "I"), ("#B", "#H", "#T", "#S")
BESIDE = ("H", "J", "3", "4")  # heads and gates
VAGUE = ("", "I", "O")  # letters that another layer may know better


@cache
def declared(layer: type) -> dict[str, Dims]:
    """By the name in the layer's scope: fields of Params, Inputs and Cache, x, y, keywords.

    >>> from glassformer.layers import Attention
    >>> declared(Attention)["pattern"], declared(Attention)["mask"]
    (('B', 'H', 'T', 'S'), ('#B', '#H', '#T', '#S'))
    """
    hints = types(inspect.getattr_static(layer, "forward", None))
    y, cache_type = [*get_args(hints.pop("return", None)), None, None][:2]
    params = hints.pop("params", None)
    found: dict[str, Dims] = {}
    for name, hint in (("y", y), ("", cache_type), ("", params), *hints.items()):
        for one in (hint, *get_args(hint)):  # of a union, each
            if dims := dims_of(one):
                found.setdefault(name or "y", dims)
            for field, inner in types(one).items() if hasattr(one, "_fields") else ():
                if dims := next(filter(None, map(dims_of, (inner, *get_args(inner)))), None):
                    found.setdefault(field, dims)
    return found | {name: tuple(dims.split()) for name, dims in getattr(layer, "axes", {}).items()}


def types(owner: Any) -> dict[str, Any]:
    try:
        return dict(get_type_hints(owner))
    except (NameError, TypeError):  # written for the type checker alone
        return {}


def dims_of(hint: Any) -> Dims | None:
    written = getattr(hint, "dim_str", None)
    return None if written is None else tuple(written.split())


def dims_for(layer: type, name: str) -> Dims | None:
    """Also of a gradient: `dq` has the axes of `q`."""
    known, word = declared(layer), last_word(name)
    return known.get(word) or (known.get(word[1:]) if word.startswith("d") else None)


def has_batch(dims: Dims | None, shape: tuple[int, ...]) -> bool:
    """Where nothing is declared: whether there is a first axis of one."""
    if dims is None:
        return shape[:1] == (1,)
    return bool(dims) and bool(shape) and (dims[0] in ("B", "#B", "1") or dims[0].startswith("*"))


def letters(dims: Dims | None, rank: int, bound: dict[str, Any] | None = None) -> list[str]:
    """Of one sample's axes; those that stand for others are replaced by what they are bound to."""
    bound = bound or {}
    plain = [one.lstrip("#").partition("+")[0] for one in dims or ()]  # T+1 are tokens, too: one more in front
    if plain and (plain[0] in ("B", "1") and len(plain) > rank):
        plain = plain[1:]
    stars = [one for one in plain if one.startswith("*")]
    if stars:
        many = rank - len(plain) + 1
        among = bound.get(stars[0], ["T"] if many == 1 else [""] * many)
        at = plain.index(stars[0])
        plain[at : at + 1] = among if len(among) == many else [""] * max(many, 0)
    local = ("T", "S") if any(one in BESIDE for one in plain) else ()  # here T asks, S is looked at, whatever they are
    return [one if one in local else bound.get(one, one) for one in plain] if len(plain) == rank else [""] * rank


def bind(dims: Dims | None, known: list[str], bound: dict[str, Any]) -> None:
    """The letters of a declaration to those of an array that came."""
    plain = [one.lstrip("#") for one in dims or ()]
    if plain and plain[0] in ("B", "1"):
        plain = plain[1:]
    if plain and plain[0].startswith("*"):
        many = len(known) - len(plain) + 1
        bound.setdefault(plain[0], known[:many])
        plain, known = plain[1:], known[many:]
    if len(plain) == len(known):
        for one, letter in zip(plain, known, strict=True):
            if letter and not (letter in VAGUE and one not in VAGUE):
                bound.setdefault(one, letter)


def forward_axes(trace: Trace) -> dict[int, list[str]]:
    """The letters of every array of forward, by its id; T and S of which sequence, each layer learns from its input."""
    known: dict[int, list[str]] = {}
    inside: dict[str, dict[str, Any]] = {}
    for name, array in trace.values.items():
        inside.setdefault(name.rpartition(".")[0], {})[last_word(name)] = array
    for work in trace.works:
        if work.direction == "forward":
            bound = bound_by(known, work, work.given)
            arrays = {**work.given, **work.keywords, **work.gave, **inside.get(work.name, {})}
            for name, array in arrays.items():
                dims = dims_for(type(work.layer), name)
                if dims and "..." not in dims:  # which leaves it to the parts
                    found = letters(dims, np.ndim(array) - has_batch(dims, np.shape(array)), bound)
                    old = known.setdefault(id(array), found)
                    if len(old) == len(found):
                        pairs = zip(old, found, strict=True)
                        known[id(array)] = [b if a in VAGUE and b not in VAGUE else a for a, b in pairs]
    return known


def bound_by(known: dict[int, list[str]], work: Work, flows: dict[str, Any]) -> dict[str, Any]:
    bound: dict[str, Any] = {}
    for name, array in flows.items():
        if id(array) in known:
            bind(dims_for(type(work.layer), name), known[id(array)], bound)
    return bound
