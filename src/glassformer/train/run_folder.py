"""A run folder: everything about one run, each file written whole.

recipe.toml         fully resolved: enough to repeat the run
model.safetensors   the best weights by validation (the last, where nothing is held out), averaged if they are no worse;
                    float32, or bfloat16 as `import --precision bf16` found them
adapter.safetensors of a run tuned by lora: what it added to the weights that it started from, and the task's head
state.safetensors   where training stands: weights, optimiser, random state, epoch, step: resume is exact
state/              the same of a run on a mesh of devices (train/sharded_state.py)
tokenizer.json      of a run on texts: its symbols
chat.json           how conversations become text, where anything says so
log.csv             epoch,loss,time,test_accuracy,val_accuracy,lr,test_loss,val_loss; of averaged weights ema_…
metrics.json        the result
curves.png          loss and accuracy over the epochs
.lock               while a process trains the run

Of several seeds: seeds.toml with the recipe of all, a run folder seed-N for each, and where one program trains them
all, a state.safetensors of all.
"""

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.chat_template import ChatTemplate
from glassformer.data.tokeniser import Tokeniser, load_tokeniser
from glassformer.errors import CheckpointError, FileError, SettingError
from glassformer.files import is_locked, locked, made, write_whole
from glassformer.layers.contract import param_shapes
from glassformer.models.stack import unstacked
from glassformer.names import named_leaves
from glassformer.reading import read_text, read_toml
from glassformer.train import hosts
from glassformer.train.curves import curves
from glassformer.train.jax_engine import State
from glassformer.train.recipe import Recipe
from glassformer.train.settings import from_plain, must_survive, to_plain, to_toml
from glassformer.train.sharded_state import STATES, steps_of
from glassformer.train.tune import LowRank
from glassformer.train.weights import FORMAT, fill, load_arrays, must_be_finite, refuse_newer, save_arrays

TOKENISER = "tokenizer.json"
CHAT = "chat.json"
RECIPE = "recipe.toml"
SEEDS = "seeds.toml"
STATE = "state.safetensors"
WEIGHTS = "model.safetensors"
ADAPTER = "adapter.safetensors"
SECONDS = 0.3  # to wait for the lock: who only asks for it (is_live) has it for less


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
    ema_test_accuracy: float | None = None  # of the averaged weights, where there are any
    ema_val_accuracy: float | None = None
    ema_test_loss: float | None = None
    ema_val_loss: float | None = None

    def keeps_average(self, *, by_loss: bool) -> bool:
        """Whether the averaged weights are the ones to keep: validation data shows none better, or there is none."""
        last, ema = (self.goodness(weights, by_loss=by_loss) for weights in ("", "ema_"))
        return self.ema_test_loss is not None and (last is None or ema is None or ema >= last)

    def goodness(self, weights: str, *, by_loss: bool) -> float | None:
        """On validation data, the higher the better; `weights`: nothing for the last ones, or `ema_`."""
        score = getattr(self, f"{weights}val_loss" if by_loss else f"{weights}val_accuracy")
        return -score if by_loss and score is not None else score


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
    rounding: int = 0  # the engine's, when this was written; 0 in runs that were begun before it was kept

    @property
    def best(self) -> Row:
        return self.rows[self.best_epoch - 1]


