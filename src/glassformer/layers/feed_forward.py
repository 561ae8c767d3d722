"""Feed-forward: each token by itself through a wider layer and back.

forward    hidden_pre = x @ w_up + b_up      hidden = activation(hidden_pre)      y = hidden @ w_down + b_down
backward   dhidden = dy @ w_down^T           dhidden_pre = activation.backward(dhidden)
           dx = dhidden_pre @ w_up^T         dw_up = x^T @ dhidden_pre            dw_down = hidden^T @ dy
           db_up = sum_tokens(dhidden_pre)   db_down = sum_tokens(dy)
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import at_least, expect
from glassformer.layers.contract import Layer
from glassformer.layers.gelu import GELU
from glassformer.layers.linear import project, project_backward, xavier
from glassformer.names import at, tag
from glassformer.shapes import Array, Float, Key


class Params(NamedTuple):
    w_up: Float[Array, "C F"]
    b_up: Float[Array, "F"] | None
    w_down: Float[Array, "F C"]
    b_down: Float[Array, "C"] | None


class Cache(NamedTuple):
    x: Float[Array, "B T C"]
    activation: Any  # the activation's own cache
    hidden: Float[Array, "B T F"]


@dataclass(frozen=True)
class FeedForward:
    width: int  # C
    hidden: int  # F
    activation: Layer = GELU()  # any layer without parameters
    bias: bool = True
    axes: ClassVar = {"hidden_pre": "B T F"}

    def __post_init__(self) -> None:
        at_least("feed-forward", 1, width=self.width, hidden=self.hidden)

    def init(self, key: Key) -> Params:
        key_up, key_down = jax.random.split(key)
        return Params(
            w_up=xavier(key_up, self.width, self.hidden),
            b_up=jnp.zeros(self.hidden) if self.bias else None,
            w_down=xavier(key_down, self.hidden, self.width),
            b_down=jnp.zeros(self.width) if self.bias else None,
        )

    def forward(self, params: Params, x: Float[Array, "B T C"]) -> tuple[Float[Array, "B T C"], Cache]:
        expect("feed-forward", "width of the input", x.shape[-1], self.width)
        x = tag("x", x)
        hidden_pre = tag("hidden_pre", project(x, params.w_up, params.b_up))
        hidden, activation = at("activation", self.activation).forward(None, hidden_pre)
        hidden = tag("hidden", hidden)
        y = tag("y", project(hidden, params.w_down, params.b_down))
        return y, Cache(x=x, activation=activation, hidden=hidden)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T C"]) -> tuple[Float[Array, "B T C"], Params]:
        dy = tag("dy", dy)
        # y = hidden @ w_down + b_down
        dhidden, dw_down, db_down = project_backward(cache.hidden, params.w_down, params.b_down, dy)
        dhidden = tag("dhidden", dhidden)
        # hidden = activation(hidden_pre)
        dhidden_pre, _ = at("activation", self.activation).backward(None, cache.activation, dhidden)
        dhidden_pre = tag("dhidden_pre", dhidden_pre)
        # hidden_pre = x @ w_up + b_up
        dx, dw_up, db_up = project_backward(cache.x, params.w_up, params.b_up, dhidden_pre)
        return tag("dx", dx), Params(w_up=dw_up, b_up=db_up, w_down=dw_down, b_down=db_down)
