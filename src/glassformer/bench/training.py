"""A training step of ours beside the same step in PyTorch: same weights, samples, loss and optimiser, on the CPU.

Ours are the engines as `glassformer train` runs them: the native one on one core and on all, and jax. They make each
batch within the step: out of bytes, which they gather, scale and cut into patches, or out of tokens, from which they
draw windows or cover some up. PyTorch is given all batches ready. Only augmentation, clipping and the schedule of the
learning rate are left out of the recipe, for all.
"""

import dataclasses
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from glassformer.bench import peak, peers
from glassformer.bench.measure import Turns
from glassformer.cores import cores
from glassformer.data.dataset import TEXTS, Dataset, Samples
from glassformer.errors import EngineError, UnknownNameError
from glassformer.models import Network
from glassformer.names import nearest
from glassformer.native.engine import NativeEngine
from glassformer.shapes import Static
from glassformer.train.augment import Augment
from glassformer.train.engines import Engine
from glassformer.train.jax_engine import JaxEngine
from glassformer.train.optimiser import Schedule
from glassformer.train.presets import preset
from glassformer.train.recipe import Recipe
from glassformer.train.tasks.masked import Rows
from glassformer.train.tasks.next_token import Stream

TEXTS_TRAINED = ("gpt-nano", "llama-nano", "bert-nano")
PRESETS = ("attention-pool", "attention-pool-64", "vit-pico", "vit-nano", "vit-micro", "vit-tiny", *TEXTS_TRAINED)
VOCABULARY = 65  # the different characters of Shakespeare's plays: gpt-nano's recipe is nanoGPT's for them
ALONE, NATIVE, JAX = "native-1", "native", "jax"  # the native engine on one core and on all; the jax engine
SIDES = (ALONE, NATIVE, JAX, *peers.MODES)
PEAK = {ALONE: "peak-1", NATIVE: "peak"}  # the loop that goes with each
TURN = 0.15  # seconds a turn lasts at least
WORK = 4e9  # multiply-adds of the steps in one call, within these bounds: 100 steps of the smallest, 4 of the largest
FEWEST, MOST = 4, 100
UNSTEADY = 2.0  # a spread above this means a busy machine, where threads that wait for each other lose most: PyTorch's


@dataclass(frozen=True)
class Result:
    preset: str
    batch: int
    steps: int  # in one call
    step_ms: dict[str, float]  # of each side: native-1, native, jax, and PyTorch's modes, as far as they run here
    compile_s: dict[str, float]  # what the first call took longer
    multiply_adds: int  # of a step (see peak.py)
    peak: dict[str, float]  # multiply-adds a second that the cores of native-1 and native can do
    spread: float  # slowest turn over fastest, of the least steady side
    without_native: str | None = None  # why it was left out

    @property
    def best(self) -> str | None:
        """PyTorch's fastest mode."""
        return min((mode for mode in self.step_ms if mode in peers.MODES), key=self.step_ms.__getitem__, default=None)

    @property
    def ratios(self) -> dict[str, float | None]:
        """How many times as fast as the other."""
        return {
            "native_to_torch": self.ratio(NATIVE, self.best),
            "native_to_jax": self.ratio(NATIVE, JAX),
            "jax_to_torch": self.ratio(JAX, self.best),
        }

    def ratio(self, one: str, other: str | None) -> float | None:
        return self.step_ms[other] / self.step_ms[one] if other and one in self.step_ms else None

    @property
    def share(self) -> dict[str, float]:
        """Of the peak that the native engine reaches."""
        return {
            name: self.multiply_adds / (self.step_ms[name] / 1e3) / self.peak[name]
            for name in PEAK
            if name in self.peak
        }

    def plain(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"best": self.best, "ratios": self.ratios, "share": self.share}


class Contest:
    """One preset: our engines and every mode of PyTorch that runs here, ready to take turns.

    With `steps`, a turn is so many; without, it lasts at least TURN.
    """

    def __init__(self, name: str, steps: int | None = None, *, with_peers: bool = True) -> None:
        self.name, self.recipe = name, comparable(preset(name))
        self.multiply_adds = self.recipe.training.batch * peak.multiply_adds(self.recipe.model)
        self.steps = steps or steps_for(self.multiply_adds)
        self.without_native: str | None = None
        self.loops: dict[str, peak.Loop] = {}
        with on_cpu():
            params = self.recipe.model.init(jax.random.key(0))
            samples = random_samples(self.recipe, self.steps)
            contestants = {
                **self.natives(samples, params),
                JAX: jax_training(self.recipe, samples, params),
                **{mode: peers.training(self.recipe, samples, params, mode) for mode in modes() if with_peers},
            }
        self.turns = Turns(contestants | self.loops, least=0.0 if steps else TURN)

    def natives(self, samples: Any, params: Any) -> dict[str, Callable[[], Any]]:
        threads = {ALONE: 1, NATIVE: cores()}
        try:
            contestants = {name: native_training(self.recipe, samples, params, n) for name, n in threads.items()}
            self.loops = {PEAK[name]: peak.Loop(n, say) for name, n in threads.items()}
        except EngineError as error:
            self.without_native = str(error)
            return {}
        return contestants

    def run(self, rounds: int) -> Iterator[int]:
        """Measure; yields after each round, the first of which compiles."""
        with on_cpu():
            yield from self.turns.run(rounds)

    def result(self) -> Result:
        seconds, fastest, compiling = self.turns.medians(), self.turns.fastest(), self.turns.compiling()
        sides = [name for name in seconds if name not in self.loops]
        return Result(
            preset=self.name,
            batch=self.recipe.training.batch,
            steps=self.steps,
            step_ms={name: seconds[name] / self.steps * 1e3 for name in sides},
            compile_s={name: compiling[name] for name in sides},
            multiply_adds=self.multiply_adds,
            peak={
                name: self.loops[loop].multiply_adds / fastest[loop]
                for name, loop in PEAK.items()
                if loop in self.loops
            },
            spread=self.turns.spread(),
            without_native=self.without_native,
        )


