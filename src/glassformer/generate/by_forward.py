"""Writing with any model: its forward over the whole text so far, again for every token. Slow, and always right."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp

from glassformer.generate.decoder import answers
from glassformer.layers.masks import within
from glassformer.models.incremental import Incremental, Source
from glassformer.models.model import Network
from glassformer.models.t5 import Inputs
from glassformer.shapes import Array, Float, Integer


class State(NamedTuple):
    source: Source | None  # the prompt of a model that answers; its memory are the ids
    ids: Integer[Array, "B M"]  # the text so far
    place: Integer[Array, "B"]  # where the next token will stand


@dataclass(frozen=True)
class ByForward(Incremental):
    model: Network

    @property
    def longest(self) -> int:
        return self.model.input.context  # pyright: ignore[reportAttributeAccessIssue]

    def prefill(
        self, params: Any, ids: Integer[Array, "B T"], lengths: Integer[Array, "B"], *, start_token: Any = 0
    ) -> tuple[Float[Array, "B V"], State]:
        batch, length = ids.shape
        if answers(self.model):
            nothing = jnp.zeros((batch, self.longest), ids.dtype)
            state = State(Source(within(lengths, length), ids), nothing, jnp.zeros(batch, jnp.int32))
            return self.step(params, state, jnp.full(batch, start_token))
        state = State(None, jnp.pad(ids, ((0, 0), (0, self.longest - length))), lengths)
        return self.scores(params, state), state

    def step(self, params: Any, state: State, tokens: Integer[Array, "B"]) -> tuple[Float[Array, "B V"], State]:
        ids = state.ids.at[jnp.arange(len(tokens)), state.place].set(tokens)
        state = state._replace(ids=ids, place=state.place + 1)
        return self.scores(params, state), state

    def scores(self, params: Any, state: State) -> Float[Array, "B V"]:
        """Behind the last token of each row; no token sees the padding behind it."""
        forward: Any = self.model.forward
        if state.source is None:
            logits, _ = forward(params, state.ids)
        else:
            logits, _ = forward(params, Inputs(state.source.memory, state.ids), keep=state.source.keep)
        return logits[jnp.arange(len(state.ids)), state.place - 1]
