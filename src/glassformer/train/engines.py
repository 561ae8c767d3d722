"""Which engine trains: the one asked for, or the fastest that can."""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

import jax
import numpy as np

from glassformer.errors import EngineError
from glassformer.train.jax_engine import Batches, JaxEngine, State
from glassformer.train.recipe import Recipe
from glassformer.train.score import Score


class Engine(Protocol):
    """The common face of the engines: state in, state out, some steps of an epoch at a time."""

    name: str
    recipe: Recipe
    total: int  # samples there are
    count: int  # samples in an epoch
    steps: int  # of an epoch

    def start(self, params: Any) -> State: ...
    def batches(self, orders: list[np.ndarray], epoch: int) -> Any: ...
    def run(self, state: State, batches: Any, first: int, last: int) -> tuple[State, np.ndarray]: ...
    def score(self, params: Any, samples: Any) -> Score: ...
    def for_jax(self, batches: Any) -> Batches: ...


def choose(recipe: Recipe, train: Any, notice: Callable[[str], None]) -> Engine:
    """The recipe's engine. With `auto`: the native one on a CPU, where it can be had; else jax, and why."""
    seeds = (recipe.training.seed,)
    if recipe.engine.name == "jax" or (recipe.engine.name == "auto" and jax.default_backend() != "cpu"):
        return JaxEngine(recipe, train, seeds)
    from glassformer.native.engine import NativeEngine

    try:
        return NativeEngine(recipe, train, notice)
    except EngineError as error:
        if recipe.engine.name == "native":
            raise
        notice(f"engine jax: {error}")
        return JaxEngine(recipe, train, seeds)


def settled(recipe: Recipe, engine: Engine) -> Recipe:
    """The recipe with the engine that was chosen, and its threads: with these a run goes on to the bit."""
    chosen = dataclasses.replace(recipe.engine, name=engine.name, threads=getattr(engine, "threads", 0))  # pyright: ignore
    return dataclasses.replace(recipe, engine=chosen)
