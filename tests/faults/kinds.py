"""What is disturbed: commands on small data, how each goes on, and what must come of it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

OUT = "run"
PLAN = """\
question = "Why?"
seeds = 4

[baseline]
settings = {{ data = "{data}", model = {{ kind = "mlp", hidden = [5] }}, optimiser = {{ lr = 0.01 }}, \
engine = {{ name = "native" }}, training = {{ epochs = 2, batch = 10 }} }}

[factors.fast]
hypothesis = "the learning rate is too small"
set = {{ "optimiser.lr" = 0.3 }}

[factors.batch]
set = {{ "training.batch" = 5 }}
"""
TIMED = ("train_seconds", "seconds", "compile_seconds", "time")


@dataclass(frozen=True)
class Kind:
    """Commands of one kind, tried in turn."""

    commands: tuple[str, ...]  # with --out
    goes_on: Callable[[Path, str], str | None]  # after it was killed; None: it was done

    def command(self, number: int, work: Path) -> str:
        return self.commands[number % len(self.commands)].format(work=work)


def resumed(folder: Path, command: str) -> str:
    begun = any((folder / OUT / name).exists() for name in ("recipe.toml", "seeds.toml"))
    return f"train --resume {OUT}" if begun else command


def repeated(folder: Path, command: str) -> str:
    return command


def imported(folder: Path, command: str) -> str | None:
    """The recipe comes last."""
    return None if (folder / OUT / "recipe.toml").exists() else command


MLP = "train mlp --data {work}/digits.npz --set model.hidden=[16] --set training.shift=1 --out run"
KINDS = {
    "train-native": Kind(
        (
            "train attention-pool --data {work}/digits.npz --engine native --epochs 16 --out run",
            "train vit-pico --data {work}/digits.npz --engine native --epochs 12 --out run",
        ),
        resumed,
    ),
    "train-jax": Kind((MLP + " --engine jax --epochs 10",), resumed),
    "seeds": Kind(
        (MLP + " --engine jax --epochs 6 --seeds 0-2", MLP + " --engine native --epochs 6 --seeds 0-2"),
        resumed,
    ),
    "investigate": Kind(
        (*["investigate {work}/plan.toml --jobs 1 --out run"] * 7, "investigate {work}/plan.toml --jobs 2 --out run"),
        repeated,
    ),
    "import": Kind(("import {work}/hub --no-parity --out run",), imported),
}


def write_inputs(work: Path) -> None:
    """Digits that are bundled, a plan, a model of the hub. In a process of its own: JAX computes."""
    from glassformer import data

    with np.load(Path(data.__file__).parent / "mnist_mini.npz") as digits:
        parts = {name: digits[name][: 200 if name.startswith("train") else 100] for name in digits.files}
    np.savez(work / "digits.npz", **parts)
    (work / "plan.toml").write_text(PLAN.format(data=work / "digits.npz"))
    write_model(work / "hub")


def write_model(folder: Path) -> None:
    """A GPT-2 of random weights, 7 MB: an import that takes a moment."""
    import jax

    from glassformer.hub.folder import write_folder
    from glassformer.models import GPT, Text

    model, draw = (
        GPT(Text(vocabulary=4000, context=64), width=128, hidden=512, heads=4, depth=6),
        np.random.default_rng(0),
    )
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    write_folder(folder, model, jax.tree.map(lambda leaf: draw.standard_normal(leaf.shape).astype(np.float32), shapes))


def content(folder: Path) -> dict[str, Any]:
    """Every file by its path, less the times that were measured. What a killed write left is no file of the run."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".part"]
    return {str(path.relative_to(folder)): comparable(path) for path in sorted(files)}


def comparable(path: Path) -> Any:
    match path.name:
        case "log.csv":
            return [line.split(",")[:2] + line.split(",")[3:] for line in path.read_text().splitlines()]
        case "metrics.json":
            return untimed(json.loads(path.read_text()))
        case "state.safetensors":
            arrays, about = state(path)
            return {name: (array.dtype, array.tobytes()) for name, array in arrays.items()}, untimed(about)
        case "results.jsonl":
            return sorted((untimed(record) for record in records(path)), key=lambda one: (one["key"], one["seed"]))
        case "report.html" | "report.md" | "results.json" | "results.csv":
            return "written"  # with seconds of computing in the text
    return path.read_bytes()


def untimed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: untimed(one) for name, one in value.items() if name not in TIMED}
    return [untimed(one) for one in value] if isinstance(value, list) else value


def state(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    from glassformer.train.weights import load_arrays

    return load_arrays(path)


def records(path: Path) -> list[dict[str, Any]]:
    """Of every whole line: a line that was cut off is nobody's."""
    lines = path.read_bytes().split(b"\n")[:-1]
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def acknowledged(folder: Path) -> dict[str, list[Any]]:
    """What is on the disk when a process is killed, with its times: epochs, and records. None may be done again."""
    kept: dict[str, list[Any]] = {}
    for path in folder.rglob("state.safetensors"):
        progress = state(path)[1]["progress"]
        runs = progress if isinstance(progress, list) else [progress]
        kept[str(path.relative_to(folder))] = [row for run in runs for row in run["rows"]]
    for path in folder.rglob("results.jsonl"):
        kept[str(path.relative_to(folder))] = records(path)
    return kept


def lost(before: dict[str, list[Any]], after: dict[str, list[Any]]) -> list[str]:
    return [f"{name}: lost: {one}" for name, all_ in before.items() for one in all_ if one not in after.get(name, [])]


def differences(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    names = sorted(found.keys() | expected.keys())
    return [
        f"{name}: differs"
        if name in found and name in expected
        else f"{name}: only in {'one' if name in found else 'the other'}"
        for name in names
        if name not in found or name not in expected or found[name] != expected[name]
    ]
