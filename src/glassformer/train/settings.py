"""Settings from outside, TOML or `name=value`, checked once on the way in against the types of the frozen dataclasses.

Where a type leaves a choice (which model, how positions start), `kind` names it: `model.kind = "vit"`; a bare word
stands for the kind with its defaults: `start = "sinusoidal"`. Unknown keys are refused with the nearest known one.
"""

import dataclasses
import math
import tomllib
import types
import typing
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from glassformer import registry
from glassformer.errors import SettingError
from glassformer.layers.contract import Layer
from glassformer.names import nearest
from glassformer.reading import parse_toml

Settings = TypeVar("Settings")
REGISTERED_AS = {"Network": "model", "Task": "task", "Input": "input", "Loss": "loss", "Layer": "layer"}
OWN = "if it is your own, install its package or give its file: --code FILE"


def to_plain(settings: Any) -> Any:
    """Dataclasses as dictionaries, for TOML and JSON; `from_plain` undoes it. What is None is left out."""
    if isinstance(settings, tuple):
        return [to_plain(value) for value in settings]
    if not dataclasses.is_dataclass(settings):
        return settings
    kind = registry.kind_of(type(settings))
    values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    plain = {name: to_plain(value) for name, value in values.items() if value is not None}
    return plain if kind is None else {"kind": kind, **plain}


def from_plain(expected: Any, value: Any, where: str = "") -> Any:
    """The dataclass that `value` describes. Fields that are not named keep their defaults."""
    members = members_of(expected)
    if (value is None and types.NoneType in members) or any(is_one(type(value), member) for member in members):
        return value
    inner = typing.get_args(expected)[0] if typing.get_origin(expected) is tuple else None
    if inner and isinstance(value, list | tuple) and (dataclasses.is_dataclass(inner) or has_choices(inner)):
        return tuple(from_plain(inner, one, f"{where}.{i}") for i, one in enumerate(value))
    given = dict(value) if isinstance(value, dict) else {"kind": value}
    classes: list[Any] = [member for member in members if dataclasses.is_dataclass(member)]
    if has_choices(expected) and ("kind" in given or len(classes) != 1):
        return build(kind_named(expected, given.pop("kind", None), where), given, where)
    if len(classes) == 1:
        if not isinstance(value, dict):
            raise SettingError(f"{where}: {value!r} came; input should be a dictionary, of {classes[0].__name__}")
        return build(classes[0], value, where)
    return checked(expected, value, where)


def build(cls: Any, given: dict[str, Any], where: str) -> Any:
    hints = typing.get_type_hints(cls)
    values = {}
    for name, value in given.items():
        must_be_known(cls, name, f"{where}.{name}".lstrip("."))
        values[name] = from_plain(hints[name], value, f"{where}.{name}".lstrip("."))
    try:
        return cls(**values)
    except TypeError as error:
        raise SettingError(f"{where}: {error}") from None


def members_of(expected: Any) -> tuple[Any, ...]:
    """The types that a union leaves open; of any other type itself."""
    is_union = typing.get_origin(expected) in (types.UnionType, typing.Union)
    return typing.get_args(expected) if is_union else (expected,)


def is_one(cls: type, expected: Any) -> bool:
    """Whether a dataclass is of the expected type."""
    if not dataclasses.is_dataclass(cls) or not isinstance(expected, type):
        return False
    if expected is Layer:  # a protocol, which `issubclass` does not take
        return all(callable(getattr(cls, method, None)) for method in ("init", "forward", "backward"))
    return issubclass(cls, expected)


def kinds_of(expected: Any) -> dict[str, type]:
    """The named choices that a type leaves open, of those that are imported."""
    found: dict[str, type] = {}
    members = [
        member for member in members_of(expected) if isinstance(member, type) and member.__module__ != "builtins"
    ]
    for what in registry.KINDS:
        for name, cls in registry.registered(what).items():
            if any(is_one(cls, member) for member in members):
                found.setdefault(name, cls)
    return found


def has_choices(expected: Any) -> bool:
    return bool(kinds_of(expected))


def kind_named(expected: Any, kind: Any, where: str) -> type:
    """The class that a kind names; of an installed package it is imported now."""
    if isinstance(kind, str):
        for what in registry.KINDS:
            cls = registry.find(what, kind)
            if isinstance(cls, type) and any(is_one(cls, member) for member in members_of(expected)):
                return cls
    kinds = kinds_of(expected)
    groups = [what for what in registry.KINDS if set(registry.registered(what).values()) & set(kinds.values())]
    others = (name for what in groups[:1] for name in registry.names(what) if name not in registry.registered(what))
    known = [*dict.fromkeys([*kinds, *others])]
    raise SettingError(
        f"{where}.kind: {kind!r} came{nearest(str(kind), known)}, expected {', '.join(known)}; {OWN}".lstrip(".")
    )


def must_be_known(cls: Any, name: str, where: str) -> None:
    known = [field.name for field in dataclasses.fields(cls)]
    if name not in known:
        raise SettingError(
            f"{where}: {cls.__name__} has no setting {name!r}{nearest(name, known)}; "
            f"it has {', '.join(known) or 'none'}"
        )


