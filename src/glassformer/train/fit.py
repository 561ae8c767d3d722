"""Training, for `glassformer.fit` and the command line alike: a recipe and data in, a run folder out."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import jax
import numpy as np

import glassformer
from glassformer.data import Dataset
from glassformer.data.dataset import digest
from glassformer.data.texts import Texts
from glassformer.data.tokeniser import Tokeniser
from glassformer.files import made
from glassformer.train import hosts
from glassformer.train.engines import choose, settled
from glassformer.train.held_out import split
from glassformer.train.listener import Listener
from glassformer.train.loop import Loop
from glassformer.train.presets import preset, recipe_file
from glassformer.train.recipe import Recipe, with_seed
from glassformer.train.resolve import encoded, from_arrays, lasting_name, load_for, resolved
from glassformer.train.run_folder import RunFolder, run_folder
from glassformer.train.settings import to_plain, with_change
from glassformer.train.tasks import Task
from glassformer.train.trackers import flat
from glassformer.train.warm_start import recipe_from, tokeniser_from

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
Data = str | Dataset | Texts | Arrays
Change = Callable[[Recipe], Recipe]


def run_recipe(
    recipe: str | Path | Recipe,
    data: Data,
    change: Change,
    *,
    out: str | Path = "",
    start: str | Path = "",
    seeds: tuple[int, ...] = (),
    listener: Listener | None = None,
) -> dict[str, Any]:
    """Train a changed recipe, with one seed or several; the result. What `fit` and the command line have in common."""

    def chosen(images: int) -> Recipe:
        if start:
            before = recipe_from(start)
            return taking_over(change(before), before.task)
        if isinstance(recipe, Recipe):
            return taking_over(change(recipe))
        found = recipe_file(recipe, images) if isinstance(recipe, Path) else preset(recipe, images)
        return taking_over(change(found))

    named, listener = chosen(0), listener or Listener()
    data_set = as_dataset(data or named.data, named, tokeniser_from(start) if start else None)
    whole = chosen(len(data_set.train[0]))  # a preset may have other settings where there are many images
    ready = on_all_hosts(resolved(with_change(whole, "data", lasting_name(data_set.name), "data"), data_set))
    with nullcontext(Path(out)) if out else shared_folder(name_of(recipe, start, ready)) as folder:
        listener.begins(folder, ready, data_set, seeds)
        for note in data_set.notes:
            listener.notice(note)
        if seeds:
            return train_many(ready, data_set, folder, seeds, listener)
        return train(ready, data_set, folder, listener)


def taking_over(recipe: Recipe, before: Task | None = None) -> Recipe:
    return replace(recipe, task=recipe.task.starting_from(before))


def name_of(recipe: str | Path | Recipe, start: str | Path, ready: Recipe) -> str:
    """What the folder of a new run is called."""
    if start:
        same = type(RunFolder(Path(start)).recipe().task) is type(ready.task)
        return f"{Path(start).absolute().name}-{'more' if same else ready.task.name}"
    return "run" if isinstance(recipe, Recipe) else Path(recipe).stem


def train(recipe: Recipe, data: Dataset, path: Path, listener: Listener) -> dict[str, Any]:
    """One run from the beginning; its result."""
    folder = run_folder(path)
    hosts_must_agree(recipe, data, path)
    with folder.locked():
        loop = Loop(recipe, data, folder, listener)
        loop.begin()
        return finish(loop)


def resume(
    path: str | Path, listener: Listener | None = None, data: Data = "", mesh: str | None = None
) -> dict[str, Any]:
    """The run in a folder, or those of several seeds, from where they stand to their end; the result.

    `data` as for `fit`; nothing: the run's. `mesh`: other devices than those it was trained on; None: as before.
    """
    folder, listener = run_folder(Path(path)), listener or Listener()
    recipe, seeds = folder.recipe_and_seeds()
    recipe = on_all_hosts(with_all(recipe, {"engine.mesh": mesh}))
    listener.resumes(folder.path, recipe)
    with folder.locked():
        data_set = as_dataset(data or recipe.data, recipe, folder.tokeniser())
        hosts_must_agree(recipe, data_set, folder.path)
        if not folder.has_begun:
            listener.notice(f"{folder.path}: it was stopped before its first state was saved, and starts over")
        if seeds:
            return go_on_with_many(recipe, data_set, folder, seeds, listener)
        return finish(begun(Loop(recipe, data_set, folder, listener)))


def on_all_hosts(recipe: Recipe) -> Recipe:
    """Several hosts share the batch, where no mesh says otherwise."""
    needs_mesh = hosts.count() > 1 and not recipe.engine.mesh
    return with_all(recipe, {"engine.mesh": f"data={len(jax.devices())}"}) if needs_mesh else recipe


def hosts_must_agree(recipe: Recipe, data: Dataset, path: Path) -> None:
    if hosts.count() > 1:
        release, digest_of_data = glassformer.__version__, digest(data.train)
        hosts.must_agree(
            {
                "the release": release,
                "--out": str(path),
                **flat(to_plain(recipe)),
                "the digest of the data": digest_of_data,
            }
        )


def begun(loop: Loop) -> Loop:
    """From the saved state; from the beginning where none was saved."""
    if hosts.of_first(lambda: loop.folder.has_begun):
        loop.resume()
    else:
        loop.begin()
    return loop


def finish(loop: Loop) -> dict[str, Any]:
    (result,) = loop.finish()
    return result


def train_many(recipe: Recipe, data: Dataset, path: Path, seeds: tuple[int, ...], listener: Listener) -> dict[str, Any]:
    """Several seeds; mean, spread and each. The jax engine trains them as one program, the native one in turn."""
    folder = RunFolder(path)
    with folder.locked():
        recipe = settled(recipe, choose(recipe, split(recipe, data)[0], listener.notice))
        folder.create(recipe, seeds)
        try:
            return go_on_with_many(recipe, data, folder, seeds, listener)
        finally:
            folder.remove_seeds_if_refused()


def go_on_with_many(
    recipe: Recipe, data: Dataset, folder: RunFolder, seeds: tuple[int, ...], listener: Listener
) -> dict[str, Any]:
    """Each from where it stands; one of which nothing is saved yet, from the beginning."""
    if recipe.engine.name == "jax":
        with ExitStack() as stack:
            for seed in seeds:
                stack.enter_context(folder.of_seed(seed).locked())
            runs = begun(Loop(recipe, data, folder, listener, seeds)).finish()
    else:
        runs = [train_in_turn(with_seed(recipe, seed), data, folder, listener) for seed in seeds]

    def over_seeds(summary: Callable[[Any], Any], name: str) -> float | None:
        values = [run[name] for run in runs]
        return None if None in values else float(summary(values))

    def std(values: Any) -> Any:
        return np.std(values, ddof=1)

    return {
        "test_accuracy": over_seeds(np.mean, "test_accuracy"),
        "test_accuracy_std": over_seeds(std, "test_accuracy"),
        "test_accuracy_min": over_seeds(min, "test_accuracy"),
        "test_accuracy_max": over_seeds(max, "test_accuracy"),
        "val_accuracy": over_seeds(np.mean, "val_accuracy"),
        "test_loss": over_seeds(np.mean, "test_loss"),
        "test_loss_std": over_seeds(std, "test_loss"),
        "train_seconds": sum(run["train_seconds"] for run in runs),
        "epochs": max(run["epochs"] for run in runs),
        **{name: runs[0][name] for name in ("parameters", "learning", "optimiser_bytes")},
        "task": runs[0]["task"],
        "engine": runs[0]["engine"],
        "seeds": list(seeds),
        "runs": runs,
        "run": str(folder.path),
    }


def train_in_turn(recipe: Recipe, data: Dataset, root: RunFolder, listener: Listener) -> dict[str, Any]:
    seed = recipe.training.seed
    listener.notice(f"seed {seed}")
    folder = root.of_seed(seed)
    with folder.locked():
        return finish(begun(Loop(recipe, data, folder, listener, root=root.path)))


def with_all(recipe: Recipe, changes: dict[str, Any]) -> Recipe:
    """What is None stays as the recipe has it."""
    for name, value in changes.items():
        recipe = recipe if value is None else with_change(recipe, name, value, name)
    return recipe


def as_dataset(data: Data, recipe: Recipe, tokeniser: Tokeniser | None = None) -> Dataset:
    if isinstance(data, str):
        return load_for(recipe, data, tokeniser)
    if isinstance(data, Texts):
        return encoded(recipe, data, tokeniser)
    if isinstance(data, Dataset):
        return data
    return from_arrays(recipe, data)


@contextmanager
def shared_folder(name: str) -> Iterator[Path]:
    """A new folder of the first host; the others know it by its name."""
    with ExitStack() as stack:
        yield Path(hosts.of_first(lambda: str(stack.enter_context(new_folder(name)))))


@contextmanager
def new_folder(name: str) -> Iterator[Path]:
    """`runs/<name>-<n>`, made now, with the first number that is free: two processes get two. Left empty, it goes."""
    with ExitStack() as stack:
        for number in count(1):
            path = Path("runs") / f"{name}-{number}"
            try:
                stack.enter_context(made(path, new=True))
            except FileExistsError:
                continue
            yield path
            return
