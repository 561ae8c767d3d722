"""Cross-entropy of softmax: how surprised the model is by the right class, in nats, mean over the batch.

forward    log_p = x - logsumexp(x)      loss = -mean(log_p at the label)
backward   dx = (p - onehot(label)) / N * dloss      N = number of labels

Taken from log-softmax, so no guard such as log(p + 1e-9) is needed. Derived in docs/derivations/cross_entropy.md.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from glassformer.names import tag
from glassformer.shapes import Array, Float, Integer, Key


class Cache(NamedTuple):
    log_p: Float[Array, "*B K"]
    labels: Integer[Array, "*B"]


@dataclass(frozen=True)
class CrossEntropy:
    def init(self, key: Key) -> None:
        return None

    def forward(
        self, params: None, x: Float[Array, "*B K"], *, labels: Integer[Array, "*B"]
    ) -> tuple[Float[Array, ""], Cache]:
        log_p, labels = tag("log_p", log_softmax(x)), tag("labels", labels)
        loss = tag("loss", -jnp.mean(at_label(log_p, labels)))
        return loss, Cache(log_p=log_p, labels=labels)

    def backward(self, params: None, cache: Cache, dy: Float[Array, ""]) -> tuple[Float[Array, "*B K"], None]:
        log_p, labels = cache.log_p, cache.labels
        dloss = tag("dloss", dy)
        # loss = -mean(log_p at the label)
        onehot = jax.nn.one_hot(labels, log_p.shape[-1], dtype=log_p.dtype)
        dlog_p = tag("dlog_p", -onehot / labels.size * dloss)
        # log_p = x - logsumexp(x)
        return log_softmax_backward(log_p, dlog_p), None


def log_softmax(x: Float[Array, "*B K"]) -> Float[Array, "*B K"]:
    return jax.nn.log_softmax(x, axis=-1)


def log_softmax_backward(log_p: Float[Array, "*B K"], dlog_p: Float[Array, "*B K"]) -> Float[Array, "*B K"]:
    # the derivative of logsumexp is the softmax itself
    return dlog_p - jnp.exp(log_p) * jnp.sum(dlog_p, axis=-1, keepdims=True)


def at_label(log_p: Float[Array, "*B K"], labels: Integer[Array, "*B"]) -> Float[Array, "*B"]:
    """log_p at the label. A label that is no class gives NaN: the loss must not hide it."""
    known = (labels >= 0) & (labels < log_p.shape[-1])
    return jnp.where(known, jnp.take_along_axis(log_p, labels[..., None], axis=-1, mode="clip")[..., 0], jnp.nan)
