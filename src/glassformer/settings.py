"""Settings from outside: text such as `images.classes=26` checked against the types of the frozen dataclasses."""

import dataclasses
import tomllib
import typing
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from glassformer.errors import SettingError
from glassformer.names import nearest

Settings = TypeVar("Settings")


def with_changes(settings: Settings, changes: list[str]) -> Settings:
    """The same settings with each `name=value` applied, in order; a dot reaches into a part."""
    for change in changes:
        name, equals, text = change.partition("=")
        if not equals:
            raise SettingError(f"{change!r} is not a setting; write name=value, such as width=32")
        settings = with_change(settings, name.strip(), parse(text.strip()), name.strip())
    return settings


def with_change(settings: Any, name: str, value: Any, full_name: str) -> Any:
    first, _, rest = name.partition(".")
    known = [field.name for field in dataclasses.fields(settings)]
    if first not in known:
        raise SettingError(
            f"{full_name}: {type(settings).__name__} has no setting {first!r}{nearest(first, known)}; "
            f"it has {', '.join(known) or 'none'}"
        )
    if rest:
        part = getattr(settings, first)
        if not dataclasses.is_dataclass(part):
            raise SettingError(f"{full_name}: {first} is a plain value and has no setting {rest!r}")
        value = with_change(part, rest, value, full_name)
    else:
        value = checked(typing.get_type_hints(type(settings))[first], value, full_name)
    return dataclasses.replace(settings, **{first: value})


def parse(text: str) -> Any:
    """As TOML reads it; a bare word is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def checked(expected: Any, value: Any, name: str) -> Any:
    try:
        return TypeAdapter(expected).validate_python(value)
    except ValidationError as error:
        raise SettingError(
            f"{name}: {value!r} came; {error.errors()[0]['msg'][0].lower()}{error.errors()[0]['msg'][1:]}"
        ) from None
