"""A run folder: everything about one run, each file written whole.

recipe.toml         fully resolved: enough to repeat the run
model.safetensors   the best weights by validation (the last, where nothing is held out)
state.safetensors   where training stands: weights, optimiser, random state, epoch, step: resume is exact
tokenizer.json      of a run on texts: its symbols
log.csv             epoch,loss,time,test_accuracy,val_accuracy,lr,test_loss,val_loss
metrics.json        the result
curves.png          loss and accuracy over the epochs
"""

import json
import tomllib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from glassformer.data.tokeniser import Tokeniser, load_tokeniser
from glassformer.errors import CheckpointError, FileError
from glassformer.files import write_whole
from glassformer.names import named_leaves
from glassformer.train.curves import curves
from glassformer.train.jax_engine import State
from glassformer.train.recipe import Recipe
from glassformer.train.settings import from_plain, must_survive, to_plain, to_toml
from glassformer.train.weights import FORMAT, fill, load_arrays, refuse_newer, save_arrays

TOKENISER = "tokenizer.json"


@dataclass(frozen=True)
class Row:
    """One epoch in the log; accuracies are 0..1, None where nothing was scored."""

    epoch: int
    loss: float
    time: float  # seconds this epoch took
    test_accuracy: float | None
    val_accuracy: float | None
    lr: float
    test_loss: float | None = None  # nats for each label
    val_loss: float | None = None


@dataclass(frozen=True)
class Progress:
    """Where a run stands, besides its arrays."""

    epoch: int = 0  # finished epochs
    step: int = 0  # finished steps of the epoch under way
    loss_sum: float = 0.0  # over the samples of the epoch under way
    seconds: float = 0.0  # of the epoch under way
    best_epoch: int = 0
    rows: tuple[Row, ...] = field(default_factory=tuple)
    done: bool = False
    data_digest: str = ""  # of the training samples; empty in runs that were begun before it was kept

    @property
    def best(self) -> Row:
        return self.rows[self.best_epoch - 1]


class RunFolder:
    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, recipe: Recipe) -> None:
        if (self.path / "state.safetensors").exists():
            raise FileError(
                f"{self.path}: holds a run already; continue it with --resume {self.path}, or choose another folder"
            )
        must_survive(recipe)
        write_whole(self.path / "recipe.toml", to_toml({"format": FORMAT, **to_plain(recipe)}))

    def recipe(self) -> Recipe:
        path = self.path / "recipe.toml"
        try:
            plain = tomllib.loads(path.read_text())
        except FileNotFoundError:
            raise CheckpointError(
                f"{self.path}: not a run folder, it has no recipe.toml; run folders are written by `glassformer train`"
            ) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
            raise CheckpointError(f"{path}: cannot be read as TOML: {error}") from None
        refuse_newer(plain.pop("format", 0), path)  # before its settings, which may be new too
        return from_plain(Recipe, plain)

    def save_tokeniser(self, tokeniser: Tokeniser) -> None:
        write_whole(self.path / TOKENISER, tokeniser.to_json())

    def tokeniser(self) -> Tokeniser | None:
        """None where the run reads no texts."""
        path = self.path / TOKENISER
        return load_tokeniser(path) if path.exists() else None

    def save_model(self, recipe: Recipe, params: Any, classes: tuple[str, ...], epoch: int) -> None:
        about = {"config": to_plain(recipe), "classes": classes, "epoch": epoch}
        save_arrays(self.path / "model.safetensors", named_leaves(params), about)

    def load_model(self, recipe: Recipe) -> tuple[Any, tuple[str, ...]]:
        """The kept weights, and the names of the classes."""
        path = self.path / "model.safetensors"
        arrays, about = load_arrays(path)
        classes = about.get("classes") or map(str, range(recipe.model.input.classes))
        return fill(jax.eval_shape(recipe.model.init, jax.random.key(0)), arrays, path), tuple(classes)

    def save_state(self, state: State, order: dict[str, np.ndarray], progress: Progress) -> None:
        self.save_log(progress.rows)  # before the state, which alone says where the run stands
        arrays = named_leaves({"state": state, "order": order})
        save_arrays(self.path / "state.safetensors", arrays, {"progress": asdict(progress)})

    def load_state(self, like: State) -> tuple[State, dict[str, np.ndarray], Progress]:
        path = self.path / "state.safetensors"
        arrays, about = load_arrays(path)
        order = {n.removeprefix("order."): array for n, array in arrays.items() if n.startswith("order.")}
        rest = {n.removeprefix("state."): array for n, array in arrays.items() if n.startswith("state.")}
        try:
            plain = about["progress"]
            progress = Progress(**plain | {"rows": tuple(Row(**row) for row in plain["rows"])})
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"{path}: its record of progress is incomplete ({error})") from None
        return fill(like, rest, path), order, progress

    def save_log(self, rows: tuple[Row, ...]) -> None:
        lines = ["epoch,loss,time,test_accuracy,val_accuracy,lr,test_loss,val_loss"]
        for row in rows:
            scores = ("" if score is None else f"{100 * score:.2f}" for score in (row.test_accuracy, row.val_accuracy))
            losses = ("" if loss is None else f"{loss:.6f}" for loss in (row.test_loss, row.val_loss))
            line = f"{row.epoch},{row.loss:.6f},{row.time:.3f},{','.join(scores)},{row.lr:.6g},{','.join(losses)}"
            lines.append(line)
        write_whole(self.path / "log.csv", "\n".join(lines) + "\n")

    def save_curves(self, rows: tuple[Row, ...]) -> None:
        write_whole(self.path / "curves.png", curves(rows))

    def save_metrics(self, metrics: dict[str, Any]) -> None:
        write_whole(self.path / "metrics.json", json.dumps(metrics, indent=2) + "\n")
