"""Window attention: a query sees its neighbours and a few global tokens; global tokens see, and are seen by, all.

forward    scale = 1 / sqrt(D)      scores = masked(near(q @ k^T * scale, window, global_tokens), keep)
           z = softmax(scores) @ v
backward   dscores = softmax(scores) * (dz @ v^T - sum(dz * z))
           dv = softmax(scores)^T @ dz      dq = dscores @ k * scale      dk = dscores^T @ q * scale

These are attention.py with the mask |t - s| <= window or s < global_tokens or t < global_tokens, in memory that grows
with T * (3 * window + 2 * global_tokens) instead of T * T: `around` is the k (or v) of the global tokens and of the
blocks before, at and after the query's own; pattern the softmax of q @ around(k)^T * scale, global_pattern that of the
first `global_tokens` queries over all keys. A query has a row in one of the two, zeros in the other. In the backward,
around put the same key into several blocks, so what they bring back is summed. Beltagy et al. 2020 (Longformer).
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from glassformer.errors import ShapeError, at_least
from glassformer.layers.attention import by_head, by_token, join_heads, split_heads
from glassformer.layers.blocks import cut, fill, joined, places
from glassformer.layers.softmax import softmax, softmax_backward
from glassformer.names import tag
from glassformer.shapes import Array, Bool, Float, Key


class Inputs(NamedTuple):
    q: Float[Array, "B T H D"]
    k: Float[Array, "B T H D"]
    v: Float[Array, "B T H D"]


class Cache(NamedTuple):
    q: Float[Array, "B T H D"]
    k: Float[Array, "B T H D"]
    v: Float[Array, "B T H D"]
    pattern: Float[Array, "B H T W"]  # over the global tokens, then the three blocks around; 0 for global queries
    global_pattern: Float[Array, "B H _ T"]


@dataclass(frozen=True)
class WindowAttention:
    window: int  # how far a query sees, to either side
    global_tokens: int = 0  # the first so many tokens
    scale: float | None = None  # None: 1 / sqrt(D)

    def __post_init__(self) -> None:
        at_least("window attention", 1, window=self.window)
        at_least("window attention", 0, global_tokens=self.global_tokens)

    def init(self, key: Key) -> None:
        return None

    def forward(
        self, params: None, x: Inputs, *, keep: Bool[Array, "B T"] | None = None
    ) -> tuple[Float[Array, "B T H D"], Cache]:
        """`keep` is the padding mask: False at padding tokens."""
        q, k, v = tag("q", x.q), tag("k", x.k), tag("v", x.v)
        batch, tokens, heads, _ = k.shape
        keep = jnp.ones((batch, tokens), bool) if keep is None else keep
        if keep.shape != (batch, tokens):
            raise ShapeError(f"window attention: keep of shape {keep.shape} came, expected {(batch, tokens)}: (B, T)")
        keep = jnp.repeat(keep, heads, axis=0)

        scores = cut(by_head(q), self.window) @ flipped(self.around(by_head(k))) * self.scale_for(q)
        allowed = self.around(keep)[:, :, None, :] & self.in_window(tokens)[:, None]
        pattern = joined(softmax(jnp.where(allowed, scores, -jnp.inf)), tokens)
        pattern = tag("pattern", split_heads(pattern, of=q))

        scores = self.first(by_head(q)) @ flipped(by_head(k)) * self.scale_for(q)
        global_pattern = softmax(jnp.where(keep[:, None, :], scores, -jnp.inf))
        global_pattern = tag("global_pattern", split_heads(global_pattern, of=q))

        z_near = joined(cut(join_heads(pattern), self.window) @ self.around(by_head(v)), tokens)
        z_global = fill(join_heads(global_pattern) @ by_head(v), tokens)
        z = tag("z", by_token(z_near + z_global, of=q))
        return z, Cache(q=q, k=k, v=v, pattern=pattern, global_pattern=global_pattern)

    def backward(self, params: None, cache: Cache, dy: Float[Array, "B T H D"]) -> tuple[Inputs, None]:
        q, k, v = by_head(cache.q), by_head(cache.k), by_head(cache.v)
        tokens, scale = q.shape[1], self.scale_for(q)
        dz = tag("dz", dy)
        dz_near, dz_global = cut(by_head(dz), self.window), self.first(by_head(dz))
        # z = pattern @ around(v) + global_pattern @ v
        pattern, global_pattern = cut(join_heads(cache.pattern), self.window), join_heads(cache.global_pattern)
        dv = self.around_backward(flipped(pattern) @ dz_near, tokens) + flipped(global_pattern) @ dz_global
        dpattern = tag("dpattern", split_heads(joined(dz_near @ flipped(self.around(v)), tokens), of=dz))
        dglobal_pattern = tag("dglobal_pattern", split_heads(dz_global @ flipped(v), of=dz))
        # pattern = softmax(q @ around(k)^T * scale), and likewise global_pattern
        dproducts = softmax_backward(pattern, cut(join_heads(dpattern), self.window)) * scale
        dglobal_products = softmax_backward(global_pattern, join_heads(dglobal_pattern)) * scale
        dq = joined(dproducts @ self.around(k), tokens) + fill(dglobal_products @ k, tokens)
        dk_near = self.around_backward(flipped(dproducts) @ cut(q, self.window), tokens)
        dk = dk_near + flipped(dglobal_products) @ self.first(q)
        dq, dk, dv = (by_token(d, of=dz) for d in (dq, dk, dv))
        return Inputs(q=tag("dq", dq), k=tag("dk", dk), v=tag("dv", dv)), None

    def first(self, x: Float[Array, "N T *D"]) -> Float[Array, "N _ *D"]:
        return x[:, : self.global_tokens]

    def around(self, x: Float[Array, "N T *D"]) -> Float[Array, "_ N W *D"]:
        """What each block of queries can look at: the global tokens, the block before, itself, the block after."""
        blocks = cut(x, self.window)
        nothing = jnp.zeros_like(blocks[:1])
        before, after = jnp.concatenate([nothing, blocks[:-1]]), jnp.concatenate([blocks[1:], nothing])
        first = self.first(x)
        everywhere = jnp.broadcast_to(first, (len(blocks), *first.shape))
        return jnp.concatenate([everywhere, before, blocks, after], axis=2)

    def around_backward(self, d: Float[Array, "_ N W D"], tokens: int) -> Float[Array, "N T D"]:
        """What was put into several blocks receives the sum of their gradients."""
        end = d.shape[2]
        before, itself, after = (d[:, :, end - i * self.window :][:, :, : self.window] for i in (3, 2, 1))
        nothing = jnp.zeros_like(before[:1])
        blocks = itself + jnp.concatenate([before[1:], nothing]) + jnp.concatenate([nothing, after[:-1]])
        everywhere = jnp.sum(d[:, :, : end - 3 * self.window], axis=0)
        return joined(blocks, tokens) + fill(everywhere, tokens)

    def in_window(self, tokens: int) -> Bool[Array, "_ _ W"]:
        """Which of `around` a query sees. Global tokens stand at the front: they do not count again as neighbours."""
        t = places(tokens, self.window)[:, :, None]
        s = t[:, :1] + jnp.arange(-self.window, 2 * self.window)
        near = (jnp.abs(t - s) <= self.window) & (s >= self.global_tokens)
        everywhere = jnp.ones((*t.shape[:2], min(self.global_tokens, tokens)), bool)
        return jnp.concatenate([everywhere, near], axis=2) & (t >= self.global_tokens)

    def scale_for(self, q: Float[Array, "... D"]) -> float:
        return q.shape[-1] ** -0.5 if self.scale is None else self.scale


def flipped(x: Float[Array, "*N T D"]) -> Float[Array, "*N D T"]:
    return jnp.swapaxes(x, -1, -2)
