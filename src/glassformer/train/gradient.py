"""One loss and its gradient: forward through model and loss, then back through both."""

from typing import Any

import jax.numpy as jnp

from glassformer.layers.contract import Layer, keywords_for
from glassformer.names import at
from glassformer.shapes import Array, Float, Key


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
    y, cache = model.forward(params, x, **keywords_for(model, key=key), **keywords)
    value, loss_cache = at("loss", loss).forward(None, y, labels=labels, weights=weights)
    dy, _ = at("loss", loss).backward(None, loss_cache, jnp.ones_like(value))
    _, dparams = model.backward(params, cache, dy.astype(y.dtype))  # a loss is wide
    return value, dparams
