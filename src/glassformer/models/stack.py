"""A stack of equal blocks, one after the other: unrolled, or as one compiled block that is scanned over all.

params a tuple   unrolled: each block has its name, `blocks.0`, and its cache in a tuple; XLA compiles every block
params Stacked   scanned: every array of a block's params and cache has a first axis of blocks; XLA compiles one block

The same numbers either way. A tuple is what everybody knows: names, files, other engines. The jax engine may train
Stacked params (`engine.scan`): `stacked` makes them, `unstacked` takes them apart. A visitor sees a tuple's names.

What all blocks read alike (T5's bias, a memory) comes in beside the residual stream, in a NamedTuple whose field `x` is
the stream: the gradients that the blocks return for it are summed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from glassformer.errors import SettingError
from glassformer.layers import Layer
from glassformer.names import at, is_visited
from glassformer.shapes import Array, Float, Key


class Stacked(NamedTuple):
    """The params of all blocks, or their caches, in the form of one: each array has a first axis of blocks."""

    unscoped: Any


@dataclass(frozen=True)
class Stack:
    block: Layer

    def forward(
        self, params: tuple[Any, ...] | Stacked, x: Any, *, keys: Sequence[Key | None], **keywords: Any
    ) -> tuple[Float[Array, "B T C"], Any]:
        """One key for each block; the keywords are for all of them."""
        resid, shared = apart(x)
        if isinstance(params, Stacked) and not is_visited():
            return self.scan(params, resid, shared, keys, keywords)
        blocks = []
        for i, (weights, key) in enumerate(zip(as_tuple(params), keys, strict=True)):
            given = together(resid, shared)
            resid, block = at(f"blocks.{i}", self.block).forward(weights, given, key=key, **keywords)
            blocks.append(block)
        return resid, tuple(blocks)

    def backward(
        self, params: tuple[Any, ...] | Stacked, cache: Any, dy: Float[Array, "B T C"]
    ) -> tuple[Any, tuple[Any, ...] | Stacked]:
        if isinstance(cache, Stacked):
            return self.scan_backward(params, cache, dy)
        dresid, dshared, dblocks = dy, None, []
        for i, weights in reversed([*enumerate(as_tuple(params))]):
            dx, dblock = at(f"blocks.{i}", self.block).backward(weights, cache[i], dresid)
            dresid, dread = apart(dx)
            dshared = dread if dshared is None else jax.tree.map(jnp.add, dshared, dread)
            dblocks.insert(0, dblock)
        return together(dresid, dshared), as_stack(dblocks) if isinstance(params, Stacked) else tuple(dblocks)

    def scan(self, params: Stacked, resid: Any, shared: Any, keys: Any, keywords: Any) -> tuple[Any, Stacked]:
        def one(resid: Any, now: tuple[Any, Any]) -> tuple[Any, Any]:
            weights, key = now
            return at("blocks", self.block).forward(weights, together(resid, shared), key=key, **keywords)

        y, cache = lax.scan(one, resid, (params.unscoped, None if keys[0] is None else jnp.stack(keys)))
        return y, Stacked(cache)

    def scan_backward(self, params: Any, cache: Stacked, dy: Any) -> tuple[Any, Stacked]:
        def one(so_far: tuple[Any, Any], now: tuple[Any, Any]) -> tuple[Any, Any]:
            dresid, dshared = so_far
            dx, dblock = at("blocks", self.block).backward(*now, dresid)
            dresid, dread = apart(dx)
            return (dresid, jax.tree.map(jnp.add, dshared, dread)), dblock

        blocks = params.unscoped, cache.unscoped
        weights, kept = block_shapes(blocks)
        dx, _ = jax.eval_shape(self.block.backward, weights, kept, dy)
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), apart(dx)[1])
        (dresid, dshared), dparams = lax.scan(one, (dy, nothing), blocks, reverse=True)
        return together(dresid, dshared), Stacked(dparams)


def apart(x: Any) -> tuple[Any, Any]:
    """The residual stream, and what else a block reads, or None."""
    return (x.x, x._replace(x=None)) if isinstance(x, tuple) else (x, None)  # pyright: ignore[reportAttributeAccessIssue]


def together(resid: Any, shared: Any) -> Any:
    return resid if shared is None else shared._replace(x=resid)


def stacked(tree: Any) -> Any:
    """Params, or a state of them, with every field that is called `blocks` stacked. Blocks must be alike."""
    if isinstance(tree, dict):
        return {name: stacked(value) for name, value in tree.items()}
    if not isinstance(tree, tuple):
        return tree
    if type(tree) is tuple:
        return tuple(map(stacked, tree))
    fields = zip(tree._fields, tree, strict=True)  # pyright: ignore[reportAttributeAccessIssue]
    return type(tree)(*(as_stack(value) if name == "blocks" else stacked(value) for name, value in fields))


def unstacked(tree: Any) -> Any:
    """With the blocks in tuples again; what was not stacked stays as it is."""
    return jax.tree.map(lambda node: as_tuple(node) if is_stacked(node) else node, tree, is_leaf=is_stacked)


def is_stacked(node: Any) -> bool:
    return isinstance(node, Stacked)


def as_stack(blocks: Sequence[Any] | Stacked) -> Stacked:
    """Of arrays of NumPy they are NumPy's."""
    if isinstance(blocks, Stacked):
        return blocks
    if len({jax.tree.structure(block) for block in blocks}) > 1:
        raise SettingError(
            "engine.scan: the blocks are not alike, and one program is to serve all; set engine.scan=false"
        )
    return Stacked(
        jax.tree.map(lambda *leaves: (np if isinstance(leaves[0], np.ndarray) else jnp).stack(leaves), *blocks)
    )


def as_tuple(blocks: tuple[Any, ...] | Stacked) -> tuple[Any, ...]:
    if not isinstance(blocks, Stacked):
        return blocks
    leaves = jax.tree.leaves(blocks)
    if leaves and isinstance(leaves[0], jax.ShapeDtypeStruct):
        return (block_shapes(blocks.unscoped),) * leaves[0].shape[0]
    depth = len(leaves[0]) if leaves else 1
    return tuple(jax.tree.map(lambda leaf, i=i: leaf[i], blocks.unscoped) for i in range(depth))


def block_shapes(tree: Any) -> Any:
    """Of one block, from stacked arrays."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), tree)


def of_tuple(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`function` tells something of each parameter, by its name or shape: asked of stacked params as of a tuple."""

    def of_any(params: Any) -> Any:
        shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), params)

        def said_of(node: Any, said: Any) -> Any:
            return agreed(said) if is_stacked(node) else said

        return jax.tree.map(said_of, params, function(unstacked(shapes)), is_leaf=is_stacked)

    return of_any


def agreed(said: tuple[Any, ...]) -> Stacked:
    if any(one != said[0] for one in said):
        raise SettingError(
            "engine.scan: all blocks are trained as one, and optimiser.groups, freeze or tune treats them differently; "
            "name all of them, blocks.*, or set engine.scan=false"
        )
    return Stacked(said[0])
