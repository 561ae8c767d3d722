"""Scaled dot-product attention: each query takes a weighted mean of the values, weighted by how well the keys match.

forward    scale = 1 / sqrt(D)      scores = q @ k^T * scale + bias
           pattern = softmax(masked(scores, mask))      z = drop(pattern) @ v
backward   dv = drop(pattern)^T @ dz      dpattern = drop.backward(dz @ v^T)
           dscores = pattern * (dpattern - sum(dpattern * pattern))
           dq = dscores @ k * scale      dk = dscores^T @ q * scale      dbias = sum_to(dscores, bias)

The softmax runs over the keys. Self-attention and cross-attention are the same layer: keys and values may come from
another sequence of another length. Where the mask is False the query may not look; a query that may look nowhere gets
z = 0 and passes no gradient. Derived in docs/derivations/attention.md.

The pattern is T x S. Other ways to compute attention do without: blockwise_attention.py and banded_attention.py give
the same numbers, linear_attention.py is another formula.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from glassformer.errors import expect
from glassformer.layers import dropout, masks
from glassformer.layers.attend import Attend
from glassformer.layers.dropout import Dropout
from glassformer.layers.masks import Mask
from glassformer.layers.sharding import is_sharded
from glassformer.layers.softmax import softmax, softmax_backward
from glassformer.names import at, tag
from glassformer.shapes import Array, Bool, Float, Key, Static


class Inputs(NamedTuple):
    q: Float[Array, "B T H D"]  # what each token looks for
    k: Float[Array, "B S H D"]  # what each source token offers to be found by
    v: Float[Array, "B S H D"]  # what it hands over when found
    bias: Float[Array, "#B #H #T #S"] | None = None  # added to the scores


class Cache(NamedTuple):
    q: Float[Array, "B T H D"]
    k: Float[Array, "B S H D"]
    v: Float[Array, "B S H D"]
    bias_shape: Static | None  # a shape, not an array; None where there is no bias
    pattern: Float[Array, "B H T S"]  # attention weights; a row adds up to 1, or is all 0 where everything is masked
    drop: dropout.Cache | None


@dataclass(frozen=True)
class Attention(Attend):
    scale: float | None = None  # None: 1 / sqrt(D), which keeps the variance of the scores at 1
    dropout: float = 0.0  # of the attention weights, in training
    called: ClassVar = "attention"
    axes: ClassVar = {"scores": "B H T S", "z": "B T H D", "mask": "#B #H #T #S"}

    def __post_init__(self) -> None:
        Dropout(self.dropout)  # checks the rate

    @property
    def plain(self) -> "Attention":
        return self

    @property
    def drop(self) -> Dropout:
        return Dropout(self.dropout)

    def forward(
        self,
        params: None,
        x: Inputs,
        *,
        mask: Bool[Array, "#B #H #T #S"] | Mask | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "B T H D"], Cache]:
        q, k, v = tag("q", x.q), tag("k", x.k), tag("v", x.v)
        products = by_head(q) @ transposed(by_head(k))
        scores = split_heads(products * self.scale_for(q), of=q)
        if x.bias is not None:
            expect("attention", "number of axes of the bias", x.bias.ndim, 4, masks.AXES)
            scores = scores + tag("bias", x.bias)
        scores = tag("scores", scores)
        whole = masks.as_mask(mask).whole(*scores.shape[2:])
        if whole is not None:
            masks.check("attention", whole, scores)
            scores = jnp.where(tag("mask", whole), scores, -jnp.inf)
        # of a row that is -inf everywhere: zeros, not NaN
        pattern = tag("pattern", split_heads(softmax(join_heads(scores)), of=q))
        weights, drop = pattern, None
        if self.dropout:
            weights, drop = at("drop", self.drop).forward(None, pattern, key=key)
        z = tag("z", by_token(join_heads(weights) @ by_head(v), of=q))
        bias_shape = None if x.bias is None else Static(x.bias.shape)
        return z, Cache(q=q, k=k, v=v, bias_shape=bias_shape, pattern=pattern, drop=drop)

    def backward(self, params: None, cache: Cache, dy: Float[Array, "B T H D"]) -> tuple[Inputs, None]:
        q, k, v, pattern, drop = cache.q, cache.k, cache.v, cache.pattern, cache.drop
        dz = tag("dz", dy)
        # z = drop(pattern) @ v
        weights = pattern if drop is None else self.drop.apply(drop, pattern)
        dv = tag("dv", by_token(transposed(join_heads(weights)) @ by_head(dz), of=q))
        dweights = split_heads(by_head(dz) @ transposed(by_head(v)), of=q)
        dpattern = dweights if drop is None else at("drop", self.drop).backward(None, drop, dweights)[0]
        dpattern = tag("dpattern", dpattern)
        # pattern = softmax(scores); where the mask was False pattern is 0, and so is dscores
        dscores = tag("dscores", split_heads(softmax_backward(join_heads(pattern), join_heads(dpattern)), of=q))
        # scores = products * scale + bias
        dbias = None if cache.bias_shape is None else tag("dbias", sum_to(cache.bias_shape.value, dscores))
        dproducts = join_heads(dscores) * self.scale_for(q)
        # products = q @ k^T
        dq = tag("dq", by_token(dproducts @ by_head(k), of=q))
        dk = tag("dk", by_token(transposed(dproducts) @ by_head(q), of=q))
        return Inputs(q=dq, k=dk, v=dv, bias=dbias), None

    def scale_for(self, q: Float[Array, "B T H D"]) -> float:
        return q.shape[-1] ** -0.5 if self.scale is None else self.scale


def by_head(x: Float[Array, "B T H D"]) -> Float[Array, "*N T D"]:
    """Heads become part of the batch, N = B * H. With the axes kept apart a whole training step took a fifth longer.

    Split over devices, batch and heads lie on different axes of the mesh and stay apart: *N is B and H.
    """
    return join_heads(jnp.swapaxes(x, 1, 2))


def by_token(x: Float[Array, "*N T D"], of: Float[Array, "B _ H D"]) -> Float[Array, "B T H D"]:
    return jnp.swapaxes(split_heads(x, of), 1, 2)


def join_heads(x: Float[Array, "B H T D"]) -> Float[Array, "*N T D"]:
    return x if is_sharded() else x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])


def split_heads(x: Float[Array, "*N T S"], of: Float[Array, "B _ H D"]) -> Float[Array, "B H T S"]:
    return x if is_sharded() else x.reshape(of.shape[0], of.shape[2], *x.shape[1:])


def for_heads(keep: Bool[Array, "B S"], heads: int) -> Bool[Array, "*N S"]:
    """What `by_head` does to a sequence, of its padding mask."""
    return keep[:, None] if is_sharded() else jnp.repeat(keep, heads, axis=0)


def transposed(x: Float[Array, "*N T S"]) -> Float[Array, "*N S T"]:
    return jnp.swapaxes(x, -1, -2)


def sum_to(shape: tuple[int, ...], gradient: Array) -> Array:
    """Undo broadcasting: what was read in many places receives the sum of their gradients."""
    spread = tuple(axis for axis, size in enumerate(shape) if size == 1)
    return jnp.sum(gradient, axis=spread, keepdims=True)
