"""Attend: a way from queries, keys and values to z. The setting `attend` of multi-head attention, and of models.

plain       attention.py               the pattern, T x S, is there to be looked at
blockwise   blockwise_attention.py     the same numbers, block by block: memory grows with T
banded      banded_attention.py        the same numbers, of a window: memory and time grow with T
fused       fused_attention.py         the same numbers, by a kernel of the GPU's vendor: memory grows with T
linear      linear_attention.py        another formula, without softmax: memory and time grow with T

What is seen is said by the mask (masks.py). A way refuses a mask or a bias that it cannot honour; it leaves none out.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from glassformer.errors import SettingError
from glassformer.layers.masks import Mask
from glassformer.shapes import Array, Bool, Key

OPTIONS = {
    "bias": "a bias on the scores",
    "dense": "a mask of (B, H, T, S)",
    "window": "a window",
    "offset": "a mask with an offset",
}


class Attend(ABC):
    """x is `attention.Inputs`; the cache has the fields q, k and v, beside what else is kept."""

    called: ClassVar[str]
    cannot: ClassVar[tuple[str, ...]] = ()  # of OPTIONS

    def init(self, key: Key) -> None:
        return None

    @abstractmethod
    def forward(
        self, params: None, x: Any, *, mask: Bool[Array, "#B #H #T #S"] | Mask | None = None
    ) -> tuple[Any, Any]: ...
    @abstractmethod
    def backward(self, params: None, cache: Any, dy: Any) -> tuple[Any, None]: ...

    @property
    @abstractmethod
    def plain(self) -> "Attend":
        """Plain attention where that gives the same numbers; else itself."""

    def instead(self, dtype: Any, head_width: int) -> str:
        """What stands in for it on this machine for such q, k and v, in a line; nothing: it is as it says."""
        return ""

    def must_honour(self, mask: Mask, bias: Array | None = None) -> None:
        given = {
            "bias": bias,
            "dense": mask.dense,
            "window": mask.window,
            "offset": mask.offset if mask.by_place else None,
        }
        for what in self.cannot:
            if given[what] is not None:
                raise SettingError(f"{self.called}: {OPTIONS[what]} came, which it cannot honour; set attend = plain")
