"""Settings from outside, TOML or `name=value`, checked once on the way in against the types of the frozen dataclasses.

Where a type leaves a choice (which model, how positions start), `kind` names it: `model.kind = "vit"`; a bare word
stands for the kind with its defaults: `start = "sinusoidal"`. Unknown keys are refused with the nearest known one.
"""

import dataclasses
import json
import tomllib
import types
import typing
from typing import Any, TypeVar

import numpy as np

from glassformer.data.tokeniser_training import BytePairs, Characters
from glassformer.errors import SettingError
from glassformer.layers import GELU, GELUTanh, ReLU, Rotary, SiLU
from glassformer.layers.positions import GridSinusoidal, Sinusoidal, Uniform, Xavier, Zero
from glassformer.models import MODELS, BERTFor, ClassHead, MaskedHead, SpanHead, TagHead
from glassformer.models.patch_block import Bare, Normed, NormedResidual, WithResidual
from glassformer.names import nearest
from glassformer.train.tasks import TASKS

Settings = TypeVar("Settings")

KINDS: dict[str, type] = {
    **MODELS,
    **TASKS,
    "bert-for": BERTFor,
    "class-head": ClassHead,
    "tag-head": TagHead,
    "span-head": SpanHead,
    "masked-head": MaskedHead,
    "characters": Characters,
    "byte-pairs": BytePairs,
    "rotary": Rotary,
    "gelu": GELU,
    "gelu-tanh": GELUTanh,
    "relu": ReLU,
    "silu": SiLU,
    "uniform": Uniform,
    "xavier": Xavier,
    "zero": Zero,
    "sinusoidal": Sinusoidal,
    "grid-sinusoidal": GridSinusoidal,
    "bare": Bare,
    "residual": WithResidual,
    "normed": Normed,
    "normed-residual": NormedResidual,
}
KIND_OF = {cls: name for name, cls in KINDS.items()}


def to_plain(settings: Any) -> Any:
    """Dataclasses as dictionaries, for TOML and JSON; `from_plain` undoes it. What is None is left out."""
    if not dataclasses.is_dataclass(settings):
        return list(settings) if isinstance(settings, tuple) else settings
    kind = {"kind": KIND_OF[type(settings)]} if type(settings) in KIND_OF else {}
    values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    return kind | {name: to_plain(value) for name, value in values.items() if value is not None}


def from_plain(expected: Any, value: Any, where: str = "") -> Any:
    """The dataclass that `value` describes. Fields that are not named keep their defaults."""
    kinds = kinds_of(expected)
    if type(value) in kinds.values() or (value is None and types.NoneType in typing.get_args(expected)):
        return value
    if kinds:
        given = dict(value) if isinstance(value, dict) else {"kind": value}
        kind = given.pop("kind", None)
        if not isinstance(kind, str) or kind not in kinds:
            raise SettingError(f"{where}.kind: {kind!r} came{nearest(str(kind), kinds)}, expected {', '.join(kinds)}")
        return build(kinds[kind], given, where)
    if dataclasses.is_dataclass(expected) and isinstance(value, dict):
        return build(expected, value, where)
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


def kinds_of(expected: Any) -> dict[str, type]:
    """The named choices a type leaves open."""
    members = typing.get_args(expected) if isinstance(expected, types.UnionType) else (expected,)
    classes = tuple(member for member in members if isinstance(member, type))
    return {name: cls for name, cls in KINDS.items() if issubclass(cls, classes)}


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
        if rest == "kind" and kinds_of(expected):
            value = from_plain(expected, value, full_name.removesuffix(".kind"))
        else:
            value = with_change(part, rest, value, full_name)
    else:
        value = from_plain(expected, value, full_name)
    return dataclasses.replace(settings, **{first: value})


def parse(text: str) -> Any:
    """As TOML reads it; a bare word is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def checked(expected: Any, value: Any, name: str) -> Any:
    """The value, of the expected type: a whole number will do for a float, but "5" and true are no numbers."""
    try:
        from pydantic import TypeAdapter, ValidationError
    except ImportError:  # a bare JAX machine: settings are taken as they come
        return bare(value)
    try:
        return TypeAdapter(expected).validate_python(bare(value), strict=not dataclasses.is_dataclass(expected))
    except ValidationError as error:
        message = error.errors()[0]["msg"]
        raise SettingError(f"{name}: {value!r} came; {message[0].lower()}{message[1:]}") from None


def bare(value: Any) -> Any:
    """Lists as tuples, numbers of NumPy as those of Python."""
    if isinstance(value, list | tuple):
        return tuple(map(bare, value))
    return value.item() if isinstance(value, np.generic) else value


def to_toml(plain: dict[str, Any], header: str = "") -> str:
    """Nested dictionaries of plain values as TOML; JSON's spelling of text, numbers and lists is TOML's too."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in plain.items() if not isinstance(value, dict)]
    text = "\n".join(([f"[{header}]"] if header else []) + lines) + "\n"
    for name, value in plain.items():
        if isinstance(value, dict):
            text += "\n" + to_toml(value, f"{header}.{name}".lstrip("."))
    return text
