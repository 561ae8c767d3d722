"""Recurrent layer: a hidden state reads the tokens one by one. The result is the state after each token.

forward    pre = x @ w_x + b_x + before(h) @ w_h + b_h      h = tanh(pre)
backward   dh = dy + later(dpre @ w_h^T)      dpre = dh * (1 - h^2)      dx = dpre @ w_x^T
           dw_x = x^T @ dpre      dw_h = before(h)^T @ dpre      db_x = sum_tokens(dpre)      db_h = sum_tokens(dpre)

A state was used twice, as a result and by the next time, so its gradient is the sum of both. Before the first token h
is 0. As torch.nn.RNN with tanh, both biases included, so that its weights fit.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import at_least, expect
from glassformer.layers.gates import State, uniform, zero_state
from glassformer.layers.linear import project, project_backward
from glassformer.layers.over_time import one_earlier, over_time
from glassformer.names import tag
from glassformer.shapes import Array, Float, Key


class Params(NamedTuple):
    w_x: Float[Array, "I O"]
    w_h: Float[Array, "O O"]
    b_x: Float[Array, "O"] | None
    b_h: Float[Array, "O"] | None


class Cache(NamedTuple):
    x: Float[Array, "B T I"]
    h: Float[Array, "B T O"]  # the state after each token


@dataclass(frozen=True)
class RNN:
    inputs: int  # I
    outputs: int  # O
    bias: bool = True
    axes: ClassVar = {"pre": "B T O"}

    def __post_init__(self) -> None:
        at_least("rnn", 1, inputs=self.inputs, outputs=self.outputs)

    def init(self, key: Key) -> Params:
        key_x, key_h, key_bx, key_bh = jax.random.split(key, 4)
        return Params(
            w_x=uniform(key_x, self.inputs, self.outputs, width=self.outputs),
            w_h=uniform(key_h, self.outputs, self.outputs, width=self.outputs),
            b_x=uniform(key_bx, self.outputs, width=self.outputs) if self.bias else None,
            b_h=uniform(key_bh, self.outputs, width=self.outputs) if self.bias else None,
        )

    def forward(self, params: Params, x: Float[Array, "B T I"]) -> tuple[Float[Array, "B T O"], Cache]:
        expect("rnn", "width of the input", x.shape[-1], self.inputs)
        x = tag("x", x)
        from_x = project(x, params.w_x, params.b_x)  # of all times at once: it does not depend on the state
        h = over_time(partial(self.advance, params), self.start_state(len(x), from_x.dtype), from_x)["h"]
        return h, Cache(x=x, h=h)

    def start_state(self, batch: int, dtype: Any = None) -> State:
        return zero_state(batch, self.outputs, dtype)

    def step(self, params: Params, before: State, x: Float[Array, "B I"]) -> State:
        """One token: the state before it -> the state after it."""
        return self.advance(params, before, project(x, params.w_x, params.b_x))[0]

    def advance(
        self, params: Params, before: State, from_x: Float[Array, "B O"]
    ) -> tuple[State, dict[str, Float[Array, "B O"]]]:
        """One token whose projection is known already: the state after it, and the values that were made."""
        pre = tag("pre", from_x + project(before.h, params.w_h, params.b_h))
        h = tag("h", jnp.tanh(pre))
        return State(h=h), {"h": h}

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T O"]) -> tuple[Float[Array, "B T I"], Params]:
        def step(dh_later, now):
            dy, h = now
            dh = tag("dh", dy + dh_later)
            # h = tanh(pre)
            dpre = tag("dpre", dh * (1 - h * h))
            # pre = from_x + h_before @ w_h + b_h
            return dpre @ params.w_h.T, {"dpre": dpre}

        dpre = over_time(step, jnp.zeros_like(dy[:, 0]), (dy, cache.h), reverse=True)["dpre"]
        _, dw_h, db_h = project_backward(one_earlier(cache.h), params.w_h, params.b_h, dpre)
        # from_x = x @ w_x + b_x
        dx, dw_x, db_x = project_backward(cache.x, params.w_x, params.b_x, dpre)
        return tag("dx", dx), Params(w_x=dw_x, w_h=dw_h, b_x=db_x, b_h=db_h)
