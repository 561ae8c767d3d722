"""One loss and its gradient: forward through model and loss, then back through both."""

from typing import Any

import jax.numpy as jnp

from glassformer.layers.contract import Layer, keywords_for
from glassformer.losses import CrossEntropy, HeadAndLoss
from glassformer.models.tied_output import TiedOutput
from glassformer.names import at, is_visited
from glassformer.shapes import Array, Float, Key

LARGE = 1 << 28  # logits that are never all in memory


def loss_and_gradient(
    model: Layer,
    loss: Layer,
    params: Any,
    x: Any,
    *,
    labels: Any,
    weights: Any = None,
    key: Key | None = None,
    **keywords: Any,
) -> tuple[Float[Array, ""], Any]:
    """The loss of one batch and the gradient of every parameter. Without a key nothing is dropped out.

    `keywords` are what else the model's forward takes, such as `keep`.
    """
    if isinstance(model, TiedOutput) and loss == CrossEntropy() and is_large(model, x):
        h, cache = model.to_head(params, x, key=key, **keywords)
        value, loss_cache = at("loss", HeadAndLoss()).forward(None, h, labels=labels, weights=weights)
        d, _ = at("loss", HeadAndLoss()).backward(None, loss_cache, jnp.ones_like(value))
        return value, model.from_head(params, cache, d)
    y, cache = model.forward(params, x, **keywords_for(model, key=key), **keywords)
    value, loss_cache = at("loss", loss).forward(None, y, labels=labels, weights=weights)
    dy, _ = at("loss", loss).backward(None, loss_cache, jnp.ones_like(value))
    _, dparams = model.backward(params, cache, dy.astype(y.dtype))  # a loss is wide
    return value, dparams


def is_large(model: Any, x: Any) -> bool:
    """Whether the logits of a batch would be; not where somebody looks at them."""
    return x.size * model.input.vocabulary > LARGE and not is_visited()
