"""Cross-entropy of softmax: how surprised the model is by the right class, in nats, mean over the batch.

forward    log_p = x - log(sum(exp(x)))      loss = -sum_tokens(column(share) * pick(log_p, labels))
backward   dlog_p = -column(share) * onehot(labels, K) * dloss      dx = dlog_p - exp(log_p) * sum(dlog_p)

Every sample has the same share, 1 / N, unless weights say otherwise: share = weight / sum(weights). A weight of zero
leaves a sample out, so that the last, smaller batch can be padded to full size.
Taken from log-softmax, so no guard such as log(p + 1e-9) is needed. Derived in docs/derivations/cross_entropy.md.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import ShapeError
from glassformer.layers.precision import wide
from glassformer.losses.loss import Loss
from glassformer.names import tag
from glassformer.shapes import Array, Float, Integer


class Cache(NamedTuple):
    log_p: Float[Array, "*B K"]
    labels: Integer[Array, "*B"]
    share: Float[Array, "*B"]  # of each sample in the loss


@dataclass(frozen=True)
class CrossEntropy(Loss):
    def forward(
        self,
        params: None,
        x: Float[Array, "*B K"],
        *,
        labels: Integer[Array, "*B"],
        weights: Float[Array, "*B"] | None = None,
    ) -> tuple[Float[Array, ""], Cache]:
        log_p, labels = tag("log_p", log_softmax(x)), tag("labels", labels)
        share = tag("share", shares(log_p, weights))
        loss = tag("loss", -weighted(share, at_label(log_p, labels)))
        return loss, Cache(log_p=log_p, labels=labels, share=share)

    def backward(self, params: None, cache: Cache, dy: Float[Array, ""]) -> tuple[Float[Array, "*B K"], None]:
        dloss = tag("dloss", dy)
        # loss = -sum(share * log_p at the label)
        onehot = jax.nn.one_hot(cache.labels, cache.log_p.shape[-1], dtype=cache.log_p.dtype)
        dlog_p = tag("dlog_p", -cache.share[..., None] * onehot * dloss)
        # log_p = x - logsumexp(x)
        return log_softmax_backward(cache.log_p, dlog_p), None

    def total(self, x: Float[Array, "*B K"], labels: Integer[Array, "*B"], weights: Float[Array, "*B"]) -> Any:
        return -weighted(weights, at_label(log_softmax(x), labels))


def shares(log_p: Float[Array, "*B K"], weights: Float[Array, "*B"] | None) -> Float[Array, "*B"]:
    if weights is not None and weights.shape != log_p.shape[:-1]:
        raise ShapeError(f"loss: weights of shape {weights.shape} came, expected one per label: {log_p.shape[:-1]}")
    weights = jnp.ones(log_p.shape[:-1], log_p.dtype) if weights is None else weights.astype(log_p.dtype)
    return weights / jnp.sum(weights)


def weighted(share: Float[Array, "*B"], log_p: Float[Array, "*B"]) -> Float[Array, ""]:
    """The sum by share; what has none is left out even where it is not a number."""
    return jnp.sum(jnp.where(share == 0, 0, share * log_p))


def log_softmax(x: Float[Array, "*B K"]) -> Float[Array, "*B K"]:
    return jax.nn.log_softmax(wide(x), axis=-1)


def log_softmax_backward(log_p: Float[Array, "*B K"], dlog_p: Float[Array, "*B K"]) -> Float[Array, "*B K"]:
    # the derivative of logsumexp is the softmax itself
    return dlog_p - jnp.exp(log_p) * jnp.sum(dlog_p, axis=-1, keepdims=True)


def at_label(log_p: Float[Array, "*B K"], labels: Integer[Array, "*B"]) -> Float[Array, "*B"]:
    """log_p at the label. A label that is no class gives NaN: the loss must not hide it."""
    known = (labels >= 0) & (labels < log_p.shape[-1])
    return jnp.where(known, jnp.take_along_axis(log_p, labels[..., None], axis=-1, mode="clip")[..., 0], jnp.nan)
