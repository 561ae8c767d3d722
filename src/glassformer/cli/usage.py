"""A value that the program refuses is wrong usage, like one that cannot be read: status 2, and the option's name."""

import contextlib
from collections.abc import Iterator

import typer


@contextlib.contextmanager
def value_of(option: str) -> Iterator[None]:
    from glassformer.errors import SettingError, UnknownNameError

    try:
        yield
    except (SettingError, UnknownNameError) as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
