"""The native engine: the face of the jax engine, with the epoch's loop in C. Python sees it between chunks only."""

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import prod
from queue import SimpleQueue
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.cores import MOST_THREADS, cores
from glassformer.errors import EngineError, ShapeError
from glassformer.layers import Layer, LoRA
from glassformer.layers.contract import param_shapes
from glassformer.losses import CrossEntropy, LabelSmoothing
from glassformer.names import named_leaves
from glassformer.native import build
from glassformer.native.feed import Epoch, Feed, Part, SampleFeed, TextFeed, batch_shape
from glassformer.native.flat_state import Flat, flattened, spans_of, unflattened
from glassformer.native.lower import plan_for
from glassformer.native.plan import Plan, ends
from glassformer.native.tokens import reads_tokens
from glassformer.native.write import source
from glassformer.train.engines import register_engine
from glassformer.train.jax_engine import Batches, JaxEngine, State
from glassformer.train.optimiser import FROZEN
from glassformer.train.recipe import Recipe
from glassformer.train.score import Score, Tally, compiled_tally, score_in_parts, score_of_logits
from glassformer.train.tasks import Classify

OPTIMISERS = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}
EPS = 1e-8  # of Adam, as in optax
DTYPES = {"uint8_t": np.uint8, "float": np.float32, "int32_t": np.int32}
SHARDS = 8
TOKENS_AT_ONCE = 128  # of texts: a product reads its weights once for so many (measured: 64 take a tenth longer)
CHUNK = 256  # samples that a thread predicts at once


