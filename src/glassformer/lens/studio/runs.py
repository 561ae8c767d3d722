"""The runs in a folder: what they are called, what they read, how far they are. They may appear and grow meanwhile.

A name from outside is only ever looked up in the list that was made from the folder; no path is made of it.
"""

import csv
import json
import time
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, cast

from safetensors import SafetensorError, safe_open

from glassformer.data.dataset import IMAGES, TEXTS
from glassformer.errors import CheckpointError, GlassformerError
from glassformer.lens.studio.http_errors import HTTPError
from glassformer.predict.run import SHIPPED
from glassformer.train.run_folder import Row, RunFolder

COMES_ALONG = "-"  # the name of the model that comes with the package
MOST = 1000  # runs in the list
ALIVE = 90.0  # seconds: training saves its state at least once a minute
FINISHED, TRAINING, STOPPED, BROKEN = "finished", "training", "stopped", "broken"
WEIGHTS, STATE = "model.safetensors", "state.safetensors"
FILES = ("recipe.toml", WEIGHTS, STATE, "log.csv", "metrics.json")


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


@dataclass(frozen=True)
class Standing:
    """How far a run is."""

    state: str
    of: int  # epochs that are wanted
    rows: tuple[dict[str, Any], ...]  # one for each epoch, as in the log
    weights: tuple[Stamp | None, Stamp | None]  # of the kept weights, and of the last state


def standing_of(path: Path) -> Standing:
    finished = is_finished(path)  # first: what is read after it is then the last there is
    rows = rows_of(path / "log.csv")
    of = RunFolder(path).recipe().training.epochs
    state = FINISHED if finished else unfinished_state(path, rows)
    return Standing(state, of, rows, (stamp(path / WEIGHTS), stamp(path / STATE)))


def rows_of(path: Path) -> tuple[dict[str, Any], ...]:
    """The log, its percentages as shares of one. A run that has not finished an epoch has none."""
    try:
        lines = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
        return tuple(row_of(line) for line in lines)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: not a log of epochs ({error})") from None


