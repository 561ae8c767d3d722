"""The checker itself is checked: each of the usual mistakes is caught, and named.

`Case(name, layer)` draws its input from the shapes annotated on `forward` (B is 2), so a `forward` written here repeats
them.
"""

# pyright: reportIncompatibleMethodOverride=false, reportArgumentType=false

import re
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jaxtyping import Array, Float

from glassformer.check import Case, check
from glassformer.layers import LayerNorm, Linear, SelfAttention, Softmax, layer_norm, linear
from glassformer.layers.multi_head import MultiHeadAttention
from glassformer.names import tag


class OnePercentOff(Linear):
    def backward(self, params, cache, dy):
        dx, dparams = super().backward(params, cache, dy)
        return dx, dparams._replace(w=1.01 * dparams.w)


class TransposedGradient(SelfAttention):
    def backward(self, params, cache, dy):
        dx, dparams = super().backward(params, cache, dy)
        return dx, dparams._replace(w_q=dparams.w_q.T)


class DroppedTerm(Softmax):
    def backward(self, params, cache, dy):
        return cache.y * tag("dy", dy), None


class DroppedMean(LayerNorm):
    def backward(self, params, cache, dy):
        dxhat = dy * params.gain
        _, dparams = super().backward(params, cache, dy)
        dx = cache.std_inv * (dxhat - cache.xhat * jnp.mean(dxhat * cache.xhat, axis=-1, keepdims=True))
        return dx, dparams


class WrongValueTagged(Linear):
    def backward(self, params, cache, dy):
        tag("dy", dy * 2)
        dw = cache.x.reshape(-1, self.inputs).T @ dy.reshape(-1, self.outputs)
        return dy @ params.w.T, linear.Params(w=dw, b=dy.reshape(-1, self.outputs).sum(0))


class UnknownName(Linear):
    def backward(self, params, cache, dy):
        tag("dinput", dy @ params.w.T)
        return super().backward(params, cache, dy)


class NameUsedTwice(Linear):
    def forward(self, params, x: Float[Array, "*B I"]):
        tag("x", x)
        return super().forward(params, x)


class CacheUntagged(Softmax):
    def forward(self, params, x: Float[Array, "*B K"]):
        y, cache = super().forward(params, x)
        return y, cache._replace(y=cache.y + 0)


class WrongShape(Linear):
    def forward(self, params, x: Float[Array, "*B I"]) -> tuple[Float[Array, "*B I"], linear.Cache]:
        return super().forward(params, x)


class GradientsInTheWrongOrder(Linear):
    def backward(self, params, cache, dy):
        return super().backward(params, cache, dy)[::-1]


class TransposedShape(Linear):
    def backward(self, params, cache, dy):
        dx, dparams = super().backward(params, cache, dy)
        return dx, dparams._replace(w=dparams.w.T)


class Negated(Softmax):
    def backward(self, params, cache, dy):
        return -super().backward(params, cache, dy)[0], None


class Forgotten(Linear):
    def backward(self, params, cache, dy):
        dx, dparams = super().backward(params, cache, dy)
        return dx, dparams._replace(b=jnp.zeros_like(dparams.b))


class NotFinite(Softmax):
    def backward(self, params, cache, dy):
        return cache.y * jnp.nan, None


class AveragesOverTheBatch(LayerNorm):
    """Sums where it should, then divides by the batch: right up to a factor."""

    def backward(self, params, cache, dy):
        dx, dparams = super().backward(params, cache, dy)
        return dx, layer_norm.Params(gain=dparams.gain / dy.shape[0], bias=dparams.bias)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (OnePercentOff(5, 3), "dw is wrong by .*: it is 1.01 times the right one"),
        (TransposedGradient(MultiHeadAttention(6, 2)), "dw_q is wrong by .*: it is the transpose of the right one"),
        (DroppedTerm(), r"dx is wrong by .*: at \[.*\] it is .*, expected .*; no common factor: a term may be missing"),
        (DroppedMean(6), "dx is wrong by .*a term may be missing"),
        (WrongValueTagged(5, 3), "the value tagged 'dy' is not the gradient of what it names"),
        (UnknownName(5, 3), "the tag 'dinput' is not `d` . the name of a value tagged in forward"),
        (NameUsedTwice(5, 3), "two values are tagged 'x'; open a scope"),
        (WrongShape(5, 3), r"forward: return\[0\]: declared Float.*B I.*, came float64"),
        (GradientsInTheWrongOrder(5, 3), r"dparams does not have the structure of params: .* in this order"),
        (TransposedShape(5, 3), r"dparams.w has shape \(3, 5\), expected \(5, 3\), .*; it looks transposed"),
        (Negated(), "dx is wrong by .*: its sign is turned round"),
        (Forgotten(5, 3), "db is wrong by .*: it is all zeros"),
        (NotFinite(), "dx is wrong by inf .*: it holds values that are not finite"),
        (AveragesOverTheBatch(6), "dgain is wrong by .*: it is 0.5 times the right one"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_mistake_is_caught_and_named(layer, message: str) -> None:
    report = check(Case("sabotage", layer))
    assert not report.ok
    assert any(re.search(message, problem) for problem in report.problems), report.problems


def test_cache_that_the_lens_cannot_see_is_noted() -> None:
    report = check(Case("sabotage", CacheUntagged()))
    assert report.ok
    assert report.notes == ("the cache field 'y' is not tagged under its own name: the lens cannot show it",)


def test_a_slope_hidden_from_autodiff_is_caught_by_finite_differences() -> None:
    class Cache(NamedTuple):
        x: Float[Array, "*B"]

    @dataclass(frozen=True)
    class Hidden:
        """forward hides half of itself from autodiff; backward makes the same mistake."""

        def init(self, key):
            return None

        def forward(self, params, x: Float[Array, "*B"]):
            return x + jax.lax.stop_gradient(x), Cache(x=x)

        def backward(self, params, cache, dy):
            return dy, None

    report = check(Case("hidden", Hidden()))
    assert report.against_autodiff < 1e-9
    assert any("agrees with autodiff but not with finite differences" in problem for problem in report.problems)


def test_a_layer_that_is_no_frozen_dataclass_is_refused() -> None:
    class Loose:
        init = forward = backward = lambda *_: None

    report = check(Case("loose", Loose()))  # pyright: ignore[reportArgumentType]
    assert report.problems == ("Loose is not a frozen dataclass; write @dataclass(frozen=True) above it",)
