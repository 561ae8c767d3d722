"""A training state as C has it: each part one array of all parameters, and spans of them that are treated alike."""

from typing import Any, NamedTuple

import jax
import numpy as np
import optax

from glassformer.layers.contract import decayed, param_shapes
from glassformer.train.jax_engine import State
from glassformer.train.optimiser import FROZEN, REST
from glassformer.train.recipe import Recipe


class Flat:
    """A state as C has it: each part one array of all parameters, in the order of their names."""

    def __init__(self, state: State) -> None:
        self.template = state
        self.params, self.ema = flattened(state.params), None if state.ema is None else flattened(state.ema)
        trace = self.part("trace")
        self.m = self.part("mu") if trace is None else trace
        self.v = self.part("nu")
        counts = optax.tree_utils.tree_get_all_with_path(state.optimiser, "count")
        self.count = int(counts[0][1])

    def part(self, name: str) -> np.ndarray | None:
        """What the optimiser remembers; of groups, which remember apart, together. Nothing of what is frozen."""
        found = [leaves_of(tree) for _, tree in optax.tree_utils.tree_get_all_with_path(self.template.optimiser, name)]
        if not found:
            return None
        params = jax.tree.leaves(self.template.params)
        own = [[leaf for leaf in leaves if not is_absent(leaf)] for leaves in zip(*found, strict=True)]
        return flattened(
            [leaves[0] if leaves else np.zeros_like(like) for leaves, like in zip(own, params, strict=True)]
        )

    def state(self) -> State:
        """The state after `count` steps, from what C has written."""
        params = self.template.params
        optimiser = optax.tree_utils.tree_set(self.template.optimiser, count=np.asarray(self.count, np.int32))
        parts = {"trace": self.m} if self.v is None else {"mu": self.m, "nu": self.v}
        for name, flat in parts.items():
            if flat is not None:
                optimiser = with_part(optimiser, name, unflattened(flat, params))
        ema = None if self.ema is None else unflattened(self.ema, params)
        return State(params=unflattened(self.params, params), optimiser=optimiser, ema=ema)


def is_absent(leaf: Any) -> bool:
    return isinstance(leaf, optax.MaskedNode)


def leaves_of(tree: Any) -> list[Any]:
    """One for each parameter, also where a group has none of it."""
    return jax.tree.leaves(tree, is_leaf=is_absent)


def with_part(optimiser: Any, name: str, whole: Any) -> Any:
    """The optimiser's state with its memory set, each group's own."""
    for path, tree in optax.tree_utils.tree_get_all_with_path(optimiser, name):
        own = jax.tree.map(lambda old, new: old if is_absent(old) else new, tree, whole, is_leaf=is_absent)
        here = lambda at, _, path=path: at == path  # noqa: E731
        optimiser = optax.tree_utils.tree_set(optimiser, here, **{name: own})
    return optimiser


def flattened(tree: Any) -> np.ndarray:
    """A copy of all leaves, one after the other."""
    return np.concatenate([np.asarray(leaf, np.float32).ravel() for leaf in jax.tree.leaves(tree)])


def unflattened(flat: np.ndarray, like: Any) -> Any:
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([np.size(leaf) for leaf in leaves])
    parts = np.split(flat, ends[:-1])
    return jax.tree.unflatten(
        structure, [part.reshape(np.shape(leaf)) for part, leaf in zip(parts, leaves, strict=True)]
    )


class Spans(NamedTuple):
    """Parameters that lie side by side and are treated alike."""

    ends: np.ndarray  # int32
    factors: np.ndarray  # of the learning rate; 0: frozen
    decays: np.ndarray


def spans_of(recipe: Recipe) -> Spans:
    shapes, optimiser = param_shapes(recipe.network), recipe.learning
    leaves = jax.tree.leaves(shapes)
    shrinks = jax.tree.leaves(decayed(shapes)) if optimiser.decay == "matrices" else [True] * len(leaves)
    rates = {REST: 1.0, FROZEN: 0.0, **{str(i): group.rate for i, group in enumerate(optimiser.named)}}
    factors = [rates[label] for label in jax.tree.leaves(optimiser.labels(shapes))]
    decay = optimiser.weight_decay if optimiser.name == "adamw" else 0.0
    treated = [(factor, decay * shrink) for factor, shrink in zip(factors, shrinks, strict=True)]
    ends = np.cumsum([leaf.size for leaf in leaves])
    last = [i for i, now in enumerate(treated) if treated[i + 1 : i + 2] != [now]]
    kept = np.array([treated[i] for i in last], np.float32)
    return Spans(ends[last].astype(np.int32), *np.ascontiguousarray(kept.T))
