"""The contract every layer, loss and model keeps, and the bridge to anyone's `jax.grad` code.

layer.init(key)                    -> params          nested NamedTuples of arrays; an absent part is None
layer.forward(params, x, *, ...)   -> (y, cache)      pure; the cache is what backward reads
layer.backward(params, cache, dy)  -> (dx, dparams)   derived by hand; dx has the structure of x, dparams that of params

A layer is a frozen dataclass of settings: hashable, so it may be a static argument of `jax.jit`. Everything
differentiable that comes in sits in `x`. Masks, labels and random keys are keyword-only and have no gradient.

Weight decay of matrices alone shrinks what has two axes or more. A layer of which that is not true (a table whose rows
are looked up, the biases of four gates) names in its Params what is decayed: `decayed = ("w_x", "w_h")`.
"""

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import jax

from glassformer.names import last_word
from glassformer.shapes import Key


@runtime_checkable
class Layer(Protocol):
    """Anything that keeps the contract. The arrays' types stand in each layer's own signatures."""

    def init(self, key: Key) -> Any: ...
    @property
    def forward(self) -> Callable[..., tuple[Any, Any]]: ...  # (params, x, *, …): the keywords differ
    def backward(self, params: Any, cache: Any, dy: Any) -> tuple[Any, Any]: ...


@lru_cache(maxsize=256)
def param_shapes(layer: Layer) -> Any:
    """The shapes of a layer's params. Nothing is drawn, nothing compiled."""
    return jax.eval_shape(layer.init, jax.eval_shape(jax.random.key, 0))


def decayed(params: Any) -> Any:
    """Which arrays are decayed where only matrices are, as a tree of the same structure: as declared, else by rank."""
    if params is None or jax.tree_util.all_leaves([params]):
        return None if params is None else params.ndim >= 2
    inner = jax.tree.map(decayed, params, is_leaf=lambda node: node is not params)
    declared = getattr(params, "decayed", None)
    if declared is None:
        return inner
    every, none = (jax.tree.map(lambda _, flag=flag: flag, inner) for flag in (True, False))
    return none._replace(**{name: getattr(every, name) for name in declared})


def narrowed(params: Any, dtype: Any) -> Any:
    """Params in a narrow type, but for those that a layer declares `wide`."""
    if params is None or jax.tree_util.all_leaves([params]):
        return None if params is None else params.astype(dtype)
    inner = jax.tree.map(lambda part: narrowed(part, dtype), params, is_leaf=lambda node: node is not params)
    declared = getattr(params, "wide", ())
    return inner._replace(**{name: getattr(params, name) for name in declared}) if declared else inner


def keywords(layer: Layer) -> dict[str, inspect.Parameter]:
    """What `layer.forward` takes besides params and x: masks, labels, keys."""
    given = inspect.signature(described(layer).forward).parameters.values()
    return {parameter.name: parameter for parameter in given if parameter.kind is parameter.KEYWORD_ONLY}


def described(layer: Any) -> Layer:
    """The layer whose signature says what forward takes: one that takes any `**keywords` hands all to its `inner`."""
    given = inspect.signature(layer.forward).parameters.values()
    return described(layer.inner) if any(one.kind is one.VAR_KEYWORD for one in given) else layer


def is_bias(name: str) -> bool:
    """Whether a parameter is one, by the last word of its dotted name: b, bias, b_q."""
    word = last_word(name)
    return word in ("b", "bias") or word.startswith("b_")


def keywords_for(layer: Layer, **offered: Any) -> dict[str, Any]:
    """Of the keywords offered, those that `layer.forward` takes: a container need not know which parts use a key."""
    return {name: value for name, value in offered.items() if name in keywords(layer)}


def split_or_none(key: Key | None, count: int) -> list[Key | None]:
    """`count` keys for the parts of a layer; without a key (evaluation) none of them gets one."""
    return [None] * count if key is None else list(jax.random.split(key, count))


def one_more(key: Key | None) -> Key | None:
    """A key beside those of `split_or_none`, which stay what they are without it."""
    return None if key is None else jax.random.fold_in(key, 2**31)


def as_jax(layer: Layer) -> Callable[..., Any]:
    """`apply(params, x, **keywords) -> y` whose gradient, under `jax.grad`, is the layer's own backward.

    >>> from glassformer.layers import Linear, as_jax
    >>> linear = as_jax(Linear(3, 2))
    >>> params = Linear(3, 2).init(jax.random.key(0))
    >>> jax.grad(lambda p: linear(p, jax.numpy.ones((4, 3))).sum())(params).b
    Array([4., 4.], dtype=float32)
    """

    @jax.custom_vjp
    def apply(params: Any, x: Any, rest: dict[str, Any]) -> Any:
        return layer.forward(params, x, **rest)[0]

    def run_forward(params: Any, x: Any, rest: dict[str, Any]) -> tuple[Any, Any]:
        y, cache = layer.forward(params, x, **rest)
        return y, (params, cache)

    def run_backward(saved: tuple[Any, Any], dy: Any) -> tuple[Any, Any, None]:
        dx, dparams = layer.backward(*saved, dy)
        return dparams, dx, None

    apply.defvjp(run_forward, run_backward)
    return lambda params, x, **rest: apply(params, x, rest)