class Job(ctypes.Structure):
    """host.h's `job`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("images", "labels", "shares", "order")),
        *((name, ctypes.c_void_p) for name in ("shifts", "affine", "erased", "rates", "ends", "factors", "decays")),
        *((name, ctypes.c_void_p) for name in ("params", "m", "v", "ema", "losses", "space")),
        *(
            (name, ctypes.c_int32)
            for name in ("count", "batch", "first", "last", "done", "threads", "shards", "optimiser")
        ),
        *((name, ctypes.c_float) for name in ("smoothing", "momentum", "eps", "clip", "renewed")),
        *((name, ctypes.c_double) for name in ("b1", "b2")),
    )


class NativeEngine:
    name, block, rounding = "native", 1, 2  # rounding 2: cross-entropy by vectors

    def __init__(self, recipe: Recipe, train: Any, notice: build.Notice = print) -> None:
        must_be_covered(recipe)
        self.recipe, self.train = recipe, train
        self.total = recipe.task.count(train)
        self.count = recipe.training.of_an_epoch(self.total)
        self.threads = min(recipe.engine.threads or cores(), MOST_THREADS)
        self.steps = -(-self.count // recipe.training.samples_of_update)
        self.plan = planned(recipe, train)
        self.program = Program(build.load(source(self.plan), notice, tuple(self.plan.folders)), self.plan)
        self.feed = self.fed(train)
        self.optimiser = recipe.learning.transformation(self.steps, recipe.training.epochs)
        self.rates = rates_of(recipe, self.steps)
        self.spans = spans_of(recipe)
        self.shards = shards_of(self.plan, self.feed.batch)
        self.space = self.program.space(Job(batch=self.feed.batch, threads=self.threads, shards=self.shards))

    def fed(self, train: Any) -> Feed:
        if self.plan.words is not None:
            return TextFeed(self.recipe, train, self.plan.words)
        inputs, labels = train
        return SampleFeed(self.recipe, self.program.inputs(inputs), labels, self.steps)

    def start(self, params: Any) -> State:
        ema = jax.tree.map(np.array, params) if self.recipe.training.ema else None
        return State(params=params, optimiser=self.optimiser.init(params), ema=ema)

    def place(self, state: Any) -> Any:
        return jax.tree.map(jnp.asarray, state)

    def batches(self, orders: list[np.ndarray], epoch: int) -> Epoch:
        """This epoch's samples, in the given order."""
        rates = np.ascontiguousarray(self.rates[(epoch - 1) * self.steps : epoch * self.steps])
        return self.feed.epoch(orders[0], rates, epoch)

    def run(self, state: State, batches: Epoch, first: int, last: int) -> tuple[State, np.ndarray]:
        """Steps `first` to `last` (not included): the new state, and the loss of each step."""
        flat, found = Flat(state), [np.zeros(0)]
        for part in self.feed.parts(batches, first, last):
            losses = np.zeros(part.last, np.float32)
            job = self.job(flat, part, losses)
            self.program.library.gf_train(ctypes.byref(job))
            flat.count += part.last - part.first
            found.append(losses[part.first :].astype(np.float64))
        return flat.state(), np.concatenate(found)

    def gradient(self, params: Any, batches: Epoch, step: int) -> tuple[float, Any]:
        """Loss and gradient of one step, by themselves."""
        flat, losses = Flat(self.start(params)), np.zeros(1, np.float32)
        gradient = np.zeros_like(flat.params)
        (part,) = self.feed.parts(batches, step, step + 1)
        self.program.library.gf_gradient(ctypes.byref(self.job(flat, part, losses)), address(gradient))
        return float(losses[0]), unflattened(gradient, params)

    def job(self, flat: "Flat", part: Part, losses: np.ndarray) -> Job:
        optimiser, loss = self.recipe.optimiser, self.recipe.loss
        return Job(
            images=address(part.inputs),
            labels=address(part.labels),
            shares=address(part.shares),
            order=address(part.order),
            shifts=address(part.shifts),
            affine=address(part.affine),
            erased=address(part.erased),
            rates=address(part.rates),
            ends=address(self.spans.ends),
            factors=address(self.spans.factors),
            decays=address(self.spans.decays),
            params=address(flat.params),
            m=address(flat.m),
            v=address(flat.v),
            ema=address(flat.ema),
            losses=address(losses),
            space=address(self.space),
            count=part.total,
            batch=self.feed.batch,
            first=part.first,
            last=part.last,
            done=flat.count,
            threads=self.threads,
            shards=self.shards,
            optimiser=OPTIMISERS[optimiser.name],
            smoothing=loss.smoothing if isinstance(loss, LabelSmoothing) else 0.0,
            momentum=optimiser.momentum,
            b1=optimiser.b1,
            b2=optimiser.b2,
            eps=EPS,
            clip=optimiser.clip,
            renewed=1 - self.recipe.training.ema,
        )

    def predict(self, params: Any, inputs: np.ndarray) -> np.ndarray:
        """Logits, (N, K)."""
        return self.program.predict(flattened(params), inputs, self.threads)

    def score(self, params: Any, samples: Any) -> Score:
        if self.plan.words is not None:
            return score_in_parts(self.tally, self.recipe.task, params, samples)
        inputs, labels = samples
        return score_of_logits(self.predict(params, inputs), labels)

    @property
    def tally(self) -> Callable[..., Tally]:
        count_up = compiled_tally(Recipe(model=self.recipe.model, task=self.recipe.task))
        return lambda params, *samples: count_up(self.recipe.merged(params), *samples)

    def answering(self, params: Any) -> Callable[[np.ndarray], np.ndarray]:
        """The shortest way from one sample to its logits: weights, buffers and their addresses are ready."""
        program = self.program
        weights, logits, space = (
            flattened(params),
            np.empty(program.classes, np.float32),
            aligned(program.library.gf_space()),
        )
        predict, kept = program.library.gf_predict, (logits, weights, space)
        to_logits, to_weights, to_space = map(address, kept)
        count, dtype = program.size, program.dtype

        def answer(sample: np.ndarray, kept: Any = (self, *kept)) -> np.ndarray:  # kept: C holds addresses only
            values = np.ascontiguousarray(sample, dtype)
            if values.size != count:
                raise ShapeError(f"a sample of {values.size} values came, expected {count}")
            predict(to_logits, to_weights, values.ctypes.data, to_space, 1)
            return logits.copy()

        return answer

    def for_jax(self, batches: Epoch, step: int) -> tuple[Batches, range]:
        """The same epoch for code that looks inside a step, which is written in JAX."""
        engine = JaxEngine(self.recipe, self.train, (self.recipe.training.seed,))
        return engine.for_jax(engine.batches([batches.order], batches.epoch), step)


def shards_of(plan: Plan, batch: int) -> int:
    """Into how many parts the samples of a step are cut, each with a gradient of its own. A run's bits depend on it, so
    it follows from the recipe alone: enough for threads to be evenly busy, few enough to be added up in no time."""
    groups = -(-batch // plan.samples)
    return max(1, min(groups, SHARDS))


class Program:
    """A compiled model."""

    def __init__(self, library: ctypes.CDLL, plan: Plan) -> None:
        self.library = library
        self.size, self.dtype = plan.input.size, DTYPES[plan.input.c_type]
        self.classes = ends(plan)[0].width
        must_mirror(Job, library.gf_job_size())
        pointer = ctypes.c_void_p
        if plan.loss is None:
            library.gf_predict.argtypes = (pointer, pointer, pointer, pointer, ctypes.c_int64)
            library.gf_predict.restype = None
        library.gf_training_space.argtypes, library.gf_training_space.restype = (pointer,), ctypes.c_int64
        library.gf_train.argtypes, library.gf_train.restype = (pointer,), None
        library.gf_gradient.argtypes, library.gf_gradient.restype = (pointer, pointer), None

    def inputs(self, samples: np.ndarray) -> np.ndarray:
        """As C reads them."""
        if self.dtype == np.uint8 and samples.dtype != np.uint8:
            raise EngineError(f"the native engine reads images as bytes, and these are {samples.dtype}")
        return np.ascontiguousarray(samples, self.dtype)

    def space(self, job: Job) -> np.ndarray:
        """Room to train in."""
        return aligned(self.library.gf_training_space(ctypes.byref(job)))

    def predict(self, params: np.ndarray, samples: np.ndarray, threads: int) -> np.ndarray:
        """Logits, (N, K). Threads take samples as they are free, each in a room of its own."""
        samples, room = self.inputs(samples), self.library.gf_space()
        logits = np.empty((len(samples), self.classes), np.float32)
        rooms = SimpleQueue[np.ndarray]()
        for _ in range(threads):
            rooms.put(aligned(room))

        def predict_part(first: int) -> None:
            own, space = slice(first, first + CHUNK), rooms.get()
            self.predict_part(logits[own], params, samples[own], space)
            rooms.put(space)

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(predict_part, range(0, len(samples), CHUNK)))
        return logits

    def predict_part(self, logits: np.ndarray, params: np.ndarray, samples: np.ndarray, space: np.ndarray) -> None:
        self.library.gf_predict(address(logits), address(params), address(samples), address(space), len(samples))