def with_changes(settings: Settings, changes: list[str]) -> Settings:
    """The same settings with each `name=value` applied, in order; a dot reaches into a part."""
    for change in changes:
        name, equals, text = change.partition("=")
        if not equals:
            raise SettingError(f"{change!r} is not a setting; write name=value, such as model.width=32")
        settings = with_change(settings, name.strip(), parse(text.strip()), name.strip())
    return settings


def with_change(settings: Any, name: str, value: Any, full_name: str) -> Any:
    first, _, rest = name.partition(".")
    must_be_known(type(settings), first, full_name)
    expected = typing.get_type_hints(type(settings))[first]
    if rest:
        part = getattr(settings, first)
        if not dataclasses.is_dataclass(part):
            raise SettingError(f"{full_name}: {first} is a plain value and has no setting {rest!r}")
        if rest == "kind" and has_choices(expected):
            value = from_plain(expected, value, full_name.removesuffix(".kind"))
        else:
            value = with_change(part, rest, value, full_name)
    else:
        value = from_plain(expected, value, full_name)
    return dataclasses.replace(settings, **{first: value})


def parse(text: str) -> Any:
    """As TOML reads it; a bare word is text."""
    try:
        return parse_toml(f"value = {text}", "", SettingError)["value"]
    except SettingError:
        return text


def checked(expected: Any, value: Any, name: str) -> Any:
    """The value, of the expected type: a whole number will do for a float, but "5" and true are no numbers."""
    if type(value) is expected:  # most are, and a command need not import what would say so
        return value
    try:
        from pydantic import ValidationError
    except ImportError:  # a bare JAX machine: settings are taken as they come
        return bare(value)
    try:
        return validator(expected).validate_python(bare(value), strict=True)
    except ValidationError as error:
        message = error.errors()[0]["msg"]
        raise SettingError(f"{name}: {value!r} came; {message[0].lower()}{message[1:]}") from None


@lru_cache(maxsize=512)
def validator(expected: Any) -> Any:
    """Made once for each type: to make one takes as long as a hundred checks."""
    from pydantic import TypeAdapter

    return TypeAdapter(expected)


def bare(value: Any) -> Any:
    """Lists as tuples, numbers of NumPy as those of Python."""
    if isinstance(value, list | tuple):
        return tuple(map(bare, value))
    return value.item() if isinstance(value, np.generic) else value


def to_toml(plain: dict[str, Any]) -> str:
    """Nested dictionaries of plain values as TOML."""
    import tomlkit  # here: a machine that only reads recipes needs none

    return tomlkit.dumps(plain)


def must_survive(settings: Any) -> None:
    """Refuse settings that would not be the same when they are read back from the file that they are written to."""
    if why := unregistered(settings) or unwritable(to_plain(settings)):
        raise SettingError(f"the recipe cannot be written down: {why}")
    try:
        back = from_plain(type(settings), tomllib.loads(to_toml(to_plain(settings))))
    except (SettingError, TypeError, ValueError) as error:
        raise SettingError(f"the recipe cannot be written down and read back: {error}") from None
    if back != settings:
        raise SettingError(f"the recipe cannot be written down and read back: {difference(settings, back)}")


def unwritable(plain: Any, name: str = "") -> str:
    """The first value that no file can hold so that it means the same again, and what to do."""
    if isinstance(plain, dict | list):
        inside = plain.items() if isinstance(plain, dict) else enumerate(plain)
        return next(filter(None, (unwritable(value, f"{name}.{key}".lstrip(".")) for key, value in inside)), "")
    if isinstance(plain, float) and math.isnan(plain):
        return f"{name} is nan, expected a number"
    if isinstance(plain, str) and not plain.isascii() and plain.encode("utf-8", "ignore").decode() != plain:
        return f"{name} is {plain!r}, which is not Unicode text; give the file or folder another name"
    return ""


def parts_of(settings: Any, name: str) -> Iterator[tuple[str, Any, Any]]:
    """Dotted name, expected type and value of every setting."""
    for field, expected in typing.get_type_hints(type(settings)).items():
        if field in {one.name for one in dataclasses.fields(settings)}:
            yield f"{name}.{field}".lstrip("."), expected, getattr(settings, field)


def unregistered(settings: Any, name: str = "") -> str:
    """The first part that a recipe has no name for, and what to do."""
    for inner, expected, value in parts_of(settings, name):
        if not dataclasses.is_dataclass(value) or isinstance(value, type):
            continue
        if expected is not type(value) and registry.kind_of(type(value)) is None:
            cls, what = type(value).__name__, REGISTERED_AS.get(getattr(expected, "__name__", ""), "part")
            return (
                f"{inner} is {cls}, which has no name; register it: `from glassformer import register`, and "
                f'@register.{what}("{cls.lower()}") above the class'
            )
        if found := unregistered(value, inner):
            return found
    return ""


def difference(settings: Any, back: Any, name: str = "") -> str:
    for inner, _, value in parts_of(settings, name):
        other = getattr(back, inner.rpartition(".")[2], None)
        if value != other:
            same = dataclasses.is_dataclass(value) and type(value) is type(other)
            return difference(value, other, inner) if same else f"{inner} is {value!r}, and would become {other!r}"
    return f"{type(settings).__name__} is not equal to itself"
