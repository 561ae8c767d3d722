"""The runs in a folder: what they are called, what they read, how far they are. They may appear and grow meanwhile.

A name from outside is only ever looked up in the list that was made from the folder; no path is made of it. Whoever
may have written into a folder, it costs its own row and nothing else: its files are read in another process, which is
killed where that takes too long (work_queue.py), and the row says what is wrong.
"""

import asyncio
import csv
import os
import stat
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from importlib.resources import files
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, cast

from safetensors import SafetensorError, safe_open

from glassformer.data.dataset import IMAGES, TEXTS
from glassformer.errors import CheckpointError, GlassformerError
from glassformer.lens.studio.http_errors import HTTPError
from glassformer.predict.run import SHIPPED
from glassformer.reading import parse_json, read_json, read_text
from glassformer.train.run_folder import TOKENISER, Row, RunFolder

COMES_ALONG = "-"  # the name of the model that comes with the package
MOST = 1000  # runs in the list
FINISHED, TRAINING, STOPPED, BROKEN = "finished", "training", "stopped", "broken"
WEIGHTS, STATE, STATES = "model.safetensors", "state.safetensors", "state"
FILES = ("recipe.toml", WEIGHTS, STATE, "log.csv", "metrics.json")
MOST_WEIGHTS = 8 << 30  # bytes: GPT-2 XL in float32 takes six
MOST_HEAD = 16 << 20  # bytes of a weights file before its arrays: their names and shapes
MOST_CLASSES = 30_000
LONGEST = 500  # characters of what is wrong, of a name
MOST_LOG = 16 << 20  # bytes; an epoch takes 80
LIST_SECONDS = 2.0  # that who asks for the list waits for runs that are still being read


class Stamp(NamedTuple):
    """When and how large: a file that was written anew has another."""

    time: int
    size: int


def stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return Stamp(found.st_mtime_ns, found.st_size)


class Place(NamedTuple):
    """A run, and the folder that its files must lie in."""

    path: Path
    root: Path

    def check(self) -> None:
        """Plain files of its own: no link that leads out, nothing that is endless."""
        for name in (*FILES, TOKENISER):
            file = self.path / name
            with reading(name):
                if not file.resolve().is_relative_to(self.root):
                    raise CheckpointError(f"{name}: a link that leads out of the folder; put the file itself there")
                with suppress(FileNotFoundError):
                    found = file.stat()
                    if not stat.S_ISREG(found.st_mode):
                        raise CheckpointError(f"{name}: is not a plain file; put the file itself there")
                    if name == WEIGHTS and found.st_size > MOST_WEIGHTS:
                        raise CheckpointError(f"{name}: is larger than {MOST_WEIGHTS >> 30} GiB; too large to look at")


