"""Tied head and cross-entropy in one, in pieces of tokens: the logits of a large vocabulary are never all in memory.

forward    logits = x @ emb^T      lse = log(sum(exp(logits)))      loss = -sum_tokens(share * (pick(logits) - lse))
           slopes = share * (exp(logits - lse) - onehot(labels, V))
           slope_x = slopes @ emb      slope_emb = slopes^T @ x
backward   dx = slope_x * dloss      demb = slope_emb * dloss

The same numbers as tied_head.py followed by cross_entropy.py. The slopes are the gradients for dloss = 1: they are made
while the logits of a piece are there, and backward multiplies. Nothing is computed twice.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from glassformer.layers.blocks import cut, joined
from glassformer.layers.precision import wide, wide_product
from glassformer.layers.sharding import batch_parts
from glassformer.layers.tied_head import Inputs
from glassformer.losses.cross_entropy import at_label, shares, weighted
from glassformer.names import tag
from glassformer.shapes import Array, Float, Integer, Key


class Cache(NamedTuple):
    slope_x: Float[Array, "*B C"]
    slope_emb: Float[Array, "V C"]


@dataclass(frozen=True)
class HeadAndLoss:
    piece: int = 8192  # tokens whose logits are there at a time

    def init(self, key: Key) -> None:
        return None

    def forward(
        self,
        params: None,
        x: Inputs,
        *,
        labels: Integer[Array, "*B"],
        weights: Float[Array, "*B"] | None = None,
    ) -> tuple[Float[Array, ""], Cache]:
        given, emb, parts = tag("x", x.x), tag("emb", x.emb), batch_parts(len(x.x))
        share = shares(wide(given), weights)
        flat = [each.reshape(parts, -1, *each.shape[labels.ndim :]) for each in (given, labels, share)]
        tokens = flat[0].shape[1]
        pieces: Any = tuple(cut(each, min(self.piece, tokens), axis=1) for each in flat)

        def one(demb: Array, now: tuple[Array, Array, Array]) -> tuple[Array, tuple[Array, Array]]:
            x, labels, share = now
            logits = x @ emb.T
            lse = jax.nn.logsumexp(wide(logits), axis=-1, keepdims=True)
            loss = -weighted(share, at_label(wide(logits), labels) - lse[..., 0])
            onehot = lax.broadcasted_iota(labels.dtype, logits.shape, 1) == labels[:, None]
            slopes = (share[:, None] * (jnp.exp(wide(logits) - lse) - onehot)).astype(logits.dtype)
            return demb + wide_product(slopes.T, x), (loss, slopes @ emb)

        if parts == 1:
            demb, (losses, dx) = lax.scan(one, jnp.zeros_like(wide(emb)), jax.tree.map(lambda each: each[:, 0], pieces))
            dx = dx[:, None]
        else:  # every device its own part of the batch, with a demb of its own: they are summed once, at the end
            demb, (losses, dx) = lax.scan(jax.vmap(one), jnp.zeros((parts, *emb.shape), wide(emb).dtype), pieces)
            demb = jnp.sum(demb, axis=0)
        dx = joined(dx, tokens).reshape(x.x.shape)
        return tag("loss", jnp.sum(losses)), Cache(slope_x=tag("slope_x", dx), slope_emb=tag("slope_emb", demb))

    def backward(self, params: None, cache: Cache, dy: Float[Array, ""]) -> tuple[Inputs, None]:
        dloss = tag("dloss", dy)
        dx = tag("dx", (cache.slope_x * dloss).astype(cache.slope_x.dtype))
        return Inputs(x=dx, emb=tag("demb", cache.slope_emb * dloss)), None
