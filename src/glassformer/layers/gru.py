"""GRU: a recurrent layer whose gates mix the old state with a new one. The result is the state after each token.

forward    from_x = x @ w_x + b_x                     from_h = before(h) @ w_h + b_h
           r = sigmoid(from_x[0] + from_h[0])         z = sigmoid(from_x[1] + from_h[1])
           m = from_h[2]                              n = tanh(from_x[2] + r * m)
           h = (1 - z) * n + z * before(h)
backward   dh = dy + later(dh * z + sum_heads(dfrom_h @ w_h^T))
           dn = dh * (1 - z)        dz = dh * (before(h) - n)
           dpre = dn * (1 - n^2)    dm = dpre * r      dr = dpre * m
           dfrom_x = stack(dr * r * (1 - r), dz * z * (1 - z), dpre)
           dfrom_h = stack(dr * r * (1 - r), dz * z * (1 - z), dm)
           dx = sum_heads(dfrom_x @ w_x^T)      dw_x = x^T @ dfrom_x      dw_h = before(h)^T @ dfrom_h
           db_x = sum_tokens(dfrom_x)           db_h = sum_tokens(dfrom_h)

Three gates stand side by side in from_x and from_h: r, z, n. The reset gate r is applied after the projection of the
state, its bias included, as in torch.nn.GRU (and cuDNN), so that their weights fit. Before the first token h is 0.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import at_least, expect
from glassformer.layers.gates import State, joined, project_gates, project_gates_backward, uniform, zero_state
from glassformer.layers.over_time import one_earlier, over_time
from glassformer.names import tag
from glassformer.shapes import Array, Float, Key


class Params(NamedTuple):
    w_x: Float[Array, "I 3 O"]  # the gates r, z, n
    w_h: Float[Array, "O 3 O"]
    b_x: Float[Array, "3 O"] | None
    b_h: Float[Array, "3 O"] | None
    decayed = ("w_x", "w_h")


class Cache(NamedTuple):
    x: Float[Array, "B T I"]
    r: Float[Array, "B T O"]  # reset gate: how much of the old state goes into the new one
    z: Float[Array, "B T O"]  # update gate: how much of the old state stays
    m: Float[Array, "B T O"]  # what the old state offers to the new one
    n: Float[Array, "B T O"]  # the new state
    h: Float[Array, "B T O"]  # the state after each token, a mixture of both


@dataclass(frozen=True)
class GRU:
    inputs: int  # I
    outputs: int  # O
    bias: bool = True
    axes: ClassVar = {"from_x": "B T 3 O", "from_h": "B T 3 O"}
    gates: ClassVar = ("r", "z", "n")

    def __post_init__(self) -> None:
        at_least("gru", 1, inputs=self.inputs, outputs=self.outputs)

    def init(self, key: Key) -> Params:
        key_x, key_h, key_bx, key_bh = jax.random.split(key, 4)
        return Params(
            w_x=uniform(key_x, self.inputs, 3, self.outputs, width=self.outputs),
            w_h=uniform(key_h, self.outputs, 3, self.outputs, width=self.outputs),
            b_x=uniform(key_bx, 3, self.outputs, width=self.outputs) if self.bias else None,
            b_h=uniform(key_bh, 3, self.outputs, width=self.outputs) if self.bias else None,
        )

    def forward(self, params: Params, x: Float[Array, "B T I"]) -> tuple[Float[Array, "B T O"], Cache]:
        expect("gru", "width of the input", x.shape[-1], self.inputs)
        x = tag("x", x)
        # of all times at once: it does not depend on the state
        from_x = tag("from_x", project_gates(x, params.w_x, params.b_x))
        values = over_time(partial(self.advance, params), self.start_state(len(x), from_x.dtype), from_x)
        cache = Cache(x=x, **{name: values[name] for name in Cache._fields if name != "x"})
        return cache.h, cache

    def start_state(self, batch: int, dtype: Any = None) -> State:
        return zero_state(batch, self.outputs, dtype)

    def step(self, params: Params, before: State, x: Float[Array, "B I"]) -> State:
        """One token: the state before it -> the state after it."""
        return self.advance(params, before, project_gates(x, params.w_x, params.b_x))[0]

    def advance(
        self, params: Params, before: State, from_x: Float[Array, "B 3 O"]
    ) -> tuple[State, dict[str, Float[Array, "B O"]]]:
        """One token whose projection is known already: the state after it, and the values that were made."""
        from_h = tag("from_h", project_gates(before.h, params.w_h, params.b_h))
        r = tag("r", jax.nn.sigmoid(from_x[:, 0] + from_h[:, 0]))
        z = tag("z", jax.nn.sigmoid(from_x[:, 1] + from_h[:, 1]))
        m = tag("m", from_h[:, 2])
        n = tag("n", jnp.tanh(from_x[:, 2] + r * m))
        h = tag("h", (1 - z) * n + z * before.h)
        return State(h=h), {"r": r, "z": z, "m": m, "n": n, "h": h}

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T O"]) -> tuple[Float[Array, "B T I"], Params]:
        def step(dh_later, now):
            dy, r, z, m, n, h_before = now
            dh = tag("dh", dy + dh_later)
            # h = (1 - z) * n + z * h_before
            dn, dz = tag("dn", dh * (1 - z)), tag("dz", dh * (h_before - n))
            # n = tanh(from_x_n + r * m)
            dpre_n = dn * (1 - n * n)
            dr, dm = tag("dr", dpre_n * m), tag("dm", dpre_n * r)
            # r, z = sigmoid(from_x + from_h)
            dpre_r, dpre_z = dr * r * (1 - r), dz * z * (1 - z)
            dfrom_x = jnp.stack([dpre_r, dpre_z, dpre_n], axis=1)
            dfrom_h = tag("dfrom_h", jnp.stack([dpre_r, dpre_z, dm], axis=1))
            # from_h = h_before @ w_h + b_h
            dh_before = dh * z + joined(dfrom_h) @ joined(params.w_h).T
            return dh_before, {"dfrom_x": tag("dfrom_x", dfrom_x), "dfrom_h": dfrom_h}

        h_before = one_earlier(cache.h)
        now = (dy, cache.r, cache.z, cache.m, cache.n, h_before)
        seen = over_time(step, jnp.zeros_like(dy[:, 0]), now, reverse=True)
        _, dw_h, db_h = project_gates_backward(h_before, params.w_h, params.b_h, seen["dfrom_h"])
        # from_x = x @ w_x + b_x
        dx, dw_x, db_x = project_gates_backward(cache.x, params.w_x, params.b_x, seen["dfrom_x"])
        return tag("dx", dx), Params(w_x=dw_x, w_h=dw_h, b_x=db_x, b_h=db_h)
