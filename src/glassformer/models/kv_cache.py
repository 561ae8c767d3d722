"""Attention with a memory: the keys and values of earlier tokens are kept, so that a new token costs one token's work.

forward of all tokens      z[t] = attend(q[t], k[0 … t], v[0 … t])
one token more, at t       k[t], v[t] = of this token; put into place t; z = attend(q, k[0 … t], v[0 … t])

A token looks back only, so what was computed for earlier ones stays as it is. Keys and values lie in arrays with room
for more tokens than there are: many steps have the same shapes, and one program computes them.

With a window of W tokens, place t goes into slot t % W, where the token was that is no longer seen: a rolling cache,
which a text never fills. A dynamic rotation (layers/rope_scaling.py) is that of the length at which a token came.
"""

from dataclasses import replace
from typing import Any, NamedTuple, cast

import jax.numpy as jnp

from glassformer.layers import GroupedQueryAttention, Mask, MultiHeadAttention, attention, grouped_query, multi_head
from glassformer.layers.linear import project
from glassformer.shapes import Array, Float, Integer


class KVCache(NamedTuple):
    """Of one block, with room for M tokens. What lies beyond a row's own place is not real and never looked at."""

    k: Float[Array, "B M H D"]
    v: Float[Array, "B M H D"]


def rolls(mask: Mask) -> bool:
    """Whether tokens are forgotten: outside of the window, unless they are global."""
    return mask.window is not None and not mask.global_tokens


def first_cache(
    k: Float[Array, "B T H D"], v: Float[Array, "B T H D"], lengths: Integer[Array, "B"], mask: Mask
) -> KVCache:
    """Of prompts, of which so many tokens are real."""
    if mask.window is None or not rolls(mask) or k.shape[1] <= mask.window:
        return KVCache(k, v)
    last = lengths[:, None] - 1
    place = last - (last - jnp.arange(mask.window)) % mask.window  # the last that belongs there; negative: none
    found = jnp.maximum(place, 0)[..., None, None]
    return KVCache(jnp.take_along_axis(k, found, axis=1), jnp.take_along_axis(v, found, axis=1))


def with_room(cache: KVCache, tokens: int, mask: Mask) -> KVCache:
    """For a text of so many tokens, of which a window keeps no more than it shows."""
    wanted = min(tokens, mask.window) if mask.window is not None and rolls(mask) else tokens
    room = [(0, 0), (0, max(0, wanted - cache.k.shape[1])), (0, 0), (0, 0)]
    return KVCache(k=jnp.pad(cache.k, room), v=jnp.pad(cache.v, room))


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
    if isinstance(layer, GroupedQueryAttention):
        if layer.norm is not None:
            grouped = cast(Any, params)
            (q, _), (k, _) = layer.norm.forward(grouped.norm_q, q), layer.norm.forward(grouped.norm_k, k)
        if layer.rotary is not None:
            (q, _), (k, _) = (layer.rotary.forward(None, x, offset=place) for x in (q, k))
    room = kept.k.shape[1]
    row, slot = jnp.arange(len(x)), place % room
    kept = KVCache(k=kept.k.at[row, slot].set(k[:, 0]), v=kept.v.at[row, slot].set(v[:, 0]))
    behind = jnp.arange(room) <= place[:, None]
    seen = Mask(keep=behind) if rolls(mask) else replace(mask, keep=behind, offset=place)
    return attend_cached(layer, params, q, kept, seen, bias), kept


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
