"""Cross-entropy with label smoothing: a part of the target is spread evenly over all classes, against certainty.

forward    log_p = x - log(sum(exp(x)))
           expected = (1 - smoothing) * pick(log_p, labels) + smoothing * mean(log_p)
           loss = -sum_tokens(column(share) * expected)
backward   target = (1 - smoothing) * onehot(labels, K) + smoothing / K
           dlog_p = -column(share) * target * dloss      dx = dlog_p - exp(log_p) * sum(dlog_p)

The share of a sample is that of cross_entropy.py: 1 / N, or by weight.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from glassformer.errors import SettingError
from glassformer.losses.cross_entropy import Cache, at_label, log_softmax, log_softmax_backward, shares, weighted
from glassformer.losses.loss import Loss
from glassformer.names import tag
from glassformer.shapes import Array, Float, Integer


@dataclass(frozen=True)
class LabelSmoothing(Loss):
    smoothing: float = 0.1

    def __post_init__(self) -> None:
        if not isinstance(self.smoothing, jax.Array) and not 0 <= self.smoothing < 1:  # in a program it is not known
            raise SettingError(f"label smoothing: {self.smoothing} came, expected a share from 0 to below 1")

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
        expected = (1 - self.smoothing) * at_label(log_p, labels) + self.smoothing * jnp.mean(log_p, axis=-1)
        loss = tag("loss", -weighted(share, expected))
        return loss, Cache(log_p=log_p, labels=labels, share=share)

    def backward(self, params: None, cache: Cache, dy: Float[Array, ""]) -> tuple[Float[Array, "*B K"], None]:
        dloss = tag("dloss", dy)
        # loss = -sum(share * ((1 - smoothing) * log_p at the label + smoothing * mean of log_p over the classes))
        classes = cache.log_p.shape[-1]
        onehot = jax.nn.one_hot(cache.labels, classes, dtype=cache.log_p.dtype)
        target = (1 - self.smoothing) * onehot + self.smoothing / classes
        dlog_p = tag("dlog_p", -cache.share[..., None] * target * dloss)
        # log_p = x - logsumexp(x)
        return log_softmax_backward(cache.log_p, dlog_p), None
