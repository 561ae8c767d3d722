"""The jax engine: many training steps in one compiled loop, data resident on the device, gradients written out.

The loop's bounds are arguments, so one program runs any chunk of an epoch: an epoch is cut into chunks for
progress and Ctrl-C, and a resumed run takes the very same steps. With several seeds everything is `vmap`ped over them.
On a GPU a small model takes its steps in blocks whose length the compiler knows: after each step of any other loop the
host asks the device whether it was the last, and a fourth of a short step is waiting.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from glassformer.errors import SettingError
from glassformer.layers.contract import narrowed, param_shapes
from glassformer.models.stack import stacked
from glassformer.train.augment import Augment, Draws, augmented, corners_of, draw
from glassformer.train.gradient import loss_and_gradient
from glassformer.train.limits import batch_must_fit, bytes_of
from glassformer.train.optimiser import PRESETS
from glassformer.train.placement import Placement
from glassformer.train.recipe import Recipe
from glassformer.train.score import Score, Tally, score_in_parts, tally
from glassformer.train.tasks.task import label_weights

BLOCK = 128  # steps, at most, of a loop whose length is known
SMALL = 1 << 24  # bytes of parameters: a block of steps is then over in the twinkling of an eye


class State(NamedTuple):
    """What a step changes."""

    params: Any
    optimiser: Any
    ema: Any = None  # averaged weights, where the recipe asks for them


class Batches(NamedTuple):
    """What an epoch reads: all samples, and which of them each batch holds. A step takes one batch or several."""

    samples: Any  # arrays of all samples, as the task has them
    order: jax.Array  # (batches, batch); the last row is padded with samples that weigh nothing
    weights: jax.Array  # (batches, batch)
    key: jax.Array  # of this epoch
    numbers: Any = None  # of the run, where a program serves several and they are not the recipe's


class JaxEngine:
    name, rounding = "jax", 0

    def __init__(self, recipe: Recipe, train: Any, seeds: tuple[int, ...]) -> None:
        self.recipe, self.seeds, self.placement = recipe, seeds, placement_of(recipe, seeds)
        scan_must_be_possible(recipe, seeds)
        self.take(train)
        self.steps = -(-self.count // recipe.training.samples_of_update)
        optimiser = self.optimiser
        self.block = self.steps_of_block()
        self.rounding = int(self.block > 1)
        batch_must_fit(
            recipe, self.samples, lambda params: State(params, optimiser.init(params), self.average(params)), len(seeds)
        )
        self.init_optimiser = self.over_seeds(optimiser.init)
        self.take_steps = self.stepping(partial(take_step, recipe, optimiser))
        self.tally = self.compiled(self.over_seeds(partial(tally_trained, recipe), in_axes=(0, None, None, None)))

    @property
    def optimiser(self) -> optax.GradientTransformation:
        return self.recipe.learning.transformation(self.steps, self.recipe.training.epochs)

    def steps_of_block(self) -> int:
        """As many as an epoch is a multiple of, so that there is one program; 1: there are no blocks."""
        if jax.default_backend() == "cpu" or bytes_of(param_shapes(self.recipe.network)) > SMALL:
            return 1
        return max(steps for steps in range(1, BLOCK + 1) if self.steps % steps == 0)

    def take(self, train: Any) -> None:
        """How many samples there are, and how many an epoch has; all of them on the device."""
        self.total = self.recipe.task.count(train)
        self.count = self.recipe.training.of_an_epoch(self.total)
        self.samples = self.whole(train)

    def stepping(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """The compiled program."""
        shared = Batches(samples=None, order=0, weights=None, key=0)  # pyright: ignore[reportArgumentType]
        steps = self.over_seeds(partial(take_steps, step), in_axes=(0, shared, None, None))
        block = self.over_seeds(partial(take_block, step, self.block), in_axes=(0, shared, None))
        self.take_block = self.compiled(block, donate_argnums=0)
        return self.compiled(steps, donate_argnums=0)

    def over_seeds(self, function: Callable[..., Any], in_axes: Any = 0) -> Callable[..., Any]:
        return jax.vmap(function, in_axes=in_axes) if len(self.seeds) > 1 else function

    def compiled(self, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        deterministic = self.recipe.engine.deterministic and jax.default_backend() == "gpu"
        flags = {"xla_gpu_deterministic_ops": True} if deterministic else None
        program = jax.jit(function, compiler_options=flags, **options)
        return program if self.placement is None else on_mesh(self.placement, program)

    def whole(self, tree: Any) -> Any:
        """On the device; of several, on each."""
        return jax.device_put(tree) if self.placement is None else self.placement.put_whole(tree)

    def start(self, params: Any) -> State:
        params = self.place(params)  # first: what is made like them lies where they do
        return self.place(State(params=params, optimiser=self.init_optimiser(params), ema=self.average(params)))

    def place(self, state: Any) -> Any:
        """A state from anywhere, or its parameters, as and where it is trained."""
        state = stacked(state) if self.recipe.engine.scan else state
        return jax.tree.map(jnp.asarray, state) if self.placement is None else self.placement.put(state)

    def average(self, params: Any) -> Any:
        """Averaged weights begin as the first ones; a copy, because a step gives its state away."""
        return jax.tree.map(jnp.copy, params) if self.recipe.training.ema else None

    def batches(self, orders: list[np.ndarray], epoch: int) -> Batches:
        """This epoch's samples, in the given order (one for each seed)."""
        batch = self.recipe.training.batch
        shape = (-(-self.count // batch), batch)
        padded = [np.resize(order, shape).astype(np.int32) for order in orders]
        weights = (np.arange(prod(shape)) < self.count).astype(np.float32).reshape(shape)
        single = len(self.seeds) == 1
        return Batches(
            samples=self.samples,
            order=self.whole(padded[0] if single else np.stack(padded)),
            weights=self.whole(weights),
            key=self.whole(self.keys(epoch)),
        )

    def keys(self, epoch: int) -> Any:
        keys = [key_of(seed, epoch) for seed in self.seeds]
        return jnp.stack(keys) if keys[1:] else keys[0]

    def run(self, state: State, batches: Batches, first: int, last: int) -> tuple[State, np.ndarray]:
        """Steps `first` to `last` (not included): the new state, and the loss of each step."""
        block = self.block if self.block > 1 else last + 1
        taken: list[tuple[Any, slice]] = []
        while first < last:
            stop = min(last, (first // block + 1) * block)
            if stop - first == block:
                state, losses = self.take_block(state, batches, first)
                taken.append((losses, slice(block)))
            else:
                state, losses = self.take_steps(state, batches, first, stop)
                taken.append((losses, slice(first, stop)))
            first = stop
        none = np.zeros((len(self.seeds), 0) if len(self.seeds) > 1 else 0)
        here = [np.asarray(losses, np.float64)[..., chosen] for losses, chosen in taken]
        return state, np.concatenate([none, *here], axis=-1)

    def for_jax(self, batches: Batches, step: int) -> tuple[Batches, range]:
        """For code that looks inside a step: the epoch, and which of its batches are the step's."""
        several = self.recipe.training.accumulate
        return batches, range(step * several, min((step + 1) * several, len(batches.order)))

    def score(self, params: Any, samples: Any) -> Score:
        """How well the samples are answered: numbers, or one for each seed."""
        return score_in_parts(self.tally, self.recipe.task, params, samples)


def placement_of(recipe: Recipe, seeds: tuple[int, ...]) -> Placement | None:
    """Where the arrays of a run lie; None: on one device. What a mesh cannot do is refused."""
    placement = recipe.placement
    if placement is not None:
        placement.must_split(recipe.training.batch)
        if seeds[1:]:
            raise SettingError(
                f"engine.mesh: {placement.name} is for one run, and {len(seeds)} seeds came; train one by one: --seed"
            )
    return placement


def scan_must_be_possible(recipe: Recipe, seeds: tuple[int, ...]) -> None:
    leave, optimiser = "set engine.scan=false", recipe.optimiser.name
    if not recipe.engine.scan:
        return
    if not recipe.model.has_stack:
        raise SettingError(
            f"engine.scan: the blocks of {type(recipe.model).__name__} are no Stack (models/stack.py); {leave}"
        )
    if optimiser not in PRESETS:  # these treat each number by itself; others may look at a whole array
        raise SettingError(f"engine.scan: it goes with {', '.join(PRESETS)}, and the optimiser is {optimiser}; {leave}")
    if seeds[1:]:
        raise SettingError(f"engine.scan: it is for one run, and {len(seeds)} seeds came; {leave}")


def on_mesh(placement: Placement, program: Callable[..., Any]) -> Callable[..., Any]:
    """The layers can ask for the mesh while they are traced (layers/sharding.py)."""

    def run(*args: Any) -> Any:
        with jax.set_mesh(placement.mesh):
            return program(*args)

    return run


def tally_trained(recipe: Recipe, params: Any, samples: Any, chosen: Any, here: Any) -> Tally:
    placement = recipe.placement
    if placement is not None:
        chosen, here = placement.split((chosen, here))
    return tally(recipe, recipe.merged(params), samples, chosen, here)


def take_steps(step: Callable[..., Any], state: State, batches: Batches, first: Any, last: Any) -> tuple[State, Any]:
    """A loop of training steps. Losses of steps outside the chunk are left at zero."""

    def body(i: Any, carry: tuple[State, Any]) -> tuple[State, Any]:
        state, losses = carry
        state, loss = step(state, batches, i)
        return state, losses.at[i].set(loss)

    return lax.fori_loop(first, last, body, (state, jnp.zeros(len(batches.order))))


def take_block(step: Callable[..., Any], count: int, state: State, batches: Batches, first: Any) -> tuple[State, Any]:
    """So many steps, and the loss of each."""
    return lax.scan(lambda state, i: step(state, batches, i), state, first + jnp.arange(count))


def take_step(
    recipe: Recipe, optimiser: optax.GradientTransformation, state: State, batches: Batches, i: Any
) -> tuple[State, Any]:
    loss, dparams = loss_of_step(recipe, state.params, batches, i)
    updates, memory = optimiser.update(dparams, state.optimiser, state.params)
    params, keep = optax.apply_updates(state.params, updates), recipe.training.ema
    # keep * ema + (1 - keep) * params, so that what does not change stays to the bit
    ema = jax.tree.map(lambda ema, new: ema + (1 - keep) * (new - ema), state.ema, params) if keep else None
    state = State(params=params, optimiser=memory, ema=ema)
    return state if recipe.placement is None else recipe.placement.keep(state), loss


def loss_of_step(recipe: Recipe, params: Any, batches: Batches, i: Any) -> tuple[Any, Any]:
    """Loss and gradient of a step: of its batch, or means over the labels of those that it accumulates."""
    several = recipe.training.accumulate
    if several == 1:
        return loss_of_batch(recipe, params, batches, i)[:2]

    def add(j: Any, sums: Any) -> Any:
        loss, dparams, weight = loss_of_batch(recipe, params, batches, j)
        return jax.tree.map(lambda total, value: total + weight * value, sums, (loss, dparams, 1.0))

    nothing = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params), 0.0)
    last = jnp.minimum((i + 1) * several, len(batches.order))  # an epoch's last step may have fewer
    loss, dparams, weight = lax.fori_loop(i * several, last, add, nothing)
    return jax.tree.map(lambda total: total / weight, (loss, dparams))


def loss_of_batch(recipe: Recipe, params: Any, batches: Batches, i: Any) -> tuple[Any, Any, Any]:
    """Loss and gradient of a batch, with its own augmentation and its own dropout; the weight of its labels."""
    chosen, here, placement = batches.order[i], batches.weights[i], recipe.placement
    if placement is not None:
        chosen, here = placement.split((chosen, here))
    key_draw, key_model = keys_of_step(batches.key, i)
    batch = recipe.task.drawn(batches.samples, chosen, key_draw)
    narrow = jnp.bfloat16 if recipe.engine.precision == "bf16" else None
    weights, params = label_weights(batch, here), narrowed(params, narrow) if narrow else params
    x = augmented(key_draw, batch.x, recipe.training.augment, recipe.training.shift)
    given = x, batch.labels, weights, batch.keywords
    if placement is not None:
        given, params = placement.split(given), placement.keep(params)  # narrow they lie as before, and are gathered so
    x, labels, weights, keywords = given
    with nullcontext() if placement is None else placement.working():
        loss, dparams = loss_and_gradient(
            recipe.network,
            recipe.loss,
            params,
            in_precision(x, narrow),
            labels=labels,
            weights=weights,
            key=key_model,
            **keywords,
        )
    dparams = in_precision(dparams, narrow and jnp.float32)
    return loss, dparams if placement is None else placement.keep(dparams), jnp.sum(weights)


def in_precision(tree: Any, dtype: Any) -> Any:
    """Floats, and the bytes of images, in this type; None: as they are."""

    def cast(leaf: Any) -> Any:
        return leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) or leaf.dtype == jnp.uint8 else leaf

    return tree if dtype is None else jax.tree.map(cast, tree)


def key_of(seed: int, epoch: int) -> Any:
    return jax.random.fold_in(jax.random.key(seed), epoch)


def keys_of_step(key: Any, i: Any) -> Any:
    """For drawing the batch (shifts, say) and for the model, from the epoch's key."""
    return jax.random.split(jax.random.fold_in(key, i))


@partial(jax.jit, static_argnums=(1, 2, 3))
def shifts_of(key: Any, steps: int, batch: int, most: int) -> Any:
    """All corners of an epoch, (steps, batch, 2), for an engine that draws none itself."""
    return jax.vmap(lambda i: corners_of(keys_of_step(key, i)[0], batch, most))(jnp.arange(steps))


@partial(jax.jit, static_argnums=(1, 2, 3, 4, 5))
def draws_of(key: Any, steps: int, batch: int, size: tuple[int, int], augment: Augment, shift: int) -> Draws:
    """All draws of an epoch's augmentation, (steps, batch, …), for an engine that draws none itself."""
    return jax.vmap(lambda i: draw(keys_of_step(key, i)[0], batch, size, augment, shift))(jnp.arange(steps))
