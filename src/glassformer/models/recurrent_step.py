"""One token at a time: a recurrent cell's state before the token -> its state after it.

The formulas are those of layers/rnn.py, lstm.py and gru.py, whose forward goes through whole sequences from a state of
zero and keeps what backward reads. Whoever writes text token by token keeps the state alone. Tests hold both together.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import ShapeError
from glassformer.layers import gru, lstm, rnn
from glassformer.layers.gates import project_gates
from glassformer.layers.linear import project
from glassformer.shapes import Array, Float


class State(NamedTuple):
    h: Float[Array, "B O"]
    c: Float[Array, "B O"] | None = None  # the memory cell of an LSTM


def start(cell: str, batch: int, width: int) -> State:
    empty = jnp.zeros((batch, width))
    return State(h=empty, c=empty if cell == "lstm" else None)


def step(params: rnn.Params | lstm.Params | gru.Params, before: State, x: Float[Array, "B I"]) -> State:
    if isinstance(params, rnn.Params):
        return rnn_step(params, before, x)
    return lstm_step(params, before, x) if isinstance(params, lstm.Params) else gru_step(params, before, x)


def rnn_step(params: rnn.Params, before: State, x: Float[Array, "B I"]) -> State:
    return State(h=jnp.tanh(project(x, params.w_x, params.b_x) + project(before.h, params.w_h, params.b_h)))


def lstm_step(params: lstm.Params, before: State, x: Float[Array, "B I"]) -> State:
    if before.c is None:
        raise ShapeError("lstm: a state without a memory cell came; begin with the model's own start_state(batch)")
    pre = project_gates(x, params.w_x, params.b_x) + project_gates(before.h, params.w_h, params.b_h)
    i, f, o = (jax.nn.sigmoid(pre[:, gate]) for gate in (0, 1, 3))
    c = f * before.c + i * jnp.tanh(pre[:, 2])
    return State(h=o * jnp.tanh(c), c=c)


def gru_step(params: gru.Params, before: State, x: Float[Array, "B I"]) -> State:
    from_x = project_gates(x, params.w_x, params.b_x)
    from_h = project_gates(before.h, params.w_h, params.b_h)
    r, z = (jax.nn.sigmoid(from_x[:, gate] + from_h[:, gate]) for gate in (0, 1))
    n = jnp.tanh(from_x[:, 2] + r * from_h[:, 2])
    return State(h=(1 - z) * n + z * before.h)
