"""Self-attention: multi-head attention in which a sequence looks at itself. Shape in = shape out.

backward   dx = dquery + dmemory

Query and memory are x: it went in twice, so its gradient is the sum of both.
"""

from dataclasses import dataclass

from glassformer.layers import grouped_query, multi_head
from glassformer.layers.contract import Layer
from glassformer.layers.masks import Mask
from glassformer.names import at, tag
from glassformer.shapes import Array, Bool, Float, Key

Params = multi_head.Params | grouped_query.Params
Cache = multi_head.Cache | grouped_query.Cache


@dataclass(frozen=True)
class SelfAttention:
    multi_head: Layer  # or grouped-query; its params, cache and names are this layer's: no scope is opened for it

    def init(self, key: Key) -> Params:
        return self.multi_head.init(key)

    def forward(
        self,
        params: Params,
        x: Float[Array, "B T C"],
        *,
        mask: Bool[Array, "#B #H #T #T"] | Mask | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "B T C"], Cache]:
        x = tag("x", x)
        return at("", self.multi_head).forward(params, multi_head.Inputs(query=x, memory=x), mask=mask, key=key)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "B T C"]) -> tuple[Float[Array, "B T C"], Params]:
        d, dparams = at("", self.multi_head).backward(params, cache, dy)
        dx = tag("dx", d.query + d.memory)
        return dx, dparams
