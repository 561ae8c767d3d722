"""Cross-entropy with label smoothing: a share of the target is spread evenly over all classes, so that the model
is not pushed towards certainty.

forward    target = (1 - smoothing) * onehot(label) + smoothing / K      loss = -mean(sum over K of target * log_p)
backward   dx = (p - target) / N * dloss      N = number of labels
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from glassformer.errors import SettingError
from glassformer.losses.cross_entropy import Cache, log_softmax, log_softmax_backward
from glassformer.names import tag
from glassformer.shapes import Array, Float, Int, Key


@dataclass(frozen=True)
class LabelSmoothing:
    smoothing: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing < 1:
            raise SettingError(f"label smoothing: {self.smoothing} came, expected a share from 0 to below 1")

    def init(self, key: Key) -> None:
        return None

    def forward(
        self, params: None, x: Float[Array, "*B K"], *, labels: Int[Array, "*B"]
    ) -> tuple[Float[Array, ""], Cache]:
        log_p, labels = tag("log_p", log_softmax(x)), tag("labels", labels)
        loss = tag("loss", -jnp.sum(self.target(log_p, labels) * log_p) / labels.size)
        return loss, Cache(log_p=log_p, labels=labels)

    def backward(self, params: None, cache: Cache, dy: Float[Array, ""]) -> tuple[Float[Array, "*B K"], None]:
        log_p, labels = cache.log_p, cache.labels
        dloss = tag("dloss", dy)
        # loss = -sum(target * log_p) / N
        dlog_p = tag("dlog_p", -self.target(log_p, labels) / labels.size * dloss)
        # log_p = x - logsumexp(x)
        return log_softmax_backward(log_p, dlog_p), None

    def target(self, log_p: Float[Array, "*B K"], labels: Int[Array, "*B"]) -> Float[Array, "*B K"]:
        classes = log_p.shape[-1]
        onehot = jax.nn.one_hot(labels, classes, dtype=log_p.dtype)
        return (1 - self.smoothing) * onehot + self.smoothing / classes