class RunFolder:
    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Made and locked for training. Left empty, because the recipe was refused, it is removed again."""
        busy = (
            "a process is training this run now; wait until it ends, or stop it and go on with "
            f"--resume {self.path}. For another run choose another folder with --out"
        )
        with made(self.path), locked(self.path, busy, SECONDS):
            yield

    def is_live(self) -> bool:
        """Whether a process is training this run now; one that was killed is not."""
        return is_locked(self.path)

    def write(self, name: str, content: bytes | str) -> None:
        write_whole(self.path / name, content)

    def save(self, name: str, arrays: dict[str, Any], about: dict[str, Any]) -> None:
        save_arrays(self.path / name, arrays, about)

    def of_seed(self, seed: int) -> "RunFolder":
        return RunFolder(self.path / f"seed-{seed}")

    def create(self, recipe: Recipe, seeds: tuple[int, ...] = ()) -> None:
        """With several seeds: the folder above their run folders."""
        if self.has_begun:
            raise FileError(
                f"{self.path}: holds a run already; continue it with --resume {self.path}, or choose another folder"
            )
        self.save_recipe(recipe, seeds)

    def save_recipe(self, recipe: Recipe, seeds: tuple[int, ...] = ()) -> None:
        must_survive(recipe)
        head = {"format": FORMAT, "seeds": list(seeds)} if seeds else {"format": FORMAT}
        name, other = (SEEDS, RECIPE) if seeds else (RECIPE, SEEDS)
        self.write(name, to_toml({**head, **to_plain(recipe)}))
        (self.path / other).unlink(missing_ok=True)  # of a run that was killed before it began

    def remove_seeds_if_refused(self) -> None:
        """Where the recipe did not become a run of any seed, nothing stays."""
        if not any(self.path.glob(f"seed-*/{RECIPE}")):
            (self.path / SEEDS).unlink(missing_ok=True)

    def recipe(self) -> Recipe:
        recipe, seeds = self.recipe_and_seeds()
        if seeds:
            raise CheckpointError(
                f"{self.path}: holds a run for each of {len(seeds)} seeds; name one: {self.of_seed(seeds[0]).path}"
            )
        return recipe

    def recipe_and_seeds(self) -> tuple[Recipe, tuple[int, ...]]:
        """The recipe, and the seeds that are trained with it; none where this is the folder of one run."""
        several = (self.path / SEEDS).exists()
        path = self.path / (SEEDS if several else RECIPE)
        if not path.exists():
            raise CheckpointError(
                f"{self.path}: not a run folder, it has no {RECIPE}; run folders are written by `glassformer train`"
            )
        plain = read_toml(path, CheckpointError)
        refuse_newer(plain.pop("format", 0), path)  # before its settings, which may be new too
        seeds = plain.pop("seeds", None) if several else []
        if several and not (isinstance(seeds, list) and all(type(one) is int for one in seeds) and len(set(seeds)) > 1):
            raise CheckpointError(f"{path}: seeds is {seeds!r}, expected two or more whole numbers")
        return from_plain(Recipe, plain), tuple(seeds)

    def save_tokeniser(self, tokeniser: Tokeniser) -> None:
        self.write(TOKENISER, tokeniser.to_json())
        if tokeniser.chat is not None:
            self.write(CHAT, tokeniser.chat.to_json())

    def tokeniser(self) -> Tokeniser | None:
        """None where the run reads no texts."""
        path, chat = self.path / TOKENISER, self.path / CHAT
        template = ChatTemplate.from_json(read_text(chat, error=CheckpointError), str(chat)) if chat.exists() else None
        return load_tokeniser(path, template) if path.exists() else None

    def save_model(self, recipe: Recipe, params: Any, classes: tuple[str, ...], epoch: int) -> None:
        engine = replace(recipe.engine, threads=0)  # any number gives the same file
        about = {"config": to_plain(replace(recipe, engine=engine)), "classes": classes, "epoch": epoch}
        self.save(WEIGHTS, named_leaves(params), about)

    def save_tuned(self, recipe: Recipe, params: Any, classes: tuple[str, ...], epoch: int) -> None:
        """As trained: the model's weights with what was learned merged in; an adapter also alone."""
        params = unstacked(params)
        if isinstance(recipe.tune, LowRank):
            adapter = recipe.tune.adapter(recipe.model, params)
            self.save(ADAPTER, adapter, {"tune": to_plain(recipe.tune), "epoch": epoch})
        self.save_model(recipe, recipe.merged(params), classes, epoch)

    def load_model(self, recipe: Recipe) -> tuple[Any, tuple[str, ...]]:
        """The kept weights, in float32, and the names of the classes."""
        path = self.path / WEIGHTS
        if not path.exists() and self.has_begun:
            raise CheckpointError(
                f"{path}: there is no such file; weights come with the end of the first epoch: go on with "
                f"--resume {self.path}"
            )
        arrays, about = load_arrays(path)
        if recipe.engine.precision == "bf16":  # an import may be; to widen changes no value
            arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
        params = fill(param_shapes(recipe.model), arrays, path)
        must_be_finite(arrays, path)
        classes = about.get("classes") or list(range(recipe.model.input.classes))
        if not isinstance(classes, list):
            raise CheckpointError(f"{path}: classes is {classes!r}, expected a list of names")
        return params, tuple(map(str, classes))

    @property
    def has_begun(self) -> bool:
        """False: training was killed before its first state was there, and nothing is lost if it starts over."""
        files = self.path / STATE, self.path / WEIGHTS, *self.path.glob(f"seed-*/{STATE}")
        return any(file.exists() for file in files) or bool(steps_of(self.path))

    def save_state(self, state: State, order: dict[str, np.ndarray], progress: Progress) -> None:
        self.save_log(progress.rows)  # before the state, which alone says where the run stands
        arrays = named_leaves({"state": unstacked(state), "order": order})
        self.save(STATE, arrays, {"progress": asdict(progress)})
        shutil.rmtree(self.path / STATES, ignore_errors=True)  # it went on without a mesh

    def remove_state(self) -> None:
        """It goes on on a mesh, where its states are others."""
        (self.path / STATE).unlink(missing_ok=True)

    def load_state(self, like: State) -> tuple[State, dict[str, np.ndarray], Progress]:
        state, (order,), (progress,) = self.load_states(like, 1)
        return state, order, progress

    def save_states(self, state: State, orders: list[dict[str, np.ndarray]], progress: list[Progress]) -> None:
        """Of several runs that one program trains: each array has a leading axis of runs."""
        arrays = named_leaves({"state": state, "order": {str(i): order for i, order in enumerate(orders)}})
        self.save(STATE, arrays, {"progress": [asdict(one) for one in progress]})

    def load_states(self, like: State, runs: int) -> tuple[State, list[dict[str, np.ndarray]], list[Progress]]:
        """Of one run or of several."""
        path = self.path / STATE
        arrays, about = load_arrays(path)
        plain = about.get("progress") if runs > 1 else [about.get("progress")]
        if not isinstance(plain, list) or len(plain) != runs:
            raise CheckpointError(f"{path}: its record of progress is incomplete, expected that of {runs} runs")
        before = [f"order.{i}." for i in range(runs)] if runs > 1 else ["order."]
        state = fill(like, with_prefix(arrays, "state."), path)
        must_be_finite(with_prefix(arrays, "state.params."), path)
        return state, [with_prefix(arrays, prefix) for prefix in before], [progress_of(one, path) for one in plain]

    def save_log(self, rows: tuple[Row, ...]) -> None:
        lines = ["epoch,loss,time,test_accuracy,val_accuracy,lr,test_loss,val_loss"]
        with_average = any(row.ema_test_loss is not None for row in rows)
        if with_average:
            lines[0] += ",ema_test_accuracy,ema_val_accuracy,ema_test_loss,ema_val_loss"
        for row in rows:
            scores, losses = in_percent(row.test_accuracy, row.val_accuracy), in_nats(row.test_loss, row.val_loss)
            line = f"{row.epoch},{row.loss:.6f},{row.time:.3f},{scores},{row.lr:.6g},{losses}"
            if with_average:
                scores = in_percent(row.ema_test_accuracy, row.ema_val_accuracy)
                line += f",{scores},{in_nats(row.ema_test_loss, row.ema_val_loss)}"
            lines.append(line)
        self.write("log.csv", "\n".join(lines) + "\n")

    def save_curves(self, rows: tuple[Row, ...]) -> None:
        self.write("curves.png", curves(rows))

    def save_metrics(self, metrics: dict[str, Any]) -> None:
        self.write("metrics.json", json.dumps(metrics, indent=2) + "\n")


class OthersFolder(RunFolder):
    """A run folder as all hosts but the first have it: they read it, and the first one writes."""

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        yield

    def create(self, recipe: Recipe, seeds: tuple[int, ...] = ()) -> None:
        pass

    def remove_state(self) -> None:
        pass

    def write(self, name: str, content: bytes | str) -> None:
        pass

    def save(self, name: str, arrays: dict[str, Any], about: dict[str, Any]) -> None:
        pass


def run_folder(path: Path) -> RunFolder:
    return RunFolder(path) if hosts.is_first() else OthersFolder(path)


def in_percent(*scores: float | None) -> str:
    return ",".join("" if score is None else f"{100 * score:.2f}" for score in scores)


def in_nats(*losses: float | None) -> str:
    return ",".join("" if loss is None else f"{loss:.6f}" for loss in losses)


def with_prefix(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def progress_of(plain: Any, path: Path) -> Progress:
    try:
        rows = tuple(from_plain(Row, row) for row in plain["rows"])
        return from_plain(Progress, {**plain, "rows": rows})
    except (KeyError, TypeError, SettingError) as error:
        raise CheckpointError(f"{path}: its record of progress is incomplete ({error})") from None
