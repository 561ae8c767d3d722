"""Tied head and cross-entropy in one, in pieces of tokens: the logits of a large vocabulary are never all in memory.

forward    logits = x @ emb^T      lse = log(sum(exp(logits)))      loss = -sum_tokens(share * (pick(logits) - lse))
backward   dlogits = share * (exp(logits - lse) - onehot(labels, V)) * dloss      dx = dlogits @ emb
           demb = dlogits^T @ x

The same numbers as tied_head.py followed by cross_entropy.py. While the logits of a piece are there, so are the
gradients made of them: the cache holds dx and demb for dloss = 1, and backward multiplies. Nothing is computed twice.
"""

from dataclasses import dataclass
from typing import NamedTuple

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
    """For dloss = 1."""

    dx: Float[Array, "*B C"]
    demb: Float[Array, "V C"]


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
        emb, parts = x.emb, batch_parts(len(x.x))
        share = shares(wide(x.x), weights)
        flat = [each.reshape(parts, -1, *each.shape[labels.ndim :]) for each in (x.x, labels, share)]
        tokens = flat[0].shape[1]
        pieces = tuple(cut(each, min(self.piece, tokens), axis=1) for each in flat)

        def one(demb: Array, now: tuple[Array, Array, Array]) -> tuple[Array, tuple[Array, Array]]:
            x, labels, share = now
            logits = x @ emb.T
            lse = jax.nn.logsumexp(wide(logits), axis=-1, keepdims=True)
            loss = -weighted(share, at_label(wide(logits), labels) - lse[..., 0])
            # dlogits = share * (softmax(logits) - onehot), for dloss = 1
            onehot = lax.broadcasted_iota(labels.dtype, logits.shape, 1) == labels[:, None]
            dlogits = (share[:, None] * (jnp.exp(wide(logits) - lse) - onehot)).astype(logits.dtype)
            return demb + wide_product(dlogits.T, x), (loss, dlogits @ emb)

        if parts == 1:
            demb, (losses, dx) = lax.scan(one, jnp.zeros_like(wide(emb)), tuple(each[:, 0] for each in pieces))
            dx = dx[:, None]
        else:  # every device its own part of the batch, with a demb of its own: they are summed once, at the end
            demb, (losses, dx) = lax.scan(jax.vmap(one), jnp.zeros((parts, *emb.shape), wide(emb).dtype), pieces)
            demb = jnp.sum(demb, axis=0)
        dx = joined(dx, tokens).reshape(x.x.shape)
        return tag("loss", jnp.sum(losses)), Cache(dx=dx, demb=demb)

    def backward(self, params: None, cache: Cache, dy: Float[Array, ""]) -> tuple[Inputs, None]:
        dloss = tag("dloss", dy)
        dx = tag("dx", (cache.dx * dloss).astype(cache.dx.dtype))
        return Inputs(x=dx, emb=tag("demb", cache.demb * dloss)), None
