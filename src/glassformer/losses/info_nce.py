"""InfoNCE: of all texts of a batch, which is the partner of this one? Cross-entropy of similarities, in nats.

forward    scores = x @ x^T / temperature
           log_p = masked(scores, seen) - log(sum(exp(masked(scores, seen))))
           loss = -sum_tokens(column(share) * pick(log_p, partner))
backward   dlog_p = -column(share) * onehot(partner, N) * dloss
           dscores = dlog_p - exp(log_p) * sum(dlog_p)
           dx = (dscores @ x + dscores^T @ x) / temperature

The rows are vectors of length 1, the first texts of all pairs and behind them the second ones: the partner of row i is
row i + N/2, and the other way round, so both directions are asked. A row sees its partner, and as negatives those rows
of the other half that have another label: pairs with the same label mean the same. Rows of weight zero only pad the
batch: nobody sees them. Derived in docs/derivations/info_nce.md. van den Oord et al., 2018; Radford et al., 2021.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import SettingError, ShapeError
from glassformer.layers.precision import wide_product
from glassformer.losses.cross_entropy import at_label, log_softmax, log_softmax_backward, shares, weighted
from glassformer.losses.loss import Loss
from glassformer.names import tag
from glassformer.shapes import Array, Bool, Float, Integer


class Cache(NamedTuple):
    x: Float[Array, "N C"]
    log_p: Float[Array, "N N"]  # of each row's candidates; -inf where it sees none
    partner: Integer[Array, "N"]
    share: Float[Array, "N"]  # of each row in the loss


@dataclass(frozen=True)
class InfoNCE(Loss):
    temperature: float = 0.05  # what similarities are divided by: the smaller, the more the nearest negatives count

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:  # NaN is not either
            raise SettingError(
                f"info-nce: a temperature of {self.temperature} came, expected one above 0, such as 0.05"
            )

    def forward(
        self,
        params: None,
        x: Float[Array, "N C"],
        *,
        labels: Integer[Array, "N"],
        weights: Float[Array, "N"] | None = None,
    ) -> tuple[Float[Array, ""], Cache]:
        if x.ndim != 2 or len(x) % 2 or labels.shape != x.shape[:1]:
            raise ShapeError(
                f"info-nce: vectors of shape {x.shape} with labels of {labels.shape} came, expected (2 B, C) with one "
                "label each: the first texts of B pairs, then the second ones"
            )
        x = tag("x", x)
        scores = tag("scores", wide_product(x, x.T) / self.temperature)
        share = tag("share", shares(scores, weights))
        partner = tag("partner", partners(len(x)))
        seen = tag("seen", candidates(labels, share))
        log_p = tag("log_p", log_softmax(jnp.where(seen, scores, -jnp.inf)))
        loss = tag("loss", -weighted(share, at_label(log_p, partner)))
        return loss, Cache(x=x, log_p=log_p, partner=partner, share=share)

    def backward(self, params: None, cache: Cache, dy: Float[Array, ""]) -> tuple[Float[Array, "N C"], None]:
        dloss = tag("dloss", dy)
        # loss = -sum(share * log_p at the partner)
        onehot = jax.nn.one_hot(cache.partner, len(cache.x), dtype=cache.log_p.dtype)
        dlog_p = tag("dlog_p", -cache.share[:, None] * onehot * dloss)
        # log_p = scores - logsumexp(scores), where they are seen
        dscores = tag("dscores", log_softmax_backward(cache.log_p, dlog_p))
        # scores = x @ x^T / temperature: every row asks, and is a candidate of others
        dasks, dasked = dscores @ cache.x, dscores.T @ cache.x
        return tag("dx", (dasks + dasked) / self.temperature), None


def partners(rows: int) -> Integer[Array, "N"]:
    return (jnp.arange(rows) + rows // 2) % rows


def candidates(labels: Integer[Array, "N"], share: Float[Array, "N"]) -> Bool[Array, "N N"]:
    """Which rows (columns) each row chooses from: its partner, and the negatives of the other half."""
    places, second = jnp.arange(len(labels)), jnp.arange(len(labels)) >= len(labels) // 2
    negatives = (second[:, None] != second) & (labels[:, None] != labels) & (share != 0)
    return negatives | (partners(len(labels))[:, None] == places)