def check_names(command: str, names: list[str], known: tuple[str, ...] = PRESETS) -> None:
    for name in names:
        if name not in known:
            raise UnknownNameError(
                f"bench {command}: {name!r} is not compared{nearest(name, list(known))}; known: {', '.join(known)}"
            )


def comparable(recipe: Recipe) -> Recipe:
    """The recipe without what PyTorch's side leaves out: augmentation, clipping, a learning rate that changes.

    An epoch is all samples there are, and a model of texts has the vocabulary that its data would give it.
    """
    return dataclasses.replace(
        recipe,
        model=with_vocabulary(recipe.model),
        training=dataclasses.replace(recipe.training, shift=0, augment=Augment(), samples=0),
        optimiser=dataclasses.replace(recipe.optimiser, clip=0.0, schedule=Schedule()),
    )


def with_vocabulary(model: Network) -> Network:
    """A model of texts with the vocabulary of the data that it would meet."""
    if model.input.reads != TEXTS:
        return model
    return model.for_data(Dataset("", None, None, (), vocabulary=VOCABULARY), model.tasks[0])


def steps_for(multiply_adds: int) -> int:
    """Many where a step is short, so that the call itself weighs nothing; few where one is long."""
    return min(max(FEWEST, round(WORK / multiply_adds)), MOST)


def random_samples(recipe: Recipe, steps: int) -> Any:
    """Images, or a stream of tokens: enough for so many steps."""
    draw, count, model = np.random.default_rng(0), steps * recipe.training.batch, recipe.model
    if model.input.reads == TEXTS:
        return (random_stream if recipe.task.by_steps else random_rows)(draw, count, model.input)
    return Samples(
        images=draw.integers(256, size=(count, *model.example(1).shape[1:]), dtype=np.uint8),
        labels=draw.integers(model.input.classes, size=count, dtype=np.int32),
    )


def random_stream(draw: np.random.Generator, count: int, text: Any) -> Stream:
    context = text.context
    ids = draw.integers(text.vocabulary, size=count * context + 1, dtype=np.int32)  # something follows the last
    return Stream(ids, Static(context))


def random_rows(draw: np.random.Generator, count: int, text: Any) -> Rows:
    """Padded texts to be covered up in part: from half the context to all of it."""
    ids = draw.integers(text.vocabulary, size=(count, text.context), dtype=np.int32)
    keep = np.arange(text.context) < draw.integers(text.context // 2, text.context + 1, size=(count, 1))
    return Rows(ids, keep, Static(0), Static(text.vocabulary))


def jax_training(recipe: Recipe, samples: Any, params: Any) -> Callable[[], np.ndarray]:
    return training(JaxEngine(recipe, samples, seeds=(peers.SEED,)), params)


def native_training(recipe: Recipe, samples: Any, params: Any, threads: int = 0) -> Callable[[], np.ndarray]:
    return training(native_engine(recipe, samples, threads), params)


def native_engine(recipe: Recipe, samples: Any, threads: int) -> NativeEngine:
    settings = dataclasses.replace(recipe.engine, name="native", threads=threads)
    same_draws = dataclasses.replace(recipe.training, seed=peers.SEED)
    return NativeEngine(dataclasses.replace(recipe, engine=settings, training=same_draws), samples, say)


def training(engine: Engine, params: Any) -> Callable[[], np.ndarray]:
    """A call that trains on the engine's samples once, in their order, and returns the loss of each step."""
    batches = engine.batches([np.arange(engine.count)], peers.EPOCH)
    state = engine.start(jax.tree.map(np.array, params))  # copies: the jax engine writes over its state

    def train() -> np.ndarray:
        nonlocal state
        state, losses = engine.run(state, batches, 0, engine.steps)
        return losses

    return train


def say(notice: str) -> None:
    print(f"glassformer: {notice}", file=sys.stderr)


def modes() -> tuple[str, ...]:
    """The modes of PyTorch that run here: none without it, and no compiled one without a C++ compiler."""
    if torch_version() is None:
        return ()
    return peers.MODES if has_compiler() else peers.MODES[:-1]


def torch_version() -> str | None:
    try:
        import torch
    except ImportError:
        return None
    return torch.__version__


def has_compiler() -> bool:
    return any(map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++")))


def on_cpu() -> Any:
    """Ours too stays on the CPU where there is a GPU: PyTorch is measured there."""
    return jax.default_device(jax.devices("cpu")[0])
