"""LSTM: a recurrent layer with a memory cell that gates open and close. The result is the state after each token.

forward    pre = x @ w_x + b_x + before(h) @ w_h + b_h
           i = sigmoid(pre[0])      f = sigmoid(pre[1])      g = tanh(pre[2])      o = sigmoid(pre[3])
           c = f * before(c) + i * g      h = o * tanh(c)
backward   dh = dy + later(sum_heads(dpre @ w_h^T))      do = dh * tanh(c)
           dc = dh * o * (1 - tanh(c)^2) + later(dc * f)
           di = dc * g      df = dc * before(c)      dg = dc * i
           dpre = stack(di * i * (1 - i), df * f * (1 - f), dg * (1 - g^2), do * o * (1 - o))
           dx = sum_heads(dpre @ w_x^T)      dw_x = x^T @ dpre      dw_h = before(h)^T @ dpre
           db_x = sum_tokens(dpre)           db_h = sum_tokens(dpre)

Four gates stand side by side in pre: i, f, g, o. Forward goes through the times 0, 1, …, backward from the last.
Along the cell the gradient is only ever multiplied by f: where that gate is open, it comes back from far unharmed.
Before the first token h and c are 0. As torch.nn.LSTM, both biases included, so that its weights fit.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import ShapeError, at_least, expect
from glassformer.layers.gates import State, joined, project_gates, project_gates_backward, uniform, zero_state
from glassformer.layers.over_time import one_earlier, over_time
from glassformer.names import tag
from glassformer.shapes import Array, Float, Key


class Params(NamedTuple):
    w_x: Float[Array, "I 4 O"]  # the gates i, f, g, o
    w_h: Float[Array, "O 4 O"]
    b_x: Float[Array, "4 O"] | None
    b_h: Float[Array, "4 O"] | None
    decayed = ("w_x", "w_h")


class Cache(NamedTuple):
    x: Float[Array, "B T I"]
    i: Float[Array, "B T O"]  # input gate: how much of g is written
    f: Float[Array, "B T O"]  # forget gate: how much of the cell stays
    g: Float[Array, "B T O"]  # what would be written
    o: Float[Array, "B T O"]  # output gate: how much of the cell is shown
    c: Float[Array, "B T O"]  # the cell after each token
    h: Float[Array, "B T O"]  # the state after each token


@dataclass(frozen=True)
class LSTM:
    inputs: int  # I
    outputs: int  # O
    bias: bool = True
    axes: ClassVar = {"pre": "B T 4 O"}
    gates: ClassVar = ("i", "f", "g", "o")

    def __post_init__(self) -> None:
        at_least("lstm", 1, inputs=self.inputs, outputs=self.outputs)

    def init(self, key: Key) -> Params:
        key_x, key_h, key_bx, key_bh = jax.random.split(key, 4)
        return Params(
            w_x=uniform(key_x, self.inputs, 4, self.outputs, width=self.outputs),
            w_h=uniform(key_h, self.outputs, 4, self.outputs, width=self.outputs),
            b_x=uniform(key_bx, 4, self.outputs, width=self.outputs) if self.bias else None,
            b_h=uniform(key_bh, 4, self.outputs, width=self.outputs) if self.bias else None,
        )

    def forward(self, params: Params, x: Float[Array, "B T I"]) -> tuple[Float[Array, "B T O"], Cache]:
        expect("lstm", "width of the input", x.shape[-1], self.inputs)
        x = tag("x", x)
        from_x = project_gates(x, params.w_x, params.b_x)  # of all times at once: it does not depend on the state
        values = over_time(partial(self.advance, params), self.start_state(len(x), from_x.dtype), from_x)
        cache = Cache(x=x, **{name: values[name] for name in Cache._fields if name != "x"})
        return cache.h, cache

    def start_state(self, batch: int, dtype: Any = None) -> State:
        return zero_state(batch, self.outputs, dtype, cell=True)

    def step(self, params: Params, before: State, x: Float[Array, "B I"]) -> State:
        """One token: the state before it -> the state after it."""
        return self.advance(params, before, project_gates(x, params.w_x, params.b_x))[0]

    def advance(
        self, params: Params, before: State, from_x: Float[Array, "B 4 O"]
    ) -> tuple[State, dict[str, Float[Array, "B O"]]]:
        """One token whose projection is known already: the state after it, and the values that were made."""
        if before.c is None:
            raise ShapeError("lstm: a state without a memory cell came; begin with the model's own start_state(batch)")
        pre = tag("pre", from_x + project_gates(before.h, params.w_h, params.b_h))
        i = tag("i", jax.nn.sigmoid(pre[:, 0]))
        f = tag("f", jax.nn.sigmoid(pre[:, 1]))
        g = tag("g", jnp.tanh(pre[:, 2]))
        o = tag("o", jax.nn.sigmoid(pre[:, 3]))
        c = tag("c", f * before.c + i * g)
        h = tag("h", o * jnp.tanh(c))
        return State(h=h, c=c), {"i": i, "f": f, "g": g, "o": o, "c": c, "h": h}

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T O"]) -> tuple[Float[Array, "B T I"], Params]:
        def step(later, now):
            dh_later, dc_later = later
            dy, i, f, g, o, c, c_before = now
            dh = tag("dh", dy + dh_later)
            # h = o * tanh(c)
            tanh_c = jnp.tanh(c)
            do = tag("do", dh * tanh_c)
            dc = tag("dc", dh * o * (1 - tanh_c * tanh_c) + dc_later)
            # c = f * c_before + i * g
            di, df, dg = tag("di", dc * g), tag("df", dc * c_before), tag("dg", dc * i)
            # i, f, o = sigmoid(pre);  g = tanh(pre)
            dpre = jnp.stack([di * i * (1 - i), df * f * (1 - f), dg * (1 - g * g), do * o * (1 - o)], axis=1)
            dpre = tag("dpre", dpre)
            # pre = from_x + h_before @ w_h + b_h
            dh_before = joined(dpre) @ joined(params.w_h).T
            return (dh_before, dc * f), {"dpre": dpre}

        nothing = jnp.zeros_like(dy[:, 0])
        seen = (dy, cache.i, cache.f, cache.g, cache.o, cache.c, one_earlier(cache.c))
        dpre = over_time(step, (nothing, nothing), seen, reverse=True)["dpre"]
        _, dw_h, db_h = project_gates_backward(one_earlier(cache.h), params.w_h, params.b_h, dpre)
        # from_x = x @ w_x + b_x
        dx, dw_x, db_x = project_gates_backward(cache.x, params.w_x, params.b_x, dpre)
        return tag("dx", dx), Params(w_x=dw_x, w_h=dw_h, b_x=db_x, b_h=db_h)
