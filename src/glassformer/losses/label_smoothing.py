"""Cross-entropy with label smoothing: a share of the target is spread evenly over all classes, so that the model
is not pushed towards certainty.

forward    loss = -mean((1 - smoothing) * log_p at the label + smoothing * mean of log_p over the classes)
backward   dx = (p - target) / N * dloss      N = number of labels
           target = (1 - smoothing) * onehot(label) + smoothing / K
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from glassformer.errors import SettingError
from glassformer.losses.cross_entropy import Cache, at_label, log_softmax, log_softmax_backward
from glassformer.names import tag
from glassformer.shapes import Array, Float, Integer, Key


@dataclass(frozen=True)
class LabelSmoothing:
    smoothing: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing < 1:
            raise SettingError(f"label smoothing: {self.smoothing} came, expected a share from 0 to below 1")

    def init(self, key: Key) -> None:
        return None

    def forward(
        self, params: None, x: Float[Array, "*B K"], *, labels: Integer[Array, "*B"]
    ) -> tuple[Float[Array, ""], Cache]:
        log_p, labels = tag("log_p", log_softmax(x)), tag("labels", labels)
        spread = jnp.mean(log_p, axis=-1)
        loss = tag("loss", -jnp.mean((1 - self.smoothing) * at_label(log_p, labels) + self.smoothing * spread))
        return loss, Cache(log_p=log_p, labels=labels)

    def backward(self, params: None, cache: Cache, dy: Float[Array, ""]) -> tuple[Float[Array, "*B K"], None]:
        log_p, labels = cache.log_p, cache.labels
        dloss = tag("dloss", dy)
        # loss = -mean((1 - smoothing) * log_p at the label + smoothing * mean of log_p over the classes)
        classes = log_p.shape[-1]
        onehot = jax.nn.one_hot(labels, classes, dtype=log_p.dtype)
        target = (1 - self.smoothing) * onehot + self.smoothing / classes
        dlog_p = tag("dlog_p", -target / labels.size * dloss)
        # log_p = x - logsumexp(x)
        return log_softmax_backward(log_p, dlog_p), None
