"""LoRA: any layer, some of whose matrices are tuned by adding a product of two thin ones. Hu et al., 2021.

forward    scale = alpha / rank      w = base + scale * a @ b
backward   dbase = dw                da = scale * dw @ b^T      db = scale * a^T @ dw

So for every target matrix; with w the inner layer computes as with its own, and dw is what its own backward gives. b
starts at zero, so that the first answers are those of the inner layer. Who tunes lets a and b learn and keeps the base
as it is; gradients that nobody reads are removed by the compiler. Values have the inner layer's names. Derived in
docs/derivations/lora.md.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import isfinite
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import SettingError, at_least
from glassformer.layers.contract import Layer, param_shapes
from glassformer.names import at, named_leaves, nearest, with_leaves
from glassformer.shapes import Array, Float, Key


class Params(NamedTuple):
    """`a` and `b` have the structure of `base`, with None where a parameter is no target."""

    base: Any  # the inner layer's
    a: Any  # (in, R) of each target
    b: Any  # (R, out)


@dataclass(frozen=True)
class LoRA:
    inner: Layer
    rank: int = 4  # R
    alpha: float = 8.0
    targets: tuple[str, ...] = ("*.w_q", "*.w_v")  # patterns of the names of the inner layer's matrices

    def __post_init__(self) -> None:
        check_adapter(self.rank, self.alpha)

    @property
    def scale(self) -> float:
        return self.alpha / self.rank

    def init(self, key: Key) -> Params:
        """a: uniform in ±1 / sqrt(in); b: zero."""
        key_base, key_a = jax.random.split(key)
        base = self.inner.init(key_base)
        shapes, names = named_leaves(base), self.names
        keys = dict(zip(names, jax.random.split(key_a, len(names)), strict=True))

        def draw_a(name: str) -> Float[Array, "I R"]:
            inputs = shapes[name].shape[0]
            return jax.random.uniform(keys[name], (inputs, self.rank), minval=-(inputs**-0.5), maxval=inputs**-0.5)

        def zero_b(name: str) -> Float[Array, "R O"]:
            return jnp.zeros((self.rank, shapes[name].shape[1]))

        none = dict.fromkeys(shapes)
        return Params(
            base=base,
            a=with_leaves(base, none | {name: draw_a(name) for name in names}),
            b=with_leaves(base, none | {name: zero_b(name) for name in names}),
        )

    @property
    def names(self) -> list[str]:
        """Of the target matrices, in the inner layer's order. A pattern that names none is refused."""
        return matching(self.targets, param_shapes(self.inner))

    def merged(self, params: Params) -> Any:
        """The inner layer's params with every update added."""

        def add(base: Any, a: Any, b: Any) -> Any:
            return base if a is None else base + self.scale * (a @ b)

        return over_leaves(add, params.base, params.a, params.b)

    def forward(self, params: Params, x: Any, **keywords: Any) -> tuple[Any, Any]:
        """x, the keywords and the cache are the inner layer's."""
        return at("", self.inner).forward(self.merged(params), x, **keywords)

    def backward(self, params: Params, cache: Any, dy: Any) -> tuple[Any, Params]:
        dx, dw = at("", self.inner).backward(self.merged(params), cache, dy)
        # w = base + scale * a @ b
        da = over_leaves(lambda dw, b: None if b is None else self.scale * (dw @ b.mT), dw, params.b)
        db = over_leaves(lambda dw, a: None if a is None else self.scale * (a.mT @ dw), dw, params.a)
        return dx, Params(base=dw, a=da, b=db)


def check_adapter(rank: int, alpha: float) -> None:
    at_least("lora", 1, rank=rank)
    if not (alpha > 0 and isfinite(alpha)):
        raise SettingError(f"lora: alpha is {alpha}, expected a number above 0")


def over_leaves(function: Any, *trees: Any) -> Any:
    """`jax.tree.map` that also sees what is None."""
    return jax.tree.map(function, *trees, is_leaf=lambda node: node is None)


def matching(patterns: tuple[str, ...], params: Any) -> list[str]:
    """The names of the matrices that match, in order."""
    leaves = named_leaves(params)
    matrices = [name for name, leaf in leaves.items() if len(leaf.shape) == 2]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in matrices):
            others = [name for name in leaves if fnmatchcase(name, pattern)]
            came = f" ({others[0]} has the shape {leaves[others[0]].shape})" if others else ""
            known = [*dict.fromkeys("*." + ".".join(name.split(".")[-2:]) for name in matrices), *matrices]
            raise SettingError(
                f"lora: the target {pattern!r} matches no matrix{came}{nearest(pattern, known)}; "
                f"there are {', '.join(matrices[:8]) or 'none'}{', …' if matrices[8:] else ''}"
            )
    found = [name for name in matrices if any(fnmatchcase(name, pattern) for pattern in patterns)]
    if not found:
        raise SettingError("lora: no target is named, expected patterns of matrices such as '*.w_q'")
    return found
