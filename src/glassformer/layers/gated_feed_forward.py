"""Gated feed-forward: two wide layers side by side, one of which decides how much of the other passes.

forward    gate_pre = x @ w_gate + b_gate    gate = activation(gate_pre)        up = x @ w_up + b_up
           hidden = gate * up                y = hidden @ w_down + b_down
backward   dhidden = dy @ w_down^T           dgate = dhidden * up               dup = dhidden * gate
           dgate_pre = activation.backward(dgate)      dx = dgate_pre @ w_gate^T + dup @ w_up^T
           dw_gate = x^T @ dgate_pre         dw_up = x^T @ dup                  dw_down = hidden^T @ dy
           db_gate = sum_tokens(dgate_pre)   db_up = sum_tokens(dup)            db_down = sum_tokens(dy)

x went into gate_pre and into up, so its gradient is the sum of both.
With SiLU this is SwiGLU (Llama), with GELUTanh the gated GELU of T5 v1.1; both leave the biases out. Shazeer, 2020.
Derived in docs/derivations/gated_feed_forward.md.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import at_least, expect
from glassformer.layers.contract import Layer
from glassformer.layers.linear import project, project_backward, xavier
from glassformer.layers.silu import SiLU
from glassformer.names import at, tag
from glassformer.shapes import Array, Float, Key


class Params(NamedTuple):
    w_gate: Float[Array, "C F"]
    b_gate: Float[Array, "F"] | None
    w_up: Float[Array, "C F"]
    b_up: Float[Array, "F"] | None
    w_down: Float[Array, "F C"]
    b_down: Float[Array, "C"] | None


class Cache(NamedTuple):
    x: Float[Array, "B T C"]
    activation: Any  # the activation's own cache
    gate: Float[Array, "B T F"]  # the share of up that passes
    up: Float[Array, "B T F"]


@dataclass(frozen=True)
class GatedFeedForward:
    width: int  # C
    hidden: int  # F
    activation: Layer = SiLU()  # any layer without parameters
    bias: bool = False
    axes: ClassVar = {"gate_pre": "B T F", "hidden": "B T F"}

    def __post_init__(self) -> None:
        at_least("gated feed-forward", 1, width=self.width, hidden=self.hidden)

    def init(self, key: Key) -> Params:
        key_gate, key_up, key_down = jax.random.split(key, 3)
        return Params(
            w_gate=xavier(key_gate, self.width, self.hidden),
            b_gate=jnp.zeros(self.hidden) if self.bias else None,
            w_up=xavier(key_up, self.width, self.hidden),
            b_up=jnp.zeros(self.hidden) if self.bias else None,
            w_down=xavier(key_down, self.hidden, self.width),
            b_down=jnp.zeros(self.width) if self.bias else None,
        )

    def forward(self, params: Params, x: Float[Array, "B T C"]) -> tuple[Float[Array, "B T C"], Cache]:
        expect("gated feed-forward", "width of the input", x.shape[-1], self.width)
        x = tag("x", x)
        gate_pre = tag("gate_pre", project(x, params.w_gate, params.b_gate))
        gate, activation = at("activation", self.activation).forward(None, gate_pre)
        gate = tag("gate", gate)
        up = tag("up", project(x, params.w_up, params.b_up))
        hidden = tag("hidden", gate * up)
        y = tag("y", project(hidden, params.w_down, params.b_down))
        return y, Cache(x=x, activation=activation, gate=gate, up=up)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T C"]) -> tuple[Float[Array, "B T C"], Params]:
        dy = tag("dy", dy)
        x, gate, up = cache.x, cache.gate, cache.up
        # y = hidden @ w_down + b_down
        dhidden, dw_down, db_down = project_backward(gate * up, params.w_down, params.b_down, dy)
        dhidden = tag("dhidden", dhidden)
        # hidden = gate * up
        dgate, dup = tag("dgate", dhidden * up), tag("dup", dhidden * gate)
        # up = x @ w_up + b_up
        dx_up, dw_up, db_up = project_backward(x, params.w_up, params.b_up, dup)
        # gate = activation(gate_pre)
        dgate_pre, _ = at("activation", self.activation).backward(None, cache.activation, dgate)
        dgate_pre = tag("dgate_pre", dgate_pre)
        # gate_pre = x @ w_gate + b_gate
        dx_gate, dw_gate, db_gate = project_backward(x, params.w_gate, params.b_gate, dgate_pre)
        dx = tag("dx", dx_gate + dx_up)
        return dx, Params(w_gate=dw_gate, b_gate=db_gate, w_up=dw_up, b_up=db_up, w_down=dw_down, b_down=db_down)
