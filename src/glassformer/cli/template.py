"""glassformer template: files to begin from, for a model of your own."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def template(
    what: Annotated[Literal["model"], typer.Argument(help="model: a layer, a model, its test and its recipe")],
    folder: Annotated[Path, typer.Argument(help="folder to write into; what is there stays as it is")],
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Write a small model of your own, with a layer, a test and a recipe, that trains as it is.

    Example: `glassformer template model mine`, then `cd mine` and
    `glassformer train --code my_model.py --recipe recipe.toml`
    """
    from importlib.resources import files

    from glassformer.cli.output import report
    from glassformer.errors import FileError
    from glassformer.files import write_whole

    parts = {part.name: part for part in (files("glassformer") / "templates" / what).iterdir() if part.is_file()}
    there = sorted(name for name in parts if (folder / name).exists())
    if there:
        raise FileError(f"{folder / there[0]}: is there already, and nothing is overwritten; choose another folder")
    for name, part in sorted(parts.items()):
        write_whole(folder / name, part.read_text())
    result = {"folder": str(folder), "files": sorted(parts)}
    first = "" if folder.resolve() == Path.cwd() else f"cd {folder}\n"
    text = f"{', '.join(sorted(parts))}\n\n{first}glassformer train --code my_model.py --recipe recipe.toml"
    report(result, text, as_json=json)
