"""Runs that are in use, kept loaded: the last few. A run whose weights were written anew is loaded anew.

Only the process that does the work (worker.py) comes here.
"""

import dataclasses
from collections import OrderedDict
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open

from glassformer.errors import CheckpointError
from glassformer.layers.contract import param_shapes
from glassformer.lens.studio.runs import STATE, WEIGHTS, about_file, stamp
from glassformer.lens.studio.samples import Sample, SampleSet
from glassformer.predict.run import Run, load
from glassformer.predict.writer import Writer
from glassformer.reading import parse_json
from glassformer.train.run_folder import RunFolder
from glassformer.train.weights import fill

KEPT = 4
KEPT_SAMPLES = 64


class LoadedRun:
    def __init__(self, run: Run) -> None:
        self.run = run

    @cached_property
    def writer(self) -> Writer:
        return Writer(self.run, notice=lambda _: None)

    @cached_property
    def samples(self) -> SampleSet:
        return SampleSet(self.run)


class RunCache:
    def __init__(self) -> None:
        self.kept: OrderedDict[Path, tuple[Any, LoadedRun]] = OrderedDict()

    def get(self, path: Path) -> LoadedRun:
        now = stamp(path / WEIGHTS), stamp(path / "recipe.toml")
        if self.kept.get(path, (None,))[0] != now:
            if now[0] is None:
                RunFolder(path).recipe()  # where even that is damaged, it says so
                raise CheckpointError(f"{path.name}: it has no weights yet; they come with the end of its first epoch")
            self.kept[path] = now, LoadedRun(on_device(load(path)))
        self.kept.move_to_end(path)
        while len(self.kept) > KEPT:
            self.kept.popitem(last=False)
        return self.kept[path][1]


class FirstSamples:
    """The first test sample of each run that is watched: its data is read once."""

    def __init__(self) -> None:
        self.kept: OrderedDict[Path, Sample] = OrderedDict()

    def get(self, run: Run) -> Sample:
        if run.path not in self.kept:
            self.kept[run.path] = SampleSet(run).at(0)
        while len(self.kept) > KEPT_SAMPLES:
            self.kept.popitem(last=False)
        return self.kept[run.path]


def on_device(run: Run) -> Run:
    return dataclasses.replace(run, params=jax.tree.map(jnp.asarray, run.params))


def newest(path: Path) -> tuple[int, Run]:
    """The run with the weights of its last epoch, which need not be the best ones; and which epoch that is.

    They lie in the state. Where there is none (the run came from elsewhere), or where it was saved in the middle of an
    epoch, the kept weights are taken.
    """
    epoch, step, arrays = last_state(path / STATE)
    if (not arrays or step > 0) and (path / WEIGHTS).exists():
        return kept_weights(path)
    folder = RunFolder(path)
    recipe = folder.recipe()
    params = recipe.merged(fill(param_shapes(recipe.network), arrays, path / STATE))
    classes = about_file(path / WEIGHTS).get("classes") or map(str, range(recipe.model.input.classes))
    run = Run(path=path, recipe=recipe, params=params, classes=tuple(classes), tokeniser=folder.tokeniser())
    return epoch, on_device(run)


def last_state(path: Path) -> tuple[int, int, dict[str, np.ndarray]]:
    """Epoch, step and weights. They are read from one open file, which may be replaced meanwhile."""
    prefix = "state.params."
    try:
        with safe_open(path, framework="numpy") as file:
            progress = parse_json((file.metadata() or {})["glassformer"], path, CheckpointError)["progress"]
            names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118
            arrays = {name.removeprefix(prefix): file.get_tensor(name) for name in names}
            return int(progress["epoch"]), int(progress["step"]), arrays
    except (SafetensorError, CheckpointError, OSError, KeyError, TypeError, ValueError):
        return 0, 0, {}


def kept_weights(path: Path) -> tuple[int, Run]:
    before = about_file(path / WEIGHTS).get("epoch")
    run = on_device(load(path))
    if about_file(path / WEIGHTS).get("epoch") != before:
        raise CheckpointError(f"{path.name}: its weights were just written anew; look again")
    return int(before or 0), run
