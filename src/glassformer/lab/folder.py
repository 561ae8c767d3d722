"""A study folder: the plan as it was begun, every record, and the report. Enough to go on, and to repeat it."""

from pathlib import Path

from glassformer.errors import CheckpointError, FileError
from glassformer.files import write_whole
from glassformer.lab.plan import Plan, parse
from glassformer.lab.record import FILE

PLAN = "plan.toml"


def begin(plan: Plan, folder: Path) -> bool:
    """Ready to be worked on. True: it was begun before, and goes on."""
    file = folder / PLAN
    if file.is_file():
        if file.read_text() != plan.text:
            raise CheckpointError(
                f"{folder}: the study there has another plan ({PLAN} differs); choose another folder with --out, or "
                f"take its own plan: glassformer investigate {file}"
            )
        return (folder / FILE).exists()
    if folder.exists() and any(folder.iterdir()):
        raise FileError(f"{folder}: there are files, and none is {PLAN}; choose an empty folder with --out")
    write_whole(file, plan.text)
    return False


def plan_of(folder: Path) -> Plan:
    file = folder / PLAN
    try:
        return parse(file.read_text(), folder.name, folder)
    except OSError as error:
        raise FileError(f"{file}: no study is here: {error.strerror or error}") from None
