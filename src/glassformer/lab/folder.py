"""A study folder: the plan as it was begun, every record, and the report. Enough to go on, and to repeat it."""

from dataclasses import replace
from pathlib import Path

from glassformer.errors import CheckpointError, FileError
from glassformer.files import PART, write_whole
from glassformer.lab.plan import Plan, parse
from glassformer.lab.record import FILE
from glassformer.reading import MOST_TOML, read_text

PLAN = "plan.toml"


def begin(plan: Plan, folder: Path) -> bool:
    """Ready to be worked on. True: it was begun before, and goes on."""
    there = names_in(folder)
    if PLAN in there:
        must_be_of(plan, folder)
        return FILE in there
    if there:
        raise FileError(f"{folder}: there are files, and none is {PLAN}; choose an empty folder with --out")
    write_whole(folder / PLAN, plan.text)
    return False


def must_be_of(plan: Plan, folder: Path) -> None:
    """Refuse a folder that holds another study. One plan may be written in several ways, by other releases, say."""
    if text_of(folder) != plan.text and replace(plan_of(folder), name=plan.name, text=plan.text) != plan:
        raise CheckpointError(
            f"{folder}: the study there has another plan ({PLAN} differs); choose another folder with --out, or "
            f"go on with its own plan: glassformer investigate {folder}"
        )


def plan_of(folder: Path) -> Plan:
    return parse(text_of(folder), folder.absolute().name, folder)


def text_of(folder: Path) -> str:
    try:
        return read_text(folder / PLAN, MOST_TOML)
    except FileError as error:
        raise FileError(f"{error}; no study is here: name the folder of one with --out") from None


def names_in(folder: Path) -> set[str]:
    """But for what is being written at this moment, or was when somebody was killed."""
    try:
        return {file.name for file in folder.iterdir() if file.suffix != PART} if folder.exists() else set()
    except OSError as error:
        raise FileError(
            f"{folder}: no study can be kept here: {error.strerror or error}; choose another folder with --out"
        ) from None
