"""The jax engine: many training steps in one compiled loop, data resident on the device, gradients written out.

The loop's bounds are arguments, so one program runs any stretch of an epoch: an epoch is cut into stretches for
progress and Ctrl-C, and a resumed run takes the very same steps. With several seeds everything is `vmap`ped over them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from glassformer.data.dataset import Samples
from glassformer.models import Model
from glassformer.train.gradient import loss_and_gradient
from glassformer.train.recipe import Recipe

EVALUATED_AT_ONCE = 1000  # images; a smaller last part is padded


class State(NamedTuple):
    """What a step changes."""

    params: Any
    optimiser: Any


class Batches(NamedTuple):
    """What an epoch reads: all samples, and which of them each step takes."""

    images: jax.Array
    labels: jax.Array
    order: jax.Array  # (steps, batch); the last row is filled up with samples that weigh nothing
    weights: jax.Array  # (steps, batch)
    key: jax.Array  # of this epoch


class JaxEngine:
    name = "jax"

    def __init__(self, recipe: Recipe, train: Samples, seeds: tuple[int, ...]) -> None:
        self.recipe, self.seeds, self.count = recipe, seeds, len(train.labels)
        self.images, self.labels = jnp.asarray(train.images), jnp.asarray(train.labels)
        self.steps = -(-self.count // recipe.training.batch)
        optimiser = recipe.optimiser.transformation(self.steps, recipe.training.epochs)
        self.init_optimiser = self.over_seeds(optimiser.init)
        step = partial(take_step, recipe, optimiser)
        shared = Batches(images=None, labels=None, order=0, weights=None, key=0)  # pyright: ignore[reportArgumentType]
        self.take_steps = self.compiled(
            self.over_seeds(partial(take_steps, step), in_axes=(0, shared, None, None)), donate_argnums=0
        )
        self.logits = self.compiled(self.over_seeds(partial(logits, recipe.model), in_axes=(0, None)))

    def over_seeds(self, function: Callable[..., Any], in_axes: Any = 0) -> Callable[..., Any]:
        return jax.vmap(function, in_axes=in_axes) if len(self.seeds) > 1 else function

    def compiled(self, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        deterministic = self.recipe.engine.deterministic and jax.default_backend() == "gpu"
        flags = {"xla_gpu_deterministic_ops": True} if deterministic else None
        return jax.jit(function, compiler_options=flags, **options)

    def start(self, params: Any) -> State:
        return State(params=params, optimiser=self.init_optimiser(params))

    def batches(self, orders: list[np.ndarray], epoch: int) -> Batches:
        """This epoch's samples, in the given order (one for each seed)."""
        batch = self.recipe.training.batch
        shape = (self.steps, batch)
        padded = [np.resize(order, shape).astype(np.int32) for order in orders]
        weights = (np.arange(self.steps * batch) < self.count).astype(np.float32).reshape(shape)
        keys = [key_of(seed, epoch) for seed in self.seeds]
        single = len(self.seeds) == 1
        return Batches(
            images=self.images,
            labels=self.labels,
            order=jnp.asarray(padded[0] if single else np.stack(padded)),
            weights=jnp.asarray(weights),
            key=keys[0] if single else jnp.stack(keys),
        )

    def run(self, state: State, batches: Batches, first: int, last: int) -> tuple[State, np.ndarray]:
        """Steps `first` to `last` (not included): the new state, and the loss of each step."""
        state, losses = self.take_steps(state, batches, first, last)
        return state, np.asarray(losses, np.float64)[..., first:last]

    def for_jax(self, batches: Batches) -> Batches:
        """The same epoch for code that looks inside a step: it has it already."""
        return batches

    def predict(self, params: Any, images: np.ndarray) -> np.ndarray:
        """Logits, (N, K), or (seeds, N, K)."""
        parts = []
        for start in range(0, len(images), EVALUATED_AT_ONCE):
            part = images[start : start + EVALUATED_AT_ONCE]
            full = np.resize(part, (EVALUATED_AT_ONCE, *part.shape[1:]))
            parts.append(np.asarray(self.logits(params, full))[..., : len(part), :])
        return np.concatenate(parts, axis=-2)


def take_steps(step: Callable[..., Any], state: State, batches: Batches, first: Any, last: Any) -> tuple[State, Any]:
    """A loop of training steps. Losses of steps outside the stretch are left at zero."""

    def body(i: Any, carry: tuple[State, Any]) -> tuple[State, Any]:
        state, losses = carry
        state, loss = step(state, batches, i)
        return state, losses.at[i].set(loss)

    return lax.fori_loop(first, last, body, (state, jnp.zeros(len(batches.order))))


def take_step(
    recipe: Recipe, optimiser: optax.GradientTransformation, state: State, batches: Batches, i: Any
) -> tuple[State, Any]:
    loss, dparams = loss_of_step(recipe, state.params, batches, i)
    updates, memory = optimiser.update(dparams, state.optimiser, state.params)
    return State(params=optax.apply_updates(state.params, updates), optimiser=memory), loss


def loss_of_step(recipe: Recipe, params: Any, batches: Batches, i: Any) -> tuple[Any, Any]:
    """Loss and gradient of the step's own samples, with its own shifts and its own dropout."""
    chosen = batches.order[i]
    key_shift, key_model = keys_of_step(batches.key, i)
    return loss_and_gradient(
        recipe.model,
        recipe.training.loss,
        params,
        shifted(key_shift, batches.images[chosen], recipe.training.shift),
        labels=batches.labels[chosen],
        weights=batches.weights[i],
        key=key_model,
    )


def key_of(seed: int, epoch: int) -> Any:
    return jax.random.fold_in(jax.random.key(seed), epoch)


def keys_of_step(key: Any, i: Any) -> Any:
    """For shifts and for the model, from the epoch's key."""
    return jax.random.split(jax.random.fold_in(key, i))


def corners_of(key: Any, count: int, most: int) -> Any:
    """Where each image is cut out of its padded self, (count, 2)."""
    return jax.random.randint(key, (count, 2), 0, 2 * most + 1)


@partial(jax.jit, static_argnums=(1, 2, 3))
def shifts_of(key: Any, steps: int, batch: int, most: int) -> Any:
    """All corners of an epoch, (steps, batch, 2), for an engine that draws none itself."""
    return jax.vmap(lambda i: corners_of(keys_of_step(key, i)[0], batch, most))(jnp.arange(steps))


def shifted(key: Any, images: Any, most: int) -> Any:
    """Each image moved by up to `most` pixels each way; what comes in at the border is black."""
    if most == 0:
        return images
    rows, columns, channels = images.shape[1:]
    padded = jnp.pad(images, ((0, 0), (most, most), (most, most), (0, 0)))
    corners = corners_of(key, len(images), most)

    def cut(image: Any, corner: Any) -> Any:
        return lax.dynamic_slice(image, (corner[0], corner[1], 0), (rows, columns, channels))

    return jax.vmap(cut)(padded, corners)


def logits(model: Model, params: Any, images: Any) -> Any:
    return model.forward(params, images)[0]