@contextmanager
def reading(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:  # among them links that lead to each other
        raise CheckpointError(f"{name}: cannot be read ({getattr(error, 'strerror', None) or error})") from None


@dataclass(frozen=True)
class Standing:
    """How far a run is."""

    state: str
    of: int  # epochs that are wanted
    rows: tuple[dict[str, Any], ...]  # one for each epoch, as in the log
    weights: tuple[Stamp | None, Stamp | None]  # of the kept weights, and of the last state


def standing_of(place: Place) -> Standing:
    place.check()
    path = place.path
    finished = is_finished(path)  # first: what is read after it is then the last there is
    rows = rows_of(path / "log.csv")
    of = RunFolder(path).recipe().training.epochs
    state = FINISHED if finished else unfinished_state(path)
    return Standing(state, of, rows, (stamp(path / WEIGHTS), stamp(path / STATE)))


def rows_of(path: Path) -> tuple[dict[str, Any], ...]:
    """The log, its percentages as shares of one. A run that has not finished an epoch has none."""
    if not path.exists():
        return ()
    try:
        lines = list(csv.DictReader(read_text(path, MOST_LOG, CheckpointError).splitlines()))
        return tuple(row_of(line) for line in lines)
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise CheckpointError(f"{path}: not a log of epochs ({error})") from None


def row_of(line: dict[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        field.name: float(line[field.name]) if line.get(field.name) else None for field in fields(Row)
    }
    for name in ("test_accuracy", "val_accuracy", "ema_test_accuracy", "ema_val_accuracy"):
        row[name] = None if row[name] is None else row[name] / 100
    return {**row, "epoch": int(line["epoch"])}


def is_finished(path: Path) -> bool:
    """A run that came from elsewhere has weights, and never had a state."""
    has_state = (path / STATE).exists() or (path / STATES).exists()
    return (path / "metrics.json").is_file() or ((path / WEIGHTS).is_file() and not has_state)


def unfinished_state(path: Path) -> str:
    """A run that was killed leaves no word, but nobody holds its lock any more."""
    return TRAINING if RunFolder(path).is_live() else STOPPED


def times_of(path: Path) -> tuple[Stamp | None, ...]:
    return tuple(stamp(path / name) for name in FILES)


def last_change(path: Path) -> float:
    return max((found.time / 1e9 for found in times_of(path) if found), default=0.0)


Described = dict[str, Any]  # everything the list says of a run but its state, which depends on the time


class Runs:
    """The list. What was read of a run is kept until one of its files changes."""

    def __init__(self, folder: Path, describe: Callable[[Place], Awaitable[Described]]) -> None:
        self.folder, self.describe = folder, describe
        self.known: dict[str, Path] = {}  # as it was found last
        self.read: dict[Path, tuple[Any, Described]] = {}
        self.waiting: dict[Path, Any] = {}  # runs that are still to be read
        self.task: asyncio.Task[None] | None = None

    def folders(self) -> dict[str, Path]:
        """Name -> folder, of every run that lies there, newest first; a link that leads out of it is none."""
        root = self.folder.resolve()
        found = {root.name: root} if is_run(root) else dict(runs_in(root, root))
        newest = sorted(found, key=lambda name: last_change(found[name]), reverse=True)[:MOST]
        return {name: found[name] for name in newest}

    def place_of(self, name: str) -> Place:
        if name == COMES_ALONG:
            return self.place(shipped())
        found = self.known.get(name)
        if found is None or not (is_run(found) and is_inside(found, self.folder.resolve())):
            self.known = self.folders()
            found = self.known.get(name)
        if found is None or not is_sayable(name):
            raise HTTPError(404, f"there is no run called {name[:100]!r}; /api/runs lists those that there are")
        return self.place(found)

    def place(self, path: Path) -> Place:
        return Place(path, path if path == shipped() else self.folder.resolve())

    async def listed(self) -> dict[str, Any]:
        """Every run; of those that are still being read when the time is over, that they are."""
        found = await asyncio.to_thread(self.found)
        self.read = {path: kept for path, kept in self.read.items() if path in found}
        self.waiting = {path: now for path, now in found.items() if self.read.get(path, (None,))[0] != now}
        if self.waiting:
            if self.task is None or self.task.done():
                self.task = asyncio.create_task(self.read_waiting())
            while not (self.read or self.task.done()):  # the process that reads is being started
                await asyncio.wait({self.task}, timeout=0.05)
            await asyncio.wait({self.task}, timeout=LIST_SECONDS)
        return await asyncio.to_thread(self.rows)

    def found(self) -> dict[Path, Any]:
        """Each run, and when its files were written; first the one that is known to be sound."""
        self.known = self.folders()
        return {path: times_of(path) for path in (shipped(), *self.known.values())}

    async def read_waiting(self) -> None:
        while self.waiting:
            path, now = next(iter(self.waiting.items()))
            try:
                found = await self.describe(self.place(path))
            except Exception as error:  # stopped, or its process died of it
                found = {**UNKNOWN, "error": f"cannot be read: {error}"}
            self.read[path] = now, found
            self.waiting.pop(path, None)

    def rows(self) -> dict[str, Any]:
        rows = [self.about(name, path) for name, path in self.known.items()]
        ready = (row["name"] for row, path in zip(rows, self.known.values(), strict=True) if has_weights(row, path))
        along = {**self.about(COMES_ALONG, shipped()), "title": f"{SHIPPED}, comes along"}
        return {"runs": [*rows, along], "start": next(ready, COMES_ALONG)}

    def about(self, name: str, path: Path) -> dict[str, Any]:
        plain = self.read.get(path, (None, STILL_READ))[1]
        if not is_sayable(name) and path != shipped():
            shown = name.encode(errors="surrogateescape").decode(errors="backslashreplace")
            name, plain = f"./{shown}", {**plain, "error": "its name cannot be sent; give the folder another"}
        state = BROKEN if plain["error"] else FINISHED if is_finished(path) else unfinished_state(path)
        return {"name": name, "title": name, **plain, "state": state}


UNKNOWN: dict[str, Any] = {
    **dict.fromkeys(("kind", "task", "model", "parameters", "data", "shape", "context", "of", "accuracy", "error")),
    "classes": [],
    "epochs": 0,
}
STILL_READ: Described = {**UNKNOWN, "error": "is still being read"}


def described(place: Place) -> Described:
    plain, path = dict(UNKNOWN), place.path
    rows: tuple[dict[str, Any], ...] = ()
    try:
        place.check()
        recipe = RunFolder(path).recipe()
        model, given = recipe.model, cast(Any, recipe.model.input)
        is_image, is_text = given.reads == IMAGES, given.reads == TEXTS
        plain |= {
            "kind": "image" if is_image else "text" if is_text else "row",
            "task": recipe.task.name,
            "model": type(model).__name__,
            "data": recipe.data[:LONGEST],
            "shape": list(given.shape) if is_image else None,
            "context": given.context if is_text else None,
            "of": recipe.training.epochs,
        }
        rows = rows_of(path / "log.csv")
        plain |= {"epochs": len(rows), "parameters": count_parameters(path)}
        classes = about_file(path / WEIGHTS).get("classes") or range(given.classes)
        if not isinstance(classes, list | range) or len(classes) > MOST_CLASSES:
            raise CheckpointError(f"{WEIGHTS}: expected the names of at most {MOST_CLASSES:,} classes")
        metrics = read_metrics(path / "metrics.json")
        plain |= {
            "classes": [str(name)[:LONGEST] for name in classes],
            "epochs": metrics.get("epochs", len(rows)),
            "accuracy": metrics.get("test_accuracy", rows[-1]["test_accuracy"] if rows else None),
        }
    except GlassformerError as error:
        plain["error"] = str(error)[:LONGEST]
    except Exception as error:  # whatever lies there: one folder does not take the list down
        plain["error"] = f"cannot be read ({type(error).__name__}: {error})"[:LONGEST]
    return plain


def read_metrics(path: Path) -> dict[str, Any]:
    """Numbers alone are taken over."""
    found = read_json(path, CheckpointError) if path.exists() else {}
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: not the result of a run; expected a JSON object")
    return {key: value for key, value in found.items() if isinstance(value, int | float) or value is None}


def about_file(path: Path) -> dict[str, Any]:
    """What stands beside the arrays of a weights file; nothing where there is no file yet."""
    if not path.exists():
        return {}
    with opened(path) as file:
        about = parse_json((file.metadata() or {}).get("glassformer", "{}"), path, CheckpointError)
    return about if isinstance(about, dict) else {}


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """A weights file whose head is no larger than any needs."""
    try:
        with path.open("rb") as file:
            if int.from_bytes(file.read(8), "little") > MOST_HEAD:
                raise CheckpointError(f"{path}: its head takes more than {MOST_HEAD >> 20} MiB, which none needs")
        with safe_open(path, framework="numpy") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: damaged or not a safetensors file ({error})") from None


def count_parameters(path: Path) -> int | None:
    """From the sizes in the file's head; the arrays are not read. Before the first epoch is over, from the state."""
    for name, prefix in ((WEIGHTS, ""), (STATE, "state.params.")):
        if (path / name).exists():
            with opened(path / name) as file:
                shapes = [file.get_slice(k).get_shape() for k in file.keys() if k.startswith(prefix)]  # noqa: SIM118
            return sum(map(prod, shapes))
    return None


def has_weights(row: dict[str, Any], path: Path) -> bool:
    return row["state"] != BROKEN and (path / WEIGHTS).is_file()


def is_run(path: Path) -> bool:
    """Whatever its recipe.toml is: one that cannot be read is said in its row."""
    return os.path.lexists(path / "recipe.toml")


def runs_in(folder: Path, root: Path) -> Any:
    """The runs right in a folder; of one trained with several seeds, those of each: `vit-nano-1/seed-0`."""
    try:
        inside = sorted(one for one in folder.iterdir() if one.is_dir() and not one.name.startswith("."))
    except OSError:
        return
    for path in inside:
        if not is_inside(path, root):
            continue
        if is_run(path):
            yield path.relative_to(root).as_posix(), path
        elif folder == root:
            yield from ((name, one) for name, one in runs_in(path, root) if one.name.startswith("seed-"))


def is_inside(path: Path, root: Path) -> bool:
    """Links followed."""
    return path.resolve().is_relative_to(root)


def is_sayable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return name != COMES_ALONG


def shipped() -> Path:
    return Path(str(files("glassformer") / "shipped" / SHIPPED))
