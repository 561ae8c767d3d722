"""Gradients of a layer's backward beside two referees: autodiff, and finite differences. All in float64.

The error of a gradient is `max|ours - referee|` over a leaf, divided by the largest gradient magnitude in the layer.
Elementwise relative error would be meaningless: the key bias of attention, for one, has a true gradient of zero.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from glassformer.check.draw import Drawn, is_float
from glassformer.check.observe import Observed
from glassformer.errors import ContractError
from glassformer.layers.contract import Layer
from glassformer.names import gradient_name, named_leaves, visiting

STEP = 1e-5  # of finite differences: truncation and rounding are both near 1e-10 of the gradient
ENTRIES = 32  # of each leaf that finite differences look at

Gradients = dict[str, Any]  # by name: dw_q, dx, dx.q


def gradient_error(ours: Any, truth: Any) -> float:
    """The largest error over all leaves of two trees of gradients."""
    return max(leaf_errors(named_leaves(ours), named_leaves(truth)).values(), default=0.0)


def leaf_errors(ours: Gradients, truth: Gradients) -> dict[str, float]:
    """The error of each gradient, over the largest magnitude among them. Not a number counts as infinitely wrong."""
    referee = {name: np.asarray(leaf) for name, leaf in truth.items()}
    largest = max((np.abs(leaf).max(initial=0.0) for leaf in referee.values()), default=0.0) or 1.0
    errors = {name: np.abs(np.asarray(ours[name]) - leaf).max(initial=0.0) / largest for name, leaf in referee.items()}
    return {name: float(error) if np.isfinite(error) else float("inf") for name, error in errors.items()}


def ours(layer: Layer, drawn: Drawn, seen: Observed) -> Gradients:
    """What the layer's own backward says, after checking that it has the right form."""
    must_match(layer, "dparams", seen.dparams, "params", drawn.params)
    must_match(layer, "dx", seen.dx, "x", jax.tree.map(lambda leaf: leaf if is_float(leaf) else None, drawn.x))
    return floats(seen.dparams, seen.dx)


def floats(params: Any, x: Any) -> Gradients:
    """The differentiable leaves of params and x, by the name of their gradient."""
    weights = {gradient_name(name): leaf for name, leaf in named_leaves(params).items()}
    inputs = {f"dx.{name}" if name else "dx": leaf for name, leaf in named_leaves(x).items()}
    return {name: leaf for name, leaf in (weights | inputs).items() if is_float(leaf)}


def must_match(layer: Layer, what: str, gradient: Any, of: str, value: Any) -> None:
    """A gradient has the structure and the shapes of what it is the gradient of."""
    title = type(layer).__name__
    if jax.tree.structure(gradient) != jax.tree.structure(value):
        raise ContractError(
            f"{title}: {what} does not have the structure of {of}: it is {form(gradient)}, expected {form(value)}; "
            "backward returns (dx, dparams), in this order"
        )
    for (name, d), v in zip(named_leaves(gradient).items(), jax.tree.leaves(value), strict=True):
        if d.shape != v.shape:
            turned = "; it looks transposed" if d.shape == v.shape[::-1] else ""
            raise ContractError(
                f"{title}: the gradient {'.'.join(filter(None, (what, name)))} has shape {d.shape}, "
                f"expected {v.shape}, the shape of what it belongs to{turned}"
            )


def form(tree: Any) -> str:
    names = ", ".join(filter(None, named_leaves(tree)))
    return "None" if tree is None else type(tree).__name__ + (f"({names})" if names else "")


