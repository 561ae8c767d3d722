"""Banded attention: exactly what attention.py computes where the mask has a window, in memory that grows with T.

forward    scale = 1 / sqrt(D)      scores = masked(q @ k^T * scale, mask)      z = softmax(scores) @ v
backward   dscores = softmax(scores) * (dz @ v^T - sum(dz * z))
           dv = softmax(scores)^T @ dz      dq = dscores @ k * scale      dk = dscores^T @ q * scale

A query sees what is less than `window` places away, and the global tokens; global tokens see, and are seen by, all
(causal: all that came before). So queries are taken in blocks of `window`, and `around` is the k (or v) of the global
tokens and of the blocks before, at and after the query's own (causal: without the one after): T * (3 * window +
2 * global_tokens) numbers instead of T * T. `band` is the softmax of q @ around(k)^T * scale, `global_rows` that of the
first `global_tokens` queries over all keys. A query has a row in one of the two, zeros in the other. In the backward,
around put the same key into several blocks, so what they bring back is summed. Beltagy et al. 2020 (Longformer).
"""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from glassformer.errors import SettingError, expect
from glassformer.layers.attend import Attend
from glassformer.layers.attention import Attention, Inputs, by_head, by_token, for_heads, join_heads, split_heads
from glassformer.layers.blocks import cut, fill, joined, places
from glassformer.layers.masks import Mask, as_mask
from glassformer.layers.softmax import softmax, softmax_backward
from glassformer.names import tag
from glassformer.shapes import Array, Bool, Float


class Cache(NamedTuple):
    q: Float[Array, "B T H D"]
    k: Float[Array, "B T H D"]
    v: Float[Array, "B T H D"]
    mask: Mask  # without the padding: what was not seen is 0 in the patterns
    band: Float[Array, "B H T W"]  # over the global tokens, then the blocks around; 0 for global queries
    global_rows: Float[Array, "B H _ T"]


@dataclass(frozen=True)
class BandedAttention(Attend):
    scale: float | None = None  # None: 1 / sqrt(D)
    called: ClassVar = "banded attention"
    cannot: ClassVar = ("bias", "dense", "offset")

    @property
    def plain(self) -> Attention:
        return Attention(scale=self.scale)

    def must_honour(self, mask: Mask, bias: Array | None = None) -> None:
        super().must_honour(mask, bias)
        if mask.window is None:
            raise SettingError(
                "banded attention: it has no window to keep to; set window, or attend = plain or blockwise"
            )

    def forward(
        self, params: None, x: Inputs, *, mask: Bool[Array, "#B #H #T #T"] | Mask | None = None
    ) -> tuple[Float[Array, "B T H D"], Cache]:
        mask = as_mask(mask)
        self.must_honour(mask, x.bias)
        q, k, v = tag("q", x.q), tag("k", x.k), tag("v", x.v)
        batch, tokens, heads, _ = k.shape
        expect(self.called, "number of queries", q.shape[1], tokens, "it is self-attention; take attend = blockwise")
        mask.show(tokens, tokens)
        keep = mask.kept(self.called, k)
        keep = for_heads(jnp.ones((batch, tokens), bool) if keep is None else keep, heads)
        around = Around(replace(mask, keep=None), tokens)

        scores = around.cut(by_head(q)) @ flipped(around(by_head(k))) * self.scale_for(q)
        seen = flipped(around(keep[..., None]))
        seen = seen & jnp.expand_dims(around.seen(), tuple(range(1, seen.ndim - 2)))
        band = joined(softmax(jnp.where(seen, scores, -jnp.inf)), tokens)
        band = tag("band", split_heads(band, of=q))

        scores = around.first(by_head(q)) @ flipped(by_head(k)) * self.scale_for(q)
        seen = keep[..., None, :] & around.seen_by_global()
        global_rows = tag("global_rows", split_heads(softmax(jnp.where(seen, scores, -jnp.inf)), of=q))

        z_near = joined(around.cut(join_heads(band)) @ around(by_head(v)), tokens)
        z_global = fill(join_heads(global_rows) @ by_head(v), tokens)
        z = tag("z", by_token(z_near + z_global, of=q))
        return z, Cache(q=q, k=k, v=v, mask=around.mask, band=band, global_rows=global_rows)

    def backward(self, params: None, cache: Cache, dy: Float[Array, "B T H D"]) -> tuple[Inputs, None]:
        q, k, v = by_head(cache.q), by_head(cache.k), by_head(cache.v)
        tokens, scale = q.shape[-2], self.scale_for(q)
        around = Around(cache.mask, tokens)
        dz = tag("dz", dy)
        dz_near, dz_global = around.cut(by_head(dz)), around.first(by_head(dz))
        # z = band @ around(v) + global_rows @ v
        band, global_rows = around.cut(join_heads(cache.band)), join_heads(cache.global_rows)
        dv = around.backward(flipped(band) @ dz_near) + flipped(global_rows) @ dz_global
        dband = tag("dband", split_heads(joined(dz_near @ flipped(around(v)), tokens), of=dz))
        dglobal_rows = tag("dglobal_rows", split_heads(dz_global @ flipped(v), of=dz))
        # band = softmax(q @ around(k)^T * scale), and likewise global_rows
        dproducts = softmax_backward(band, around.cut(join_heads(dband))) * scale
        dglobal_products = softmax_backward(global_rows, join_heads(dglobal_rows)) * scale
        dq = joined(dproducts @ around(k), tokens) + fill(dglobal_products @ k, tokens)
        dk = around.backward(flipped(dproducts) @ around.cut(q)) + flipped(dglobal_products) @ around.first(q)
        dq, dk, dv = (by_token(d, of=dz) for d in (dq, dk, dv))
        return Inputs(q=tag("dq", dq), k=tag("dk", dk), v=tag("dv", dv)), None

    def scale_for(self, q: Float[Array, "... D"]) -> float:
        return q.shape[-1] ** -0.5 if self.scale is None else self.scale


