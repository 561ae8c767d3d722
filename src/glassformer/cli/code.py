"""The option --code: files of your own, imported before the command does anything else."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.registry import load_code


def load(files: list[Path] | None) -> list[Path]:
    for file in files or []:
        load_code(file)
    return files or []


Code = Annotated[
    list[Path] | None,
    typer.Option(
        "--code",
        callback=load,
        is_eager=True,
        help="a Python file that registers models, layers, tasks, losses or data of your own; several are allowed",
    ),
]