def row_of(line: dict[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        field.name: float(line[field.name]) if line.get(field.name) else None for field in fields(Row)
    }
    for name in ("test_accuracy", "val_accuracy"):
        row[name] = None if row[name] is None else row[name] / 100
    return {**row, "epoch": int(line["epoch"])}


def is_finished(path: Path) -> bool:
    """A run that came from elsewhere has weights, and never had a state."""
    return (path / "metrics.json").is_file() or ((path / WEIGHTS).is_file() and not (path / STATE).exists())


def unfinished_state(path: Path, rows: tuple[dict[str, Any], ...]) -> str:
    """A run that was interrupted leaves no word: it is said to have stopped when its files have not changed lately."""
    longest = max((row["time"] or 0 for row in rows[-3:]), default=0)
    return TRAINING if time.time() - last_change(path) < max(ALIVE, 3 * longest) else STOPPED


def last_change(path: Path) -> float:
    return max((found.time / 1e9 for name in FILES if (found := stamp(path / name))), default=0.0)


class Runs:
    """The list. What was read of a run is kept until one of its files changes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[str, Path] = {}  # as it was found last
        self.read: dict[Path, tuple[Any, Described]] = {}

    def folders(self) -> dict[str, Path]:
        """Name -> folder, of every run that lies there, newest first; a link that leads out of it is none."""
        root = self.folder.resolve()
        found = {root.name: root} if is_run(root) else dict(runs_in(root, root))
        found = {name: path for name, path in found.items() if is_sayable(name)}
        newest = sorted(found, key=lambda name: last_change(found[name]), reverse=True)[:MOST]
        return {name: found[name] for name in newest}

    def path_of(self, name: str) -> Path:
        if name == COMES_ALONG:
            return shipped()
        found = self.known.get(name)
        if found is None or not (is_run(found) and is_inside(found, self.folder.resolve())):
            self.known = self.folders()
            found = self.known.get(name)
        if found is None:
            raise HTTPError(404, f"there is no run called {name[:100]!r}; /api/runs lists those that there are")
        return found

    def listed(self) -> dict[str, Any]:
        folders = self.folders()
        rows = [self.about(name, path) for name, path in folders.items()]
        rows.append({**self.about(COMES_ALONG, shipped()), "title": f"{SHIPPED}, comes along"})
        ready = (row["name"] for row, path in zip(rows, folders.values(), strict=False) if has_weights(row, path))
        self.read = {path: kept for path, kept in self.read.items() if path in (shipped(), *folders.values())}
        return {"runs": rows, "start": next(ready, COMES_ALONG)}

    def about(self, name: str, path: Path) -> dict[str, Any]:
        now = tuple(stamp(path / file) for file in FILES)
        if self.read.get(path, (None,))[0] != now:
            self.read[path] = now, described(path)
        plain, rows = self.read[path][1]
        state = BROKEN if plain["error"] else FINISHED if is_finished(path) else unfinished_state(path, rows)
        return {"name": name, "title": name, **plain, "state": state}


class Described(NamedTuple):
    plain: dict[str, Any]  # everything the list says of a run but its state, which depends on the time
    rows: tuple[dict[str, Any], ...]


def described(path: Path) -> Described:
    plain: dict[str, Any] = dict.fromkeys(
        ("kind", "task", "model", "parameters", "data", "shape", "context", "of", "accuracy", "error")
    )
    plain |= {"classes": [], "epochs": 0}
    rows: tuple[dict[str, Any], ...] = ()
    try:
        recipe = RunFolder(path).recipe()
        model, given = recipe.model, cast(Any, recipe.model.input)
        is_image, is_text = given.reads == IMAGES, given.reads == TEXTS
        plain |= {
            "kind": "image" if is_image else "text" if is_text else "row",
            "task": recipe.task.name,
            "model": type(model).__name__,
            "data": recipe.data,
            "shape": list(given.shape) if is_image else None,
            "context": given.context if is_text else None,
            "of": recipe.training.epochs,
        }
        rows = rows_of(path / "log.csv")
        plain |= {"epochs": len(rows), "parameters": count_parameters(path)}
        classes = about_file(path / WEIGHTS).get("classes") or range(given.classes)
        metrics = read_metrics(path / "metrics.json")
        plain |= {
            "classes": list(map(str, classes)),
            "epochs": metrics.get("epochs", len(rows)),
            "accuracy": metrics.get("test_accuracy", rows[-1]["test_accuracy"] if rows else None),
        }
    except (GlassformerError, OSError, TypeError, ValueError, KeyError, AttributeError) as error:
        plain["error"] = str(error)  # whatever lies there: one folder does not take the list down
    return Described(plain, rows)


def read_metrics(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read as JSON ({error})") from None
    return found if isinstance(found, dict) else {}


def about_file(path: Path) -> dict[str, Any]:
    """What stands beside the arrays of a weights file; nothing where there is no file yet."""
    if not path.exists():
        return {}
    try:
        with safe_open(path, framework="numpy") as file:
            about = json.loads((file.metadata() or {}).get("glassformer", "{}"))
    except (SafetensorError, ValueError, OSError) as error:
        raise CheckpointError(f"{path}: damaged or not a safetensors file ({error})") from None
    return about if isinstance(about, dict) else {}


def count_parameters(path: Path) -> int | None:
    """From the sizes in the file's head; the arrays are not read. Before the first epoch is over, from the state."""
    for name, prefix in ((WEIGHTS, ""), (STATE, "state.params.")):
        if (path / name).exists():
            try:
                with safe_open(path / name, framework="numpy") as file:
                    shapes = [file.get_slice(k).get_shape() for k in file.keys() if k.startswith(prefix)]  # noqa: SIM118
            except (SafetensorError, OSError) as error:
                raise CheckpointError(f"{path / name}: damaged or not a safetensors file ({error})") from None
            return sum(product(shape) for shape in shapes)
    return None


def product(shape: list[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def has_weights(row: dict[str, Any], path: Path) -> bool:
    return row["state"] != BROKEN and (path / WEIGHTS).is_file()


def is_run(path: Path) -> bool:
    try:
        return (path / "recipe.toml").is_file()
    except OSError:
        return False  # a folder that may not be looked into


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