class Around:
    """What each block of queries can look at: the global tokens, the block before, itself and, unless causal, the block
    after."""

    def __init__(self, mask: Mask, tokens: int) -> None:
        self.mask, self.tokens = mask, tokens
        self.size = min(mask.window or tokens, tokens)  # of a block
        self.count = 2 if mask.causal else 3  # of blocks

    def cut(self, x: Float[Array, "*N T D"]) -> Float[Array, "_ *N _ D"]:
        return cut(x, self.size)

    def first(self, x: Float[Array, "*N T D"]) -> Float[Array, "*N _ D"]:
        return x[..., : self.mask.global_tokens, :]

    def __call__(self, x: Float[Array, "*N T D"]) -> Float[Array, "_ *N W D"]:
        blocks = self.cut(x)
        nothing = jnp.zeros_like(blocks[:1])
        before, after = jnp.concatenate([nothing, blocks[:-1]]), jnp.concatenate([blocks[1:], nothing])
        first = self.first(x)
        everywhere = jnp.broadcast_to(first, (len(blocks), *first.shape))
        return jnp.concatenate([everywhere, *(before, blocks, after)[: self.count]], axis=-2)

    def backward(self, d: Float[Array, "_ *N W D"]) -> Float[Array, "*N T D"]:
        """What was put into several blocks receives the sum of their gradients."""
        end = d.shape[-2] - self.count * self.size
        parts = [d[..., end + i * self.size :, :][..., : self.size, :] for i in range(self.count)]
        nothing = jnp.zeros_like(parts[0][:1])
        blocks = parts[1] + jnp.concatenate([parts[0][1:], nothing])
        if not self.mask.causal:
            blocks = blocks + jnp.concatenate([nothing, parts[2][:-1]])
        everywhere = jnp.sum(d[..., :end, :], axis=0)
        return joined(blocks, self.tokens) + fill(everywhere, self.tokens)

    def seen(self) -> Bool[Array, "_ _ W"]:
        """By each query. Global tokens stand at the front: they do not count again as neighbours, nor as queries."""
        t = places(self.tokens, self.size)[:, :, None]
        first = jnp.arange(min(self.mask.global_tokens, self.tokens))
        s = t[:, :1] + jnp.arange(-self.size, (self.count - 1) * self.size)
        near = self.mask.allows(t, s) & (s >= self.mask.global_tokens)
        return jnp.concatenate([self.mask.allows(t, first), near], axis=2) & (t >= self.mask.global_tokens)

    def seen_by_global(self) -> Bool[Array, "_ T"]:
        t = jnp.arange(min(self.mask.global_tokens, self.tokens))
        return self.mask.allows(t[:, None], jnp.arange(self.tokens))


def flipped(x: Float[Array, "*N T D"]) -> Float[Array, "*N D T"]:
    return jnp.swapaxes(x, -1, -2)
