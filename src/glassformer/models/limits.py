"""How large a model may be, told from its settings alone: before anything is traced, let alone built."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from glassformer.errors import SettingError

MOST_BLOCKS = 1024  # one after another: each takes 7 ms to trace, and the deepest published models have a thousand
LARGEST = (1 << 31) - 1  # JAX counts in 32 bits


def check_sizes(model: Any) -> None:
    """Refuse sizes that nothing can count, and more blocks than can be traced: what is repeated is called `depth`."""
    where, blocks = type(model).__name__, 0
    for name, value in sizes_in(model):
        if value > LARGEST:
            raise SettingError(f"{where}: {name} is {value:,}, expected {LARGEST:,} or less")
        blocks += value if name.endswith("depth") else name.endswith("]") and "." not in name  # hidden[0]
    if blocks > MOST_BLOCKS:
        raise SettingError(f"{where}: {blocks:,} blocks one after another came, expected {MOST_BLOCKS:,} or fewer")


def sizes_in(settings: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """Every whole number of the settings, by its name: `depth`, `images.classes`, `hidden[0]`."""
    if dataclasses.is_dataclass(settings):
        for field in dataclasses.fields(settings):
            yield from sizes_in(getattr(settings, field.name), f"{name}.{field.name}".lstrip("."))
    elif isinstance(settings, tuple):
        for i, value in enumerate(settings):
            yield from sizes_in(value, f"{name}[{i}]")
    elif type(settings) is int:
        yield name, settings
