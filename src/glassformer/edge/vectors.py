"""What a build is compared with: samples, the logits that Python computes of them, and a few steps of training."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

from glassformer.data import Dataset
from glassformer.data.download import MIRRORS, cache_folder
from glassformer.edge.learning import LearningSource
from glassformer.errors import DataError, FileError, SettingError
from glassformer.layers.contract import Layer, param_shapes
from glassformer.names import named_leaves, with_leaves
from glassformer.predict.run import Run
from glassformer.train.gradient import loss_and_gradient

COUNT = 8  # samples
UPDATES = 3  # of the weights
ROUNDING = 2e-5  # of the largest change: weights that float64 changes otherwise are not compared


class Vectors(NamedTuple):
    x: np.ndarray
    labels: np.ndarray
    logits: np.ndarray
    origin: str  # whose samples they are
    truth: str = "JAX, float32"  # who computed the logits
    allowed: float = 1e-4  # difference, of the largest of them


class Training(NamedTuple):
    """Step i learns from sample i % COUNT, each with the label after its own: a good model has much to learn."""

    labels: np.ndarray
    losses: np.ndarray
    weights: dict[str, np.ndarray]  # the trained ones afterwards; NaN where they depend on rounding


def vectors_of(run: Run) -> Vectors:
    x, labels, origin = own_samples(run) or drawn_samples(run)
    return Vectors(x, labels, exactly(run.logits, x), origin)


def own_samples(run: Run) -> tuple[np.ndarray, np.ndarray, str] | None:
    """Of the test part of the run's data."""
    data = own_data(run)
    if data is None:
        return None
    try:
        x, labels = run.arrays(data.test, COUNT)
        origin = f"test samples of {plain(run.recipe.data)}"
        return np.resize(x, (COUNT, *x.shape[1:])), np.resize(labels, COUNT), origin
    except (DataError, SettingError):  # of another shape
        return None


def own_data(run: Run) -> Dataset | None:
    """The run's data, where that lies on this machine: nothing is fetched."""
    name = run.recipe.data
    try:
        return None if name in MIRRORS and not (cache_folder() / name).is_dir() else run.load_data()
    except (DataError, FileError, SettingError):  # gone
        return None


def plain(name: str) -> str:
    """Of a data set, for comments: without the folders it lies in."""
    return re.sub(r"[^\w.:-]+", "_", name.replace("\\", "/").rstrip("/").rpartition("/")[2])


def drawn_samples(run: Run) -> tuple[np.ndarray, np.ndarray, str]:
    rng, form = np.random.default_rng(0), run.model.example(COUNT)
    x = rng.integers(0, 256, form.shape) if form.dtype == np.uint8 else rng.standard_normal(form.shape)
    labels = rng.integers(0, len(run.classes), COUNT)
    return x.astype(form.dtype), labels, "drawn at random, for the data of the run is not here"


def trained_by(run: Run, source: LearningSource, vectors: Vectors, rate: float) -> Training:
    """What our own layers and optax make of the weights."""
    found = steps_of(run, source, vectors, rate, np.float32)
    if "v" not in source.copies:
        return found
    # Adam brings every gradient to the same size, those that are but rounding (of the biases of keys), too
    with jax.enable_x64(True):
        exact = steps_of(run, source, vectors, rate, np.float64).weights
    change = max(abs(one - source.weights[name]).max() for name, one in exact.items())
    kept = {
        name: np.where(abs(one - exact[name]) > ROUNDING * change, np.float32(np.nan), one)
        for name, one in found.weights.items()
    }
    return found._replace(weights=kept)


def steps_of(run: Run, source: LearningSource, vectors: Vectors, rate: float, dtype: type[np.floating]) -> Training:
    def cast(tree: Any) -> Any:
        return jax.tree.map(lambda one: np.asarray(one, dtype if one.dtype.kind == "f" else one.dtype), tree)

    network, params, named = trained_network(run, source)
    params, x, labels = cast(params), cast(vectors.x), (vectors.labels + 1) % vectors.logits.shape[1]
    optimiser, gradient = source.optimiser.update(rate), jax.jit(gradient_of(network, run))
    trained: Any = {name: named_leaves(params)[named(name)] for name in source.lesson.trained}
    memory, losses = optimiser.init(trained), []
    for first in range(0, source.batch * UPDATES, source.batch):
        total = jax.tree.map(np.zeros_like, trained)
        for i in range(first, first + source.batch):
            chosen = slice(i % COUNT, i % COUNT + 1)
            now = with_leaves(params, {named(name): one for name, one in trained.items()})
            loss, dparams = exactly(gradient, now, x[chosen], labels[chosen])
            losses.append(float(loss))
            total = {name: total[name] + named_leaves(dparams)[named(name)] / source.batch for name in trained}
        updates, memory = optimiser.update(total, memory, trained)
        trained = optax.apply_updates(trained, updates)
    weights = {name: np.asarray(trained[name]) for name in source.lesson.trained}  # optax sorts names
    return Training(labels, np.array(losses, np.float32), weights)


def trained_network(run: Run, source: LearningSource) -> tuple[Layer, Any, Callable[[str], str]]:
    """What is trained, its params, and their names by those that a device's weights have."""
    if source.lesson.lora is None:
        return run.model, run.params, lambda name: name
    network = source.lesson.lora.network(run.model)
    shapes = param_shapes(network)
    thin = {name: source.weights[name] for name in named_leaves(shapes) if name in source.weights}
    params: Any = with_leaves(shapes, thin)._replace(base=run.params)
    return network, params, lambda name: name if name in thin else f"base.{name}"


def gradient_of(network: Layer, run: Run) -> Callable[..., Any]:
    return lambda params, x, labels: loss_and_gradient(network, run.recipe.loss, params, x, labels=labels)


def exactly(function: Callable[..., Any], *arguments: Any) -> Any:
    """In float32 to its last digit: accelerators multiply in fewer by themselves."""
    with jax.default_matmul_precision("highest"):
        return function(*arguments)
