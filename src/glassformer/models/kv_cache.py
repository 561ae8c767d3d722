"""Attention with a memory: the keys and values of earlier tokens are kept, so that a new token costs one token's work.

forward of all tokens      z[t] = attend(q[t], k[0 … t], v[0 … t])
one token more, at t       k[t], v[t] = of this token; put into place t; z = attend(q, k[0 … t], v[0 … t])

A token looks back only, so what was computed for earlier ones stays as it is. Keys and values lie in arrays of the full
context from the beginning: every step has the same shapes, is compiled once and takes the same time.
"""

from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp

from glassformer.layers import GroupedQueryAttention, Mask, MultiHeadAttention, attention, grouped_query, multi_head
from glassformer.layers.linear import project
from glassformer.shapes import Array, Float, Integer


class KVCache(NamedTuple):
    """Of one block. What lies beyond a row's own place is not real and never looked at."""

    k: Float[Array, "B M H D"]
    v: Float[Array, "B M H D"]


def padded_cache(k: Float[Array, "B T H D"], v: Float[Array, "B T H D"], context: int) -> KVCache:
    """With room for the whole context."""
    room = [(0, 0), (0, context - k.shape[1]), (0, 0), (0, 0)]
    return KVCache(k=jnp.pad(k, room), v=jnp.pad(v, room))


def keys_and_values(
    cache: multi_head.Cache | grouped_query.Cache,
) -> tuple[Float[Array, "B T H D"], Float[Array, "B T H D"]]:
    """What attention's forward kept; with rotary positions, rotated keys."""
    grouped = isinstance(cache, grouped_query.Cache)
    return (cache.k_shared, cache.v_shared) if grouped else (cache.unscoped.k, cache.unscoped.v)


def attend_next(
    layer: MultiHeadAttention | GroupedQueryAttention,
    params: multi_head.Params | grouped_query.Params,
    x: Float[Array, "B 1 C"],
    kept: KVCache,
    place: Integer[Array, "B"],
    bias: Float[Array, "#B #H 1 M"] | None = None,
    mask: Mask = Mask(),  # the window, where there is one
) -> tuple[Float[Array, "B 1 C"], KVCache]:
    """Self-attention of one token per row, each at its own place."""
    q = layer.split(project(x, params.w_q, params.b_q))
    k = layer.split(project(x, params.w_k, params.b_k))
    v = layer.split(project(x, params.w_v, params.b_v))
    if isinstance(layer, GroupedQueryAttention) and layer.rotary is not None:
        q, _ = layer.rotary.forward(None, q, offset=place)
        k, _ = layer.rotary.forward(None, k, offset=place)
    row = jnp.arange(len(x))
    kept = KVCache(k=kept.k.at[row, place].set(k[:, 0]), v=kept.v.at[row, place].set(v[:, 0]))
    behind = jnp.arange(kept.k.shape[1]) <= place[:, None]
    return attend_cached(layer, params, q, kept, replace(mask, keep=behind, offset=place), bias), kept


def attend_cached(
    layer: MultiHeadAttention | GroupedQueryAttention,
    params: multi_head.Params | grouped_query.Params,
    q: Float[Array, "B T H D"],
    kept: KVCache,
    mask: Mask,
    bias: Float[Array, "#B #H T S"] | None = None,
) -> Float[Array, "B T C"]:
    """From the queries on: what they find among the kept keys, projected back. For so few, plain attention is small."""
    k, v = kept
    if isinstance(layer, GroupedQueryAttention):
        k, v = layer.spread(k), layer.spread(v)
    found = attention.Inputs(q=q, k=k, v=v, bias=bias)
    z, _ = layer.attend.plain.forward(None, found, mask=mask)
    joined = z.reshape(*z.shape[:2], -1)
    return joined if params.w_o is None else project(joined, params.w_o, params.b_o)
