"""PyTorch as the referee of one layer: the same numbers into both, and how far apart what comes out is."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from ..programs import forward_and_backward

Tree = Any  # NamedTuples of arrays, absent parts None


def normal(draw: np.random.Generator, like: Tree) -> Tree:
    """A tree of the same shapes, every number drawn: ones and zeros hide mistakes."""
    return jax.tree.map(lambda leaf: draw.standard_normal(leaf.shape), like)


def disagreement(layer: Any, x: Tree, theirs: Callable[[Any, Any], torch.Tensor], **keywords: Any) -> float:
    """The worst error of output and of gradients, for drawn params and a drawn dy, in float64.

    `theirs(params, x) -> y` is PyTorch's way from our params and x, given as the same trees of tensors: what it
    transposes and joins on the way, autograd undoes, so that both sides' gradients have the same structure.
    """
    draw = np.random.default_rng(0)
    with jax.enable_x64(True):
        params = normal(draw, jax.eval_shape(layer.init, jax.random.key(0)))
        leaves = jax.tree.map(as_leaf, (x, params))
        y_theirs = theirs(leaves[1], leaves[0])
        dy = draw.standard_normal(y_theirs.shape)
        y_theirs.backward(torch.tensor(dy))

        params, x = jax.tree.map(jnp.asarray, (params, x))
        y, *gradients = forward_and_backward(layer, params, x, jnp.asarray(dy), **keywords)
    return max(error(y, y_theirs.detach()), error(tuple(gradients), jax.tree.map(gradient_of, leaves)))


def error(ours: Tree, theirs: Tree) -> float:
    """The largest difference over the largest magnitude; the structures must be equal, and so must the shapes."""
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(*map(jax.tree.leaves, (ours, theirs)), strict=True)]
    assert [(a.shape, a.dtype) for a, _ in pairs] == [(b.shape, np.float64) for _, b in pairs]
    return float(max(np.abs(a - b).max() for a, b in pairs) / max(np.abs(b).max() for _, b in pairs))


def as_leaf(value: Any) -> torch.Tensor:
    value = np.asarray(value)
    return torch.tensor(value, requires_grad=value.dtype.kind == "f")


def gradient_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """None where the tensor holds integers, as in our dx."""
    return tensor.grad if tensor.requires_grad else None
