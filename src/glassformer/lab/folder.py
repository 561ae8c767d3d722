"""A study folder: the plan as it stands, every record, and the report. Enough to go on, to grow, and to repeat it.

plan.toml      the plan; a plan that asks for more takes its place, one that asks for something else is refused
data.json      what the data is by its content, where it lay, and what guessing scores on it
arms.json      what was settled for each arm: tuned settings, what was matched
looks.jsonl    when the study was looked at, and which arms stopped there
results.jsonl  one line a run: record.py
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from glassformer.data.text_sources import existing
from glassformer.errors import CheckpointError, DataError, FileError, GlassformerError
from glassformer.files import PART, write_whole
from glassformer.lab.cells import key_by_path, key_of
from glassformer.lab.data_identity import identity
from glassformer.lab.outcome import Chance
from glassformer.lab.plan import Arm, Factor, Group, Plan, parse
from glassformer.lab.record import FILE
from glassformer.reading import MOST_TOML, read_text

PLAN, DATA, ARMS = "plan.toml", "data.json", "arms.json"
MOST_JSON = 1 << 24  # bytes


def begin(plan: Plan, folder: Path) -> bool:
    """Ready to be worked on. True: it was begun before, and goes on."""
    there = names_in(folder)
    if PLAN in there:
        must_be_of(plan, folder)
        if text_of(folder) != plan.text:
            write_whole(folder / PLAN, plan.text)
        remember_data(plan, folder)
        return FILE in there
    if there:
        raise FileError(f"{folder}: there are files, and none is {PLAN}; choose an empty folder with --out")
    write_whole(folder / PLAN, plan.text)
    remember_data(plan, folder)
    return False


def must_be_of(plan: Plan, folder: Path) -> None:
    """Refuse a folder that holds another study, or other data. One that the plan only adds to is the same study."""
    if text_of(folder) != plan.text:
        changed = list(lost(plan_of(folder), plan))
        if changed:
            raise CheckpointError(
                f"{folder}: the study there has another plan ({PLAN} differs: {', '.join(changed)}); factors, values "
                "and seeds can be added to a study, not changed; choose another folder with --out, or go on with its "
                f"own plan: glassformer investigate {folder}"
            )
    must_be_same_data(plan, folder)


def lost(old: Plan, new: Plan) -> Iterator[str]:
    """What of the old plan is not, or is otherwise, in the new one: its results would be mixed with others."""
    if key_of(old.baseline, new.identity) != key_of(new.baseline, new.identity):
        yield "the baseline"
    if missing := set(old.seeds) - set(new.seeds):
        yield f"seeds {sorted(missing)} are left out"
    for one in old.factors:
        other = new.by_name.get(one.name)
        if other is None or decisive(one) != decisive(other):
            yield f"factor {one.name!r}" + (" is left out" if other is None else "")
    for group in (old.group(""), *old.groups):
        other = {one.name: one for one in (new.group(""), *new.groups)}.get(group.name)
        if other is None or decisive(group) != decisive(other):
            yield f"group {group.name!r}" if group.name else "tune or match"
    if old.tune_seeds != new.tune_seeds:
        yield "tune_seeds"


def decisive(part: Factor | Group) -> tuple[Any, ...]:
    """What decides the numbers."""
    if isinstance(part, Factor):
        return part.changes, part.on, part.group, part.comparator, part.tune
    return part.changes, part.measure, part.tune, part.match


def plan_of(folder: Path) -> Plan:
    """As it stands there, with its data where that lies now, and with what was settled."""
    plan = parse(text_of(folder), folder.absolute().name, folder)
    known = data_of(folder)
    if known and existing(plan.baseline.data) is None and known.get("identity", "").startswith("sha256:"):
        near = Path(os.path.normpath(folder.absolute() / known.get("near", "")))
        if near.exists():  # moved together
            plan = replace(plan, baseline=replace(plan.baseline, data=str(near)))
        plan = replace(plan, data=known["identity"])
    return with_arms(plan, folder)


def with_arms(plan: Plan, folder: Path) -> Plan:
    """With what was settled for its arms."""
    for one in read_json(folder / ARMS).get("arms", []):
        names = plan.in_order(one["factors"])
        if len(names) == len(one["factors"]):
            plan.arms.setdefault((names, one["group"]), Arm(one["changes"], one["about"]))
            plan.cells.pop((names, one["group"]), None)
    return plan


def save_arms(plan: Plan, folder: Path) -> None:
    arms = [{"factors": names, "group": group, **arm._asdict()} for (names, group), arm in plan.arms.items()]
    if arms:
        write_whole(folder / ARMS, json.dumps({"arms": arms}, indent=1, default=list) + "\n")


def must_be_same_data(plan: Plan, folder: Path) -> None:
    before = data_of(folder).get("identity")
    if before is None or existing(plan.baseline.data) is None:
        return  # an earlier release began it, or there is nothing to compare: reading the data will say so
    now = identity(plan.baseline.data)
    if before != now:
        raise DataError(
            f"{plan.baseline.data}: it is not the data that {folder} was begun with ({now[:19]}… now, {before[:19]}… "
            "then), and results on different data cannot be compared; put the old data back, or start another study "
            "with --out"
        )


def remember_data(plan: Plan, folder: Path) -> None:
    known = data_of(folder)
    path = existing(plan.baseline.data)
    found = {**known, "name": plan.baseline.data, "identity": plan.identity}
    if path is not None:
        found["near"] = Path(os.path.relpath(path.absolute(), folder.absolute())).as_posix()
    if found != known and (path is not None or not plan.identity.startswith(("/", "."))):
        write_whole(folder / DATA, json.dumps(found, indent=1) + "\n")


def remember_chance(folder: Path, chance: dict[str, Chance]) -> None:
    known = data_of(folder)
    found = {**known, "chance": {part: asdict(one) for part, one in chance.items()}}
    if found != known:
        write_whole(folder / DATA, json.dumps(found, indent=1) + "\n")


def chance_of(folder: Path) -> dict[str, Chance]:
    try:
        return {part: Chance(**one) for part, one in data_of(folder).get("chance", {}).items()}
    except TypeError:
        raise damaged(folder / DATA) from None


def data_of(folder: Path) -> dict[str, Any]:
    return read_json(folder / DATA)


def read_json(path: Path) -> dict[str, Any]:
    """Nothing where there is no such file."""
    if not path.exists():
        return {}
    try:
        found = json.loads(read_text(path, MOST_JSON))
    except (ValueError, RecursionError):
        raise damaged(path) from None
    if not isinstance(found, dict):
        raise damaged(path)
    return found


def damaged(path: Path) -> GlassformerError:
    return FileError(f"{path}: is damaged; remove it: it is written again when the study goes on")


def old_keys(plan: Plan, folder: Path) -> bool:
    """Whether records may stand under keys of the data's path: a study of own data that an earlier release began."""
    return not data_of(folder) and key_by_path(plan.baseline) != key_of(plan.baseline, plan.identity)


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
