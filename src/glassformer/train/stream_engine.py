"""The jax engine for running text of any length: the random crops of a step are read, sent to the device and forgotten.

Which crops a step has follows from the seed and the number of the step alone: any step can be repeated, and a resumed
run reads the very same ones. While the device computes a step, the next one's crops are read.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.data.token_shards import TokenStream
from glassformer.train.jax_engine import Batches, JaxEngine, State


class Epoch(NamedTuple):
    """The steps between two scores."""

    first: int  # steps before it
    keys: Any  # one for each seed


class StreamEngine(JaxEngine):
    def take(self, train: Any) -> None:
        training = self.recipe.training
        self.stream, self.length = train.ids, train.context.value + 1
        self.total, self.count = 1, training.score_every * training.samples_of_update  # nothing is put in order
        rows = jax.ShapeDtypeStruct((training.samples_of_update, self.length), jnp.int32)
        self.samples = train._replace(ids=rows)

    def steps_of_block(self) -> int:
        return 1  # each step's crops are sent by themselves

    def stepping(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def one_step(state: State, rows: Any, key: Any, i: Any) -> tuple[State, Any]:
            return step(state, self.of_step(rows, key, i), 0)

        return self.compiled(self.over_seeds(one_step, in_axes=(0, 0, 0, None)), donate_argnums=0)

    def batches(self, orders: list[np.ndarray], epoch: int) -> Any:
        return Epoch((epoch - 1) * self.steps, self.keys(epoch))

    def run(self, state: State, batches: Any, first: int, last: int) -> tuple[State, np.ndarray]:
        losses = []
        for i in range(first, last):
            state, loss = self.take_steps(state, self.rows(batches.first + i), batches.keys, i)
            losses.append(loss)
        return state, np.stack(jax.device_get(losses), axis=-1).astype(np.float64) if losses else np.zeros((1, 0))

    def rows(self, step: int) -> Any:
        """The crops of a step, (B, T + 1); of several seeds, one such array for each."""
        count = self.recipe.training.samples_of_update
        if self.placement is not None:  # every host reads its own
            shape = count, self.length
            return self.placement.from_rows(shape, lambda rows: crops(self.stream, self.seeds[0], step, *shape, rows))
        rows = [crops(self.stream, seed, step, count, self.length) for seed in self.seeds]
        return jnp.asarray(np.stack(rows) if rows[1:] else rows[0])

    def for_jax(self, batches: Any, step: int) -> tuple[Batches, range]:
        of_step = self.of_step(self.rows(batches.first + step), batches.keys, step)
        return of_step, range(self.recipe.training.accumulate)

    def of_step(self, rows: Any, key: Any, i: Any) -> Batches:
        """One step as an epoch of its own."""
        training = self.recipe.training
        shape = training.accumulate, training.batch
        order = jnp.arange(training.samples_of_update).reshape(shape)
        if self.placement is not None:  # 4 bytes a token, gathered once; what is made of them is split
            rows = self.placement.everywhere(rows)
        return Batches(self.samples._replace(ids=rows), order, jnp.ones(shape), jax.random.fold_in(key, i))


def crops(
    stream: TokenStream | np.ndarray, seed: int, step: int, count: int, length: int, rows: slice = slice(None)
) -> np.ndarray:
    """`count` windows that begin anywhere, int32 (count, length): always the same for a seed and a step.

    Where the windows begin is drawn for all of them, and only `rows` of them are read: those of one host.
    """
    drawn = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, step]))
    starts = drawn.integers(0, len(stream) - length + 1, count)[rows]
    if isinstance(stream, TokenStream):
        return stream.crops(starts, length)
    return np.stack([stream[start : start + length] for start in starts])
