"""The common face of the engines, and which one trains: the one asked for, or the fastest that can.

An engine registers itself when its module is imported; `glassformer.ENGINES` names the modules.
"""

import dataclasses
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

import jax
import numpy as np

import glassformer
from glassformer.errors import EngineError
from glassformer.train.jax_engine import Batches, JaxEngine, State
from glassformer.train.recipe import Recipe
from glassformer.train.score import Score
from glassformer.train.stream_engine import StreamEngine


class Engine(Protocol):
    """State in, state out, some steps of an epoch at a time."""

    name: str
    rounding: int  # raised when the same steps are rounded otherwise than before
    recipe: Recipe
    total: int  # samples there are
    count: int  # samples in an epoch
    steps: int  # of an epoch
    block: int  # a chunk has a multiple of so many of them

    def start(self, params: Any) -> State: ...
    def place(self, state: Any) -> Any: ...
    def batches(self, orders: list[np.ndarray], epoch: int) -> Any: ...
    def run(self, state: State, batches: Any, first: int, last: int) -> tuple[State, np.ndarray]: ...
    def score(self, params: Any, samples: Any) -> Score: ...
    def for_jax(self, batches: Any, step: int) -> tuple[Batches, range]: ...


class CPUEngine(Engine, Protocol):
    """An engine for one run on a CPU. Made, it is ready; a recipe that it cannot train is an EngineError."""

    def __init__(self, recipe: Recipe, train: Any, notice: Callable[[str], None]) -> None: ...


REGISTERED: dict[str, type[CPUEngine]] = {}  # by name; the first one is tried first


def register_engine(engine: type[CPUEngine]) -> None:
    REGISTERED[engine.name] = engine


def registered() -> dict[str, type[CPUEngine]]:
    for module in glassformer.ENGINES:
        import_module(module)
    return REGISTERED


def choose(recipe: Recipe, train: Any, notice: Callable[[str], None]) -> Engine:
    """The recipe's engine. With `auto`: on a CPU the first registered one that can; else jax, and why."""
    name = recipe.engine.name
    if name in registered():
        return REGISTERED[name](recipe, train, notice)
    if name == "auto" and jax.default_backend() == "cpu" and not recipe.engine.mesh:
        for engine in REGISTERED.values():
            try:
                return engine(recipe, train, notice)
            except EngineError as error:
                notice(f"engine jax: {error}")
    return jax_engine(recipe, train, (recipe.training.seed,))


def jax_engine(recipe: Recipe, train: Any, seeds: tuple[int, ...]) -> Engine:
    """With the samples on the device, or with crops that are sent there step by step."""
    return (StreamEngine if recipe.training.steps else JaxEngine)(recipe, train, seeds)


def settled(recipe: Recipe, engine: Engine) -> Recipe:
    """The recipe with the engine that was chosen: with this one a run goes on to the bit."""
    return dataclasses.replace(recipe, engine=dataclasses.replace(recipe.engine, name=engine.name))  # pyright: ignore[reportArgumentType]
