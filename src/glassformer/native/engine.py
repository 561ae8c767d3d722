"""The native engine: the face of the jax engine, with the epoch's loop in C. Python sees it between chunks only."""

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import prod
from queue import SimpleQueue
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from glassformer.cores import MOST_THREADS, cores
from glassformer.errors import EngineError, ShapeError
from glassformer.layers import Layer
from glassformer.layers.contract import decayed, param_shapes
from glassformer.losses import CrossEntropy, LabelSmoothing
from glassformer.native import build
from glassformer.native.lower import plan_for
from glassformer.native.plan import Plan, ends
from glassformer.native.write import source
from glassformer.train.augment import Augment
from glassformer.train.engines import register_engine
from glassformer.train.jax_engine import Batches, JaxEngine, State, draws_of, key_of, shifts_of
from glassformer.train.recipe import Recipe
from glassformer.train.score import Score, score_of_logits
from glassformer.train.tasks import Classify
from glassformer.train.tune import Full

OPTIMISERS = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}
EPS = 1e-8  # of Adam, as in optax
SHARDS = 8
CHUNK = 256  # samples that a thread predicts at once


class Job(ctypes.Structure):
    """host.h's `job`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("images", "labels", "order")),
        *((name, ctypes.c_void_p) for name in ("shifts", "affine", "erased", "rates", "ends")),
        *((name, ctypes.c_void_p) for name in ("params", "m", "v", "losses", "space")),
        *(
            (name, ctypes.c_int32)
            for name in ("count", "batch", "first", "last", "done", "threads", "shards", "optimiser")
        ),
        *((name, ctypes.c_float) for name in ("smoothing", "momentum", "eps", "weight_decay", "clip")),
        *((name, ctypes.c_double) for name in ("b1", "b2")),
    )


class Epoch(NamedTuple):
    """What an epoch reads."""

    order: np.ndarray  # (count)
    shifts: np.ndarray | None  # (count, 2)
    affine: np.ndarray | None  # (count, 2, 3), which has the shifts in it
    erased: np.ndarray | None  # (count, 4)
    rates: np.ndarray  # (steps)
    epoch: int


class NativeEngine:
    name, block, rounding = "native", 1, 1  # rounding 1: gradients are summed over fixed shards

    def __init__(self, recipe: Recipe, train: Any, notice: build.Notice = print) -> None:
        must_be_covered(recipe)
        self.recipe, self.train = recipe, train
        inputs, labels = train
        self.total = len(labels)
        self.count = recipe.training.of_an_epoch(self.total)
        self.threads = min(recipe.engine.threads or cores(), MOST_THREADS)
        self.labels = np.ascontiguousarray(labels, np.int32)
        self.steps = -(-self.count // recipe.training.batch)
        samples = samples_at_once(recipe.model, recipe.training.batch)
        plan = plan_for(recipe.model, samples, rewrites=recipe.engine.rewrites)
        self.program = Program(build.load(source(plan), notice, tuple(plan.folders)), plan)
        self.inputs = self.program.inputs(inputs)
        self.optimiser = recipe.optimiser.transformation(self.steps, recipe.training.epochs)
        self.rates = rates_of(recipe, self.steps)
        self.ends = ends_of_decay(recipe)
        self.shards = shards_of(plan, recipe.training.batch)
        self.space = self.program.space(Job(batch=recipe.training.batch, threads=self.threads, shards=self.shards))

    def start(self, params: Any) -> State:
        return State(params=params, optimiser=self.optimiser.init(params))

    def place(self, state: Any) -> Any:
        return jax.tree.map(jnp.asarray, state)

    def batches(self, orders: list[np.ndarray], epoch: int) -> Epoch:
        """This epoch's samples, in the given order."""
        rates = self.rates[(epoch - 1) * self.steps : epoch * self.steps]
        order, rates = np.ascontiguousarray(orders[0], np.int32), np.ascontiguousarray(rates)
        return Epoch(order, *self.augmentation(epoch), rates, epoch)

    def augmentation(self, epoch: int) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
        """The very draws of the jax engine: shifts, or affine maps and rectangles."""
        training = self.recipe.training
        key, augment, shift = key_of(training.seed, epoch), training.augment, training.shift
        if augment != Augment():
            size = self.train[0].shape[1:3]
            draws = draws_of(key, self.steps, training.batch, size, augment, shift)
            return None, np.asarray(draws.affine), np.asarray(draws.erased)
        if not shift:
            return None, None, None
        corners = shifts_of(key, self.steps, training.batch, shift)
        return np.ascontiguousarray(np.asarray(corners).reshape(-1, 2) - shift, np.int32), None, None

    def run(self, state: State, batches: Epoch, first: int, last: int) -> tuple[State, np.ndarray]:
        """Steps `first` to `last` (not included): the new state, and the loss of each step."""
        flat, losses = Flat(state), np.zeros(self.steps, np.float32)
        job = self.job(flat, batches, losses, first, last)
        self.program.library.gf_train(ctypes.byref(job))
        return flat.state(last - first), losses[first:last].astype(np.float64)

    def gradient(self, params: Any, batches: Epoch, step: int) -> tuple[float, Any]:
        """Loss and gradient of one step, by themselves."""
        flat, losses = Flat(self.start(params)), np.zeros(1, np.float32)
        gradient = np.zeros_like(flat.params)
        job = self.job(flat, batches, losses, step, step + 1)
        self.program.library.gf_gradient(ctypes.byref(job), address(gradient))
        return float(losses[0]), unflattened(gradient, params)

    def job(self, flat: "Flat", batches: Epoch, losses: np.ndarray, first: int, last: int) -> Job:
        training, optimiser, loss = self.recipe.training, self.recipe.optimiser, self.recipe.loss
        return Job(
            images=address(self.inputs),
            labels=address(self.labels),
            order=address(batches.order),
            shifts=address(batches.shifts),
            affine=address(batches.affine),
            erased=address(batches.erased),
            rates=address(batches.rates),
            ends=address(self.ends),
            params=address(flat.params),
            m=address(flat.m),
            v=address(flat.v),
            losses=address(losses),
            space=address(self.space),
            count=self.count,
            batch=training.batch,
            first=first,
            last=last,
            done=flat.count,
            threads=self.threads,
            shards=self.shards,
            optimiser=OPTIMISERS[optimiser.name],
            smoothing=loss.smoothing if isinstance(loss, LabelSmoothing) else 0.0,
            momentum=optimiser.momentum,
            b1=optimiser.b1,
            b2=optimiser.b2,
            eps=EPS,
            weight_decay=optimiser.weight_decay if optimiser.name == "adamw" else 0.0,
            clip=optimiser.clip,
        )

    def predict(self, params: Any, inputs: np.ndarray) -> np.ndarray:
        """Logits, (N, K)."""
        return self.program.predict(flattened(params), inputs, self.threads)

    def score(self, params: Any, samples: Any) -> Score:
        inputs, labels = samples
        return score_of_logits(self.predict(params, inputs), labels)

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
        self.size, self.dtype = plan.input.size, np.uint8 if plan.input.is_bytes else np.float32
        self.classes = ends(plan)[0].width
        must_mirror(Job, library.gf_job_size())
        pointer = ctypes.c_void_p
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


