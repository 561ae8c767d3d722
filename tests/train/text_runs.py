"""Run folders of every task that reads texts or a table, with weights drawn at random, large enough to decide."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from glassformer.data.sources import always
from glassformer.data.text_sources import KnownText
from glassformer.data.texts import Texts
from glassformer.models.t5 import Inputs
from glassformer.names import named_leaves, with_leaves
from glassformer.predict.run import Run, load
from glassformer.train.run_folder import RunFolder

from ..programs import forward
from .small_texts import ready, small_text_recipe, small_texts

SEEDS = {"t5": 12, "iris": 6, "classify": 7}  # where 3 does not give weights that have more than one thing to say
NUMBERS = KnownText("numbers in two made-up tongues", "", "", lambda name, cache: small_texts(), always)


def untrained(folder: Path, kind: str, texts: Texts | None = None) -> Run:
    recipe, data = ready(small_text_recipe(kind), texts)
    shapes = jax.eval_shape(recipe.model.init, jax.random.key(0))
    rng = np.random.default_rng(SEEDS.get(kind, 3))
    params = with_leaves(shapes, {name: drawn(name, leaf.shape, rng) for name, leaf in named_leaves(shapes).items()})
    run = RunFolder(folder)
    run.create(recipe)
    run.save_model(recipe, params, data.classes, 0)
    if data.tokeniser:
        run.save_tokeniser(data.tokeniser)
    return load(folder)


def drawn(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if name.endswith(".gain"):
        return np.ones(shape, np.float32)
    return rng.normal(scale=0.5 if len(shape) == 2 else 0.1, size=shape).astype(np.float32)


def framed_ids(run: Run, text: str) -> list[int]:
    assert run.tokeniser
    return [2, *run.tokeniser.encode(text), 3]  # <start>, <end>


def direct(run: Run, ids: list[int], target: list[int] | None = None) -> np.ndarray:
    """The model's own forward of one text alone, nothing filled up."""
    row = np.array([ids], np.int32)
    x: Any = row if target is None else Inputs(source=row, target=np.array([target], np.int32))  # pyright: ignore
    return np.asarray(forward(run.model, run.params, x)[0], np.float64)


def shares(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits)
    return weights / weights.sum(axis=-1, keepdims=True)