def must_mirror(struct: type[ctypes.Structure], size: int) -> None:
    """C's struct has the size of ours: a field that only one of them has would shift all that follow."""
    if ctypes.sizeof(struct) != size:
        raise EngineError(
            f"{struct.__name__} has {ctypes.sizeof(struct)} bytes in Python and {size} in C: fields differ"
        )


def aligned(*shape: int) -> np.ndarray:
    """Zeros that begin on a line of memory. Where the system has large pages, NumPy asks for them."""
    whole = np.zeros(prod(shape) + 16, np.float32)
    begin = -whole.ctypes.data % 64 // 4
    return whole[begin : begin + prod(shape)].reshape(shape)


def address(array: np.ndarray | None) -> int | None:
    return None if array is None else array.ctypes.data


def rates_of(recipe: Recipe, steps: int) -> np.ndarray:
    """The learning rate of every step of the run."""
    epochs = recipe.training.epochs
    rate = recipe.optimiser.schedule.rate(recipe.optimiser.lr, steps, epochs)
    return np.array(np.broadcast_to(np.asarray(rate(np.arange(steps * epochs)), np.float32), steps * epochs))


def planned(recipe: Recipe, train: Any) -> Plan:
    model, samples = recipe.model, recipe.training.batch
    plan = partial(
        plan_for, model, rewrites=recipe.engine.rewrites, frozen=frozen_of(recipe), adapter=adapter_of(recipe)
    )
    if not reads_tokens(model):
        return plan(samples_at_once(model, samples))
    batch = batch_shape(recipe, train)
    tokens = batch.x.shape[1]
    return plan(max(1, min(samples, TOKENS_AT_ONCE // tokens)), tokens=tokens, padded="keep" in batch.keywords)


def adapter_of(recipe: Recipe) -> LoRA | None:
    """Thin matrices beside the model's own."""
    if recipe.network is recipe.model:
        return None
    if not isinstance(recipe.network, LoRA):
        raise EngineError(f"the native engine has no {type(recipe.network).__name__} around a model (tune)")
    return recipe.network


def frozen_of(recipe: Recipe) -> frozenset[str]:
    labels = named_leaves(recipe.learning.labels(param_shapes(recipe.network)))
    return frozenset(name for name, label in labels.items() if label == FROZEN)


def samples_at_once(model: Layer, batch: int) -> int:
    """One sample's tokens fill the tiles of a product; where all products have one row a sample, several are needed."""
    products = [call for call in plan_for(model, 1, training=False).forward if call.kernel == "linear_forward"]
    return min(16, batch) if all(call.sizes[0] == 1 for call in products) else 1


def must_be_covered(recipe: Recipe) -> None:
    """What has no C twin is refused by name."""
    if recipe.optimiser.name not in OPTIMISERS:
        raise EngineError(
            f"the native engine has no optimiser {recipe.optimiser.name} (it has {', '.join(OPTIMISERS)})"
        )
    if recipe.training.accumulate > 1 and not reads_tokens(recipe.model):
        raise EngineError("the native engine accumulates gradients of texts only (training.accumulate)")
    if recipe.engine.precision != "float32":
        raise EngineError("the native engine computes in float32 (engine.precision)")
    if recipe.engine.scan:
        raise EngineError("the native engine compiles no program that could be scanned (engine.scan)")
    if recipe.training.steps:
        raise EngineError("the native engine trains epochs of data in memory (training.steps)")
    plan_for(recipe.model, 1, adapter=adapter_of(recipe))
    if type(recipe.loss) not in (CrossEntropy, LabelSmoothing):
        raise EngineError(f"the native engine trains by cross-entropy, and has no {type(recipe.loss).__name__}")
    if not reads_tokens(recipe.model) and type(recipe.task) is not Classify:
        raise EngineError(f"the native engine trains classifiers of images, and has no {type(recipe.task).__name__}")


register_engine(NativeEngine)
