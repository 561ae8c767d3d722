"""A recurrent language model, token by token: all that it remembers is the state of its cells.

start      the state after each row's prompt: a row that is over keeps its state while longer ones go on
step       the model's own step

The state is as large after many tokens as after one, so there is no longest text.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.generate.decoder import check_prompts, check_step, filled_up
from glassformer.generate.kv_cache import take_rows
from glassformer.models import RecurrentLM
from glassformer.models.recurrent_lm import Params
from glassformer.shapes import Array, Float, Integer

ENDLESS = 2**31 - 1


@partial(jax.jit, static_argnames="model")
def read(
    model: RecurrentLM, params: Params, ids: Integer[Array, "B T"], lengths: Integer[Array, "B"]
) -> tuple[Float[Array, "B V"], Any]:
    """The scores behind each row's last real token, and the state there."""

    def one(state: Any, at: tuple[Integer[Array, ""], Integer[Array, "B"]]) -> tuple[Any, None]:
        place, tokens = at
        _, after = model.step(params, state, tokens)
        goes_on = (place < lengths - 1)[:, None]
        return jax.tree.map(lambda new, old: jnp.where(goes_on, new, old), after, state), None

    before_last, _ = jax.lax.scan(one, model.start_state(len(ids)), (jnp.arange(ids.shape[1]), ids.T))
    return model.step(params, before_last, ids[jnp.arange(len(ids)), lengths - 1])


onward = partial(jax.jit, static_argnames="self", donate_argnames="state")(RecurrentLM.step)


class RecurrentDecoder:
    def __init__(self, model: RecurrentLM, params: Params) -> None:
        self.model, self.params, self.context = model, jax.device_put(params), ENDLESS
        self.state: Any = ()
        self.rows = 0

    def start(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        check_prompts(ids, lengths, self.context)
        self.rows = len(ids)
        scores, self.state = read(self.model, self.params, filled_up(ids, self.context), lengths.astype(np.int32))
        return np.asarray(scores)

    def step(self, tokens: np.ndarray) -> np.ndarray:
        check_step(tokens, self.rows, 0, self.context)
        scores, self.state = onward(self.model, self.params, self.state, tokens.astype(np.int32))
        return np.asarray(scores)

    def reorder(self, rows: np.ndarray) -> None:
        self.state, self.rows = take_rows(self.state, rows), len(rows)
