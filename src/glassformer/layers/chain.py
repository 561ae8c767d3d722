"""Chain: one layer after the other.

x -> part 0 -> part 1 -> … -> y, and back dy -> … -> part 1 -> part 0 -> dx
"""

from dataclasses import dataclass
from typing import Any

import jax

from glassformer.layers.contract import Layer, keywords_for, split_or_none
from glassformer.names import at
from glassformer.shapes import Array, Bool, Key


@dataclass(frozen=True)
class Chain:
    parts: tuple[Layer, ...]

    def init(self, key: Key) -> tuple[Any, ...]:
        keys = jax.random.split(key, len(self.parts))
        return tuple(part.init(part_key) for part, part_key in zip(self.parts, keys, strict=True))

    def forward(
        self,
        params: tuple[Any, ...],
        x: Any,
        *,
        mask: Bool[Array, "#B #H #T #T"] | None = None,  # for the parts that take one
        key: Key | None = None,
    ) -> tuple[Any, tuple[Any, ...]]:
        caches = []
        for i, (part, part_key) in enumerate(zip(self.parts, split_or_none(key, len(self.parts)), strict=True)):
            x, cache = at(i, part).forward(params[i], x, **keywords_for(part, mask=mask, key=part_key))
            caches.append(cache)
        return x, tuple(caches)

    def backward(self, params: tuple[Any, ...], cache: tuple[Any, ...], dy: Any) -> tuple[Any, tuple[Any, ...]]:
        dparams = []
        for i in reversed(range(len(self.parts))):
            dy, dpart = at(i, self.parts[i]).backward(params[i], cache[i], dy)
            dparams.append(dpart)
        return dy, tuple(reversed(dparams))
