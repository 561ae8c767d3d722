"""Blockwise attention: exactly what attention.py computes, without ever holding the T x S pattern.

forward    scale = 1 / sqrt(D)                     scores = masked(q @ k^T * scale, mask)
           z = softmax(scores) @ v                 lse = log(sum(exp(scores)))
backward   pattern = exp(scores - column(lse))     dscores = pattern * (dz @ v^T - sum(dz * z))
           dv = pattern^T @ dz                     dq = dscores @ k * scale      dk = dscores^T @ q * scale

For each block of queries, over the blocks of keys, with the highest score and the sums so far:
    new = max(highest, max(scores)), weight = exp(scores - new), rescale = exp(highest - new),
    total = total * rescale + sum(weight), mix = mix * rescale + weight @ v; then z = mix / total.
Softmax needs the maximum and the sum of a whole row. Both can be brought up to date block by block, if what was summed
under an older maximum is scaled down to the new one. The backward makes each block of the pattern again from lse, and
needs no whole row of it either: rowsum(dpattern * pattern) = rowsum(dz * z), step 5 of docs/derivations/attention.md.
So memory grows with T + S instead of T * S, for the price of one more q @ k^T (Rabe and Staats 2021, Dao et al. 2022).
Of the mask, each block of queries and keys makes its own piece; where nothing in it is seen, nothing is computed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, TypeVar

import jax.numpy as jnp
from jax import lax

from glassformer.errors import at_least
from glassformer.layers.attend import Attend
from glassformer.layers.attention import Attention, Inputs, by_head, by_token, for_heads, split_heads, transposed
from glassformer.layers.blocks import cut, joined, places
from glassformer.layers.masks import Mask, as_mask
from glassformer.layers.precision import wide
from glassformer.names import tag
from glassformer.shapes import Array, Bool, Float, Integer

Sums = TypeVar("Sums")


class Cache(NamedTuple):
    q: Float[Array, "B T H D"]
    k: Float[Array, "B S H D"]
    v: Float[Array, "B S H D"]
    mask: Mask
    z: Float[Array, "B T H D"]
    lse: Float[Array, "B H T"]  # log of the sum of exp(scores) of each query; 0 where nothing may be seen


class Queries(NamedTuple):
    """One block; with a further axis in front, all of them."""

    q: Float[Array, "*N T D"]  # times the scale
    place: Integer[Array, "T"]


class Keys(NamedTuple):
    k: Float[Array, "*N S D"]
    v: Float[Array, "*N S D"]
    place: Integer[Array, "S"]
    keep: Bool[Array, "*N S"]  # False also at the padding of the last block


@dataclass(frozen=True)
class BlockwiseAttention(Attend):
    block: int = 256  # queries, and keys, taken at a time
    scale: float | None = None  # None: 1 / sqrt(D)
    called: ClassVar = "blockwise attention"
    cannot: ClassVar = ("bias", "dense")

    def __post_init__(self) -> None:
        at_least("blockwise attention", 1, block=self.block)

    @property
    def plain(self) -> Attention:
        return Attention(scale=self.scale)

    def forward(
        self, params: None, x: Inputs, *, mask: Bool[Array, "#B #H #T #S"] | Mask | None = None
    ) -> tuple[Float[Array, "B T H D"], Cache]:
        mask = as_mask(mask)
        self.must_honour(mask, x.bias)
        q, k, v = tag("q", x.q), tag("k", x.k), tag("v", x.v)
        mask.show(q.shape[1], k.shape[1])
        keep = mask.kept(self.called, k)
        mask = replace(mask, keep=None if keep is None else tag("mask.keep", keep))
        all_queries, all_keys = self.queries(q, mask), self.keys(k, v, mask)

        def one_block(_: None, queries: Queries) -> tuple[None, tuple[Array, Array]]:
            def add_keys(sums: tuple[Array, Array, Array], keys: Keys) -> tuple[tuple[Array, Array, Array], None]:
                def looking() -> tuple[Array, Array, Array]:
                    highest, total, mix = sums
                    scores = self.scores(queries, keys, mask)
                    new = jnp.maximum(highest, lax.stop_gradient(jnp.max(scores, axis=-1, keepdims=True)))
                    weight, rescale = jnp.exp(scores - finite(new)), jnp.exp(highest - finite(new))
                    total = total * rescale + jnp.sum(weight, axis=-1, keepdims=True)
                    return new, total, mix * rescale + weight @ keys.v

                return unless_unseen(mask, queries, keys, looking, sums), None

            zero = jnp.zeros_like(queries.q[..., :1])
            (highest, total, mix), _ = lax.scan(add_keys, (zero - jnp.inf, zero, jnp.zeros_like(queries.q)), all_keys)
            total = jnp.where(total == 0, 1, total)
            return None, (mix / total, finite(highest) + jnp.log(total))

        _, (z, lse) = lax.scan(one_block, None, all_queries)
        z = tag("z", by_token(joined(z, q.shape[1]), of=q).astype(q.dtype))
        lse = tag("lse", split_heads(joined(lse, q.shape[1])[..., 0], of=q))
        return z, Cache(q=q, k=k, v=v, mask=mask, z=z, lse=lse)

    def backward(self, params: None, cache: Cache, dy: Float[Array, "B T H D"]) -> tuple[Inputs, None]:
        q, k, v, mask = cache.q, cache.k, cache.v, cache.mask
        dz = tag("dz", dy)
        rowsum = jnp.sum(wide(dz) * wide(cache.z), axis=-1, keepdims=True)  # = rowsum(dpattern * pattern)
        lse = jnp.swapaxes(cache.lse, 1, 2)[..., None]
        rows = (
            self.queries(q, mask),
            cut(by_head(wide(dz)), self.block),
            cut(by_head(lse), self.block),
            cut(by_head(rowsum), self.block),
        )

        def one_block(dq: Array, keys: Keys) -> tuple[Array, tuple[Array, Array]]:
            def add_queries(
                sums: tuple[Array, Array], now: tuple[tuple[Queries, Array, Array, Array], Array]
            ) -> tuple[tuple[Array, Array], Array]:
                (queries, dz, lse, rowsum), dq = now

                def looking() -> tuple[tuple[Array, Array], Array]:
                    dk, dv = sums
                    pattern = jnp.exp(self.scores(queries, keys, mask) - lse)
                    # z = pattern @ v
                    dpattern = dz @ transposed(keys.v)
                    # pattern = softmax(scores)
                    dscores = pattern * (dpattern - rowsum)
                    # scores = q @ k^T, q times the scale
                    return (dk + transposed(dscores) @ queries.q, dv + transposed(pattern) @ dz), dq + dscores @ keys.k

                return unless_unseen(mask, queries, keys, looking, (sums, dq))

            (dk, dv), dq = lax.scan(add_queries, (jnp.zeros_like(keys.k), jnp.zeros_like(keys.v)), (rows, dq))
            return dq, (dk, dv)

        dq, (dk, dv) = lax.scan(one_block, jnp.zeros_like(rows[0].q), self.keys(k, v, mask))
        dq = tag("dq", by_token(joined(dq, q.shape[1]) * self.scale_for(q), of=q).astype(q.dtype))
        dk = tag("dk", by_token(joined(dk, k.shape[1]), of=k).astype(k.dtype))
        dv = tag("dv", by_token(joined(dv, k.shape[1]), of=k).astype(v.dtype))
        return Inputs(q=dq, k=dk, v=dv), None

    def scores(self, queries: Queries, keys: Keys, mask: Mask) -> Float[Array, "*N T S"]:
        seen = keys.keep[..., None, :]
        if mask.by_place:
            seen = seen & mask.allows(queries.place[:, None], keys.place)
        return jnp.where(seen, queries.q @ transposed(keys.k), -jnp.inf)

    def queries(self, q: Float[Array, "B T H D"], mask: Mask) -> Queries:
        place = places(q.shape[1], self.block) + (0 if mask.offset is None else mask.offset)
        return Queries(q=cut(by_head(wide(q)) * self.scale_for(q), self.block), place=place)

    def keys(self, k: Float[Array, "B S H D"], v: Float[Array, "B S H D"], mask: Mask) -> Keys:
        batch, sources, heads, _ = k.shape
        keep = jnp.ones((batch, sources), bool) if mask.keep is None else mask.keep
        return Keys(
            k=cut(by_head(wide(k)), self.block),
            v=cut(by_head(wide(v)), self.block),
            place=places(sources, self.block),
            keep=cut(for_heads(keep, heads), self.block, axis=-1),
        )

    def scale_for(self, q: Float[Array, "B T H D"]) -> float:
        return q.shape[-1] ** -0.5 if self.scale is None else self.scale


def unless_unseen(mask: Mask, queries: Queries, keys: Keys, looking: Callable[[], Sums], unchanged: Sums) -> Sums:
    """A block of keys of which no query of the block sees any adds nothing, and is not computed."""
    if not mask.by_place:
        return looking()
    seen = jnp.any(mask.allows(queries.place[:, None], keys.place))
    return lax.cond(seen, looking, lambda: unchanged)


def finite(highest: Float[Array, "*N T 1"]) -> Float[Array, "*N T 1"]:
    """0 in the place of -inf, where a query has seen nothing yet: -inf - -inf would not be a number."""
    return jnp.where(jnp.isneginf(highest), 0, highest)