def by_autodiff(layer: Layer, drawn: Drawn, dy: Any, seen: Observed) -> tuple[Gradients, Gradients]:
    """What `jax.vjp` says of forward: the gradients of params and x, and those of the values whose gradient is tagged.

    A tagged value has no variable of its own to differentiate by, so a zero is added to it on its way through.
    """
    vector, output = as_function(layer, drawn)
    shown = {name: value for name, value in seen.forward.items() if gradient_name(name) in seen.backward}

    def output_with(vector: Any, added: dict[str, Any]) -> Any:
        with visiting(lambda name, value: value + added[name] if name in added else value):
            return output(vector)

    _, vjp = jax.vjp(output_with, vector, jax.tree.map(jnp.zeros_like, shown))
    dvector, dadded = vjp(dy)
    leaves = floats(drawn.params, drawn.x)
    pieces = by_leaf(leaves, [leaf.size for leaf in leaves.values()], dvector)
    of_inputs = {name: piece.reshape(leaves[name].shape) for name, piece in pieces.items()}
    return of_inputs, {gradient_name(name): gradient for name, gradient in dadded.items()}


def by_differences(layer: Layer, drawn: Drawn, dy: Any, seed: int) -> tuple[Gradients, Gradients]:
    """Central differences of sum(dy * y) at some entries of each leaf, and which entries they are."""
    vector, output = as_function(layer, drawn)

    def slope(entry: Any) -> Any:
        step = jnp.zeros_like(vector).at[entry].set(STEP)
        above, below = (weighted_sum(dy, output(vector + sign * step)) for sign in (1, -1))
        return (above - below) / (2 * STEP)

    leaves = floats(drawn.params, drawn.x)
    sizes = np.array([leaf.size for leaf in leaves.values()])
    counts = np.minimum(sizes, ENTRIES)
    entries = np.random.default_rng(seed).integers(0, np.repeat(sizes, counts))
    starts = np.repeat(np.cumsum(sizes) - sizes, counts)
    slopes = jax.lax.map(slope, jnp.asarray(entries + starts), batch_size=ENTRIES)
    return by_leaf(leaves, counts, slopes), by_leaf(leaves, counts, entries)


def weighted_sum(dy: Any, y: Any) -> Any:
    return sum(jnp.sum(a * b) for a, b in zip(jax.tree.leaves(dy), jax.tree.leaves(y), strict=True))


def by_leaf(leaves: Gradients, counts: Any, vector: Any) -> Gradients:
    """Cut one vector into a piece for each leaf."""
    ends = np.cumsum(counts)
    return {name: vector[end - count : end] for name, count, end in zip(leaves, counts, ends, strict=True)}


def as_function(layer: Layer, drawn: Drawn) -> tuple[Any, Any]:
    """forward as a function of one vector that holds every differentiable number that goes in."""
    leaves, structure = jax.tree.flatten((drawn.params, drawn.x))
    moving = [i for i, leaf in enumerate(leaves) if is_float(leaf)]
    vector, unravel = ravel_pytree([leaves[i] for i in moving])

    def output(vector: Any) -> Any:
        filled = list(leaves)
        for i, leaf in zip(moving, unravel(vector), strict=True):
            filled[i] = leaf
        params, x = jax.tree.unflatten(structure, filled)
        return layer.forward(params, x, **drawn.keywords)[0]

    return vector, output


def what_is_wrong(ours: Any, truth: Any) -> str:
    """In words, what a wrong gradient looks like: the usual slips are recognised."""
    ours, truth = np.asarray(ours, np.float64), np.asarray(truth, np.float64)
    if not np.isfinite(ours).all():
        return "it holds values that are not finite"
    if not ours.any():
        return "it is all zeros"
    factor = float(np.vdot(ours, truth) / np.vdot(ours, ours))
    if factor and np.allclose(ours * factor, truth, rtol=1e-6, atol=1e-9 * np.abs(truth).max()):
        return "its sign is turned round" if abs(factor + 1) < 1e-6 else f"it is {1 / factor:.4g} times the right one"
    if ours.ndim == 2 and ours.shape[0] == ours.shape[1] and np.allclose(ours.T, truth):
        return "it is the transpose of the right one"
    at = np.unravel_index(np.abs(ours - truth).argmax(), ours.shape)
    place = ", ".join(map(str, at))
    return f"at [{place}] it is {ours[at]:.6g}, expected {truth[at]:.6g}; no common factor: a term may be missing"
