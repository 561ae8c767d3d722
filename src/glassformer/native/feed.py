"""What a step reads, as C takes it: samples that lie in memory (images, rows), or texts drawn as the jax engine does.

A feed makes an epoch of the given order, and cuts steps of it into parts, each with all its arrays. An image stays
where it is and is augmented in C, by draws of JAX; a text is drawn whole by the task: crops, covered tokens, weights.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.errors import EngineError
from glassformer.native.tokens import Words, dropout_keys, must_draw_as_c_does
from glassformer.train.augment import Augment
from glassformer.train.jax_engine import draws_of, key_of, keys_of_step, shifts_of
from glassformer.train.recipe import Recipe
from glassformer.train.tasks.task import Batch, label_weights

STEPS_DRAWN, WORDS_DRAWN = 32, 1 << 22  # at once: most steps, and most words of all their samples


class Epoch(NamedTuple):
    """What an epoch reads."""

    order: np.ndarray  # (count)
    rates: np.ndarray  # (steps)
    epoch: int
    shifts: np.ndarray | None = None  # (count, 2)
    affine: np.ndarray | None = None  # (count, 2, 3), which has the shifts in it
    erased: np.ndarray | None = None  # (count, 4)


class Part(NamedTuple):
    """Some steps, `first` to `last` of the arrays here."""

    inputs: np.ndarray
    labels: np.ndarray
    order: np.ndarray
    rates: np.ndarray
    total: int  # samples
    first: int
    last: int
    shares: np.ndarray | None = None
    shifts: np.ndarray | None = None
    affine: np.ndarray | None = None
    erased: np.ndarray | None = None


class Feed(Protocol):
    batch: int  # samples of a step

    def epoch(self, order: np.ndarray, rates: np.ndarray, epoch: int) -> Epoch: ...
    def parts(self, epoch: Epoch, first: int, last: int) -> Iterator[Part]: ...


class SampleFeed:
    """Images, or rows of numbers."""

    def __init__(self, recipe: Recipe, inputs: np.ndarray, labels: Any, steps: int) -> None:
        self.recipe, self.inputs, self.steps = recipe, inputs, steps
        self.labels = np.ascontiguousarray(labels, np.int32)
        self.batch = recipe.training.batch

    def epoch(self, order: np.ndarray, rates: np.ndarray, epoch: int) -> Epoch:
        """The very draws of the jax engine: shifts, or affine maps and rectangles."""
        training, plain = self.recipe.training, Epoch(np.ascontiguousarray(order, np.int32), rates, epoch)
        key, augment, shift = key_of(training.seed, epoch), training.augment, training.shift
        if augment != Augment():
            draws = draws_of(key, self.steps, training.batch, self.inputs.shape[1:3], augment, shift)
            return plain._replace(affine=np.asarray(draws.affine), erased=np.asarray(draws.erased))
        if not shift:
            return plain
        corners = np.asarray(shifts_of(key, self.steps, training.batch, shift)).reshape(-1, 2)
        return plain._replace(shifts=np.ascontiguousarray(corners - shift, np.int32))

    def parts(self, epoch: Epoch, first: int, last: int) -> Iterator[Part]:
        order, rates, _, *augmentation = epoch
        yield Part(self.inputs, self.labels, order, rates, len(order), first, last, None, *augmentation)


class TextFeed:
    """Texts: the task draws some steps at a time, as the jax engine draws each. A step may have several batches."""

    def __init__(self, recipe: Recipe, samples: Any, words: Words) -> None:
        self.recipe, self.samples, self.words = recipe, jax.device_put(samples), words
        self.several = recipe.training.accumulate
        self.batch = recipe.training.batch * self.several
        self.at_once = max(1, min(STEPS_DRAWN, WORDS_DRAWN // (self.batch * words.count)))
        if words.drops:
            must_draw_as_c_does()
        self.draw = jax.jit(jax.vmap(partial(drawn, recipe, words), in_axes=(None, 0, 0, 0, None)))

    def epoch(self, order: np.ndarray, rates: np.ndarray, epoch: int) -> Epoch:
        return Epoch(np.ascontiguousarray(order, np.int32), rates, epoch)

    def parts(self, epoch: Epoch, first: int, last: int) -> Iterator[Part]:
        batch, several = self.recipe.training.batch, self.several
        key, count = key_of(self.recipe.training.seed, epoch.epoch), len(epoch.order)
        for begin in range(first, last, self.at_once):
            end, batches = min(last, begin + self.at_once), begin * several + np.arange(self.at_once * several)
            places = batches[:, None] * batch + np.arange(batch)
            in_step = np.arange(self.at_once * several)[:, None] < (end - begin) * several
            here = ((places < count) & in_step).astype(np.float32)  # the last batch may be smaller, or fewer
            inputs, labels, weights = map(
                np.asarray, self.draw(self.samples, epoch.order[places % count], here, batches, key)
            )
            weights = weights.reshape(self.at_once, -1)[: end - begin]
            yield Part(
                inputs.reshape(-1, self.words.count),
                np.ascontiguousarray(labels),
                np.arange(len(inputs) * batch, dtype=np.int32),
                np.ascontiguousarray(epoch.rates[begin:end]),
                (end - begin) * self.batch,
                0,
                end - begin,
                weights / weights.sum(axis=1, keepdims=True),
            )


def drawn(recipe: Recipe, words: Words, samples: Any, chosen: Any, here: Any, number: Any, key: Any) -> Any:
    """A batch: its samples as rows of words, its labels, and how much each weighs."""
    key_draw, key_model = keys_of_step(key, number)
    batch = recipe.task.drawn(samples, chosen, key_draw)
    rows, parts = len(chosen), [batch.x]
    if words.padded:
        parts.append(batch.keywords["keep"])
    if words.drops:
        keys = dropout_keys(recipe.model, words, key_model).reshape(1, -1)
        parts += [jnp.arange(rows)[:, None], jnp.broadcast_to(keys.view(jnp.int32), (rows, keys.size))]
    inputs = jnp.concatenate([part.astype(jnp.int32) for part in parts], axis=1)
    return inputs, batch.labels.astype(jnp.int32), label_weights(batch, here)


def batch_shape(recipe: Recipe, samples: Any) -> Batch:
    """What the task draws, without drawing it; what C cannot read is refused."""
    chosen = jax.ShapeDtypeStruct((recipe.training.batch,), jnp.int32)
    batch: Batch = jax.eval_shape(recipe.task.drawn, samples, chosen, jax.random.key(0))
    other = [name for name in batch.keywords if name != "keep"]
    name = recipe.task.name
    if other:
        raise EngineError(f"the native engine gives a model ids and a padding mask, and the task {name} has {other[0]}")
    if not isinstance(batch.x, jax.ShapeDtypeStruct) or batch.x.ndim != 2 or len(batch.x) != len(batch.labels):
        raise EngineError(
            f"the native engine reads one row of ids and its labels a sample, and the task {name} differs"
        )
    return batch
