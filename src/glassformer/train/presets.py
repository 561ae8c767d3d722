"""Recipes by name: the presets that come with the package, and recipe files of a user's own."""

from importlib.resources import files
from pathlib import Path
from typing import Any

from glassformer.errors import SettingError, UnknownNameError
from glassformer.names import nearest
from glassformer.reading import MOST_TOML, parse_toml, read_text
from glassformer.train.recipe import Recipe
from glassformer.train.settings import from_plain
from glassformer.train.weights import refuse_newer

DEFAULT = "vit-nano"
MANY = 20_000  # training images from which a preset's [many-images] part applies


def preset_names() -> list[str]:
    return sorted(
        file.name.removesuffix(".toml") for file in files("glassformer.recipes").iterdir() if ".toml" in file.name
    )


def about_preset(name: str) -> str:
    """In one line, as its file begins."""
    first, _, _ = (files("glassformer.recipes") / f"{name}.toml").read_text().partition("\n")
    return first.removeprefix("# ")


def preset(name: str, images: int = 0) -> Recipe:
    """The preset as it is meant for a data set of so many training images."""
    if name not in preset_names():
        raise UnknownNameError(
            f"no preset is called {name!r}{nearest(name, preset_names())}; known: {', '.join(preset_names())}"
        )
    return from_text((files("glassformer.recipes") / f"{name}.toml").read_text(), name, images)


def recipe_file(path: Path, images: int = 0) -> Recipe:
    return from_text(read_text(path, MOST_TOML), str(path), images)


def from_text(text: str, where: str, images: int) -> Recipe:
    plain = parse_toml(text, where, SettingError)
    refuse_newer(plain.pop("format", 0), where)  # the recipe.toml of a run has it
    many = plain.pop("many-images", {})
    if not isinstance(many, dict):
        raise SettingError(f"{where}: many-images is {many!r}, expected a table of settings, [many-images]")
    few = from_plain(Recipe, plain)
    for_many = from_plain(Recipe, merged(plain, many), "many-images")  # a mistake shows whatever the data
    return for_many if images >= MANY else few


def merged(plain: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Nested dictionaries, the second written over the first."""
    result = dict(plain)
    for name, value in over.items():
        inner = result.get(name)
        result[name] = merged(inner, value) if isinstance(value, dict) and isinstance(inner, dict) else value
    return result
