"""Whole passes, each as one program: operation by operation, every one of them would be compiled by itself."""

from functools import partial
from typing import Any

import jax


@partial(jax.jit, static_argnums=0)
def forward(layer: Any, params: Any, x: Any, **keywords: Any) -> Any:
    """What forward gives, without its cache."""
    return layer.forward(params, x, **keywords)[0]


@partial(jax.jit, static_argnums=0)
def forward_and_backward(layer: Any, params: Any, x: Any, dy: Any, **keywords: Any) -> tuple[Any, Any, Any]:
    """y, dx and dparams."""
    y, cache = layer.forward(params, x, **keywords)
    return y, *layer.backward(params, cache, dy)
