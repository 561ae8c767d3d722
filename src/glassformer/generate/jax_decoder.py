"""The decoder in JAX, for every model that writes: its own prefill and step, compiled once for all texts."""

from functools import partial
from typing import Any

import jax
import numpy as np

from glassformer.generate.by_forward import ByForward
from glassformer.generate.decoder import answers, check_prompts, check_step, filled_up
from glassformer.models.incremental import Incremental, Source
from glassformer.models.model import Network
from glassformer.shapes import Array, Integer

FIRST_ROOM = 256  # tokens: little memory, and as much as most texts need


@partial(jax.jit, static_argnames="model")
def prefill(model: Incremental, params: Any, ids: Any, lengths: Any, **start: Any) -> tuple[Any, Any]:
    return model.prefill(params, ids, lengths, **start)


@partial(jax.jit, static_argnames="model", donate_argnames="state")
def step(model: Incremental, params: Any, state: Any, tokens: Any) -> tuple[Any, Any]:
    return model.step(params, state, tokens)


@jax.jit
def take_rows(state: Any, rows: Integer[Array, "N"]) -> Any:
    """Row i of each array becomes what row rows[i] was."""
    return jax.tree.map(lambda array: array[rows], state)


class JaxDecoder:
    def __init__(self, model: Network, params: Any, start_token: int = 0) -> None:
        """`start_token` is what an answer is written behind."""
        self.model, self.params, self.start_token = model, jax.device_put(params), start_token
        self.writer = model if isinstance(model, Incremental) else ByForward(model)
        self.context = self.writer.longest
        self.start_keywords = {"start_token": start_token} if answers(model) else {}
        self.state: Any = ()
        self.read_by = np.zeros(0, int)  # the prompt of each row
        self.places = np.zeros(0, np.int64)  # where the next token of each row will stand
        self.room = 0  # tokens that the state can hold

    def start(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        check_prompts(ids, lengths, self.context)
        prompts = filled_up(ids, self.context), lengths.astype(np.int32)
        scores, self.state = prefill(self.writer, self.params, *prompts, **self.start_keywords)
        self.read_by = np.arange(len(ids))
        self.places = np.ones(len(ids), np.int64) if answers(self.model) else lengths.astype(np.int64)
        self.make_room()
        return np.asarray(scores)

    def make_room(self) -> None:
        """Twice as much each time, so that a few compiled programs serve texts of any length."""
        needed = int(self.places.max(initial=0)) + 1
        self.room = min(max(FIRST_ROOM, 1 << (needed - 1).bit_length()), self.context)
        self.state = self.writer.make_room(self.state, self.room)

    def step(self, tokens: np.ndarray) -> np.ndarray:
        check_step(tokens, len(self.places), self.places.max(initial=0), self.context)
        if self.places.max(initial=0) >= self.room:
            self.make_room()
        scores, self.state = step(self.writer, self.params, self.state, tokens.astype(np.int32))
        self.places = self.places + 1
        return np.asarray(scores)

    def reorder(self, rows: np.ndarray) -> None:
        read_by = self.read_by[rows]
        stays = np.array_equal(read_by, self.read_by)  # beams of one prompt change places, and attend to the same
        self.state = jax.tree.map(
            lambda part: part if stays and isinstance(part, Source) else take_rows(part, rows),
            self.state,
            is_leaf=lambda part: isinstance(part, Source),
        )
        self.read_by, self.places = read_by, self.places[rows]