class Flat:
    """A state as C has it: each part one array of all parameters, in the order of their names."""

    def __init__(self, state: State) -> None:
        self.template = state
        self.params = flattened(state.params)
        trace = part_of(state.optimiser, "trace")
        self.m = part_of(state.optimiser, "mu") if trace is None else trace
        self.v = part_of(state.optimiser, "nu")
        counts = optax.tree_utils.tree_get_all_with_path(state.optimiser, "count")
        self.count = int(counts[0][1])

    def state(self, steps: int) -> State:
        """The same state after so many steps, from what C has written."""
        like, params = self.template.optimiser, self.template.params
        parts: dict[str, Any] = {"count": np.asarray(self.count + steps, np.int32)}
        if self.v is not None and self.m is not None:
            parts |= {"mu": unflattened(self.m, params), "nu": unflattened(self.v, params)}
        elif self.m is not None:
            parts |= {"trace": unflattened(self.m, params)}
        return State(params=unflattened(self.params, params), optimiser=optax.tree_utils.tree_set(like, **parts))


def part_of(optimiser: Any, name: str) -> np.ndarray | None:
    found = optax.tree_utils.tree_get_all_with_path(optimiser, name)
    return flattened(found[0][1]) if found else None


def flattened(tree: Any) -> np.ndarray:
    """A copy of all leaves, one after the other."""
    return np.concatenate([np.asarray(leaf, np.float32).ravel() for leaf in jax.tree.leaves(tree)])


def unflattened(flat: np.ndarray, like: Any) -> Any:
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([np.size(leaf) for leaf in leaves])
    parts = np.split(flat, ends[:-1])
    return jax.tree.unflatten(
        structure, [part.reshape(np.shape(leaf)) for part, leaf in zip(parts, leaves, strict=True)]
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


def ends_of_decay(recipe: Recipe) -> np.ndarray:
    """Where spans of parameters end that are decayed, not decayed, decayed and so on; the first may be empty."""
    shapes = param_shapes(recipe.model)
    sizes = [leaf.size for leaf in jax.tree.leaves(shapes)]
    flags = jax.tree.leaves(decayed(shapes)) if recipe.optimiser.decay == "matrices" else [True] * len(sizes)
    each = np.repeat(flags, sizes)
    return np.append(np.flatnonzero(np.diff(each, prepend=True)), len(each)).astype(np.int32)


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
    if recipe.tune != Full():
        raise EngineError("the native engine trains all of a model (tune)")
    if recipe.optimiser.named:
        raise EngineError(
            "the native engine has one learning rate for all parameters (optimiser.groups, optimiser.freeze)"
        )
    if recipe.training.accumulate > 1:
        raise EngineError("the native engine does not accumulate gradients (training.accumulate)")
    if recipe.training.ema:
        raise EngineError("the native engine keeps no averaged weights (training.ema)")
    if recipe.engine.precision != "float32":
        raise EngineError("the native engine computes in float32 (engine.precision)")
    if recipe.engine.scan:
        raise EngineError("the native engine compiles no program that could be scanned (engine.scan)")
    plan_for(recipe.model, 1)
    for what, is_known in (
        (recipe.task, type(recipe.task) is Classify),
        (recipe.loss, type(recipe.loss) in (CrossEntropy, LabelSmoothing)),
    ):
        if not is_known:
            raise EngineError(
                f"the native engine trains classifiers by cross-entropy, and has no {type(what).__name__}"
            )


register_engine(NativeEngine)
