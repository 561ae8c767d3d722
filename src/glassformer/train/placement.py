"""Placement: where the arrays of a training run lie on a mesh of devices. It follows from the axis letters.

data     the batch is split; parameters are on every device
fsdp     the batch is split, and so are parameters and what the optimiser remembers; a part is gathered while at work
model    tensor parallel: heads, the width of the feed-forward layer and the vocabulary are split

The Params of a layer name the axes of every array, `Float[Array, "C A"]`; RULES say which letter lies on which axis of
the mesh. An axis whose size does not divide is whole on every device, and so is an array whose axes have no letters.
JAX's partitioner does the rest: it cuts the compiled program and puts in the communication.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache, partial
from math import prod
from typing import Any, get_args, get_type_hints

import jax
import numpy as np
from jax import lax
from jax.core import Tracer
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from glassformer.errors import SettingError
from glassformer.layers import Checkpoint
from glassformer.layers.sharding import BATCH
from glassformer.models.model import Network
from glassformer.names import Call, named_leaves, nearest, watching, with_leaves
from glassformer.structure import structure

AXES = ("data", "fsdp", "model")
# Of each mesh axis the letters that may lie on it (shapes.py): of an array's axes, the first that divides.
RULES = {
    "model": ("A", "E", "F", "H", "V"),
    "fsdp": ("C", "I", "O", "F", "A", "E", "V", "M"),
}
SIDE_BY_SIDE = ("A", "E")  # heads of D each: they are cut between heads
LEAST_ROWS = 64  # of a table (V) on a device: BERT's two segments are not worth a reduction of activations
EXAMPLE = "such as data=4,model=2"
SIMULATE = "to try it out on a CPU, set XLA_FLAGS=--xla_force_host_platform_device_count={} before the command"


def parse_mesh(text: str) -> dict[str, int]:
    """The axes of a mesh and their sizes.

    >>> parse_mesh("data=4,model=2")
    {'data': 4, 'model': 2}
    """
    sizes: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, _, size = (word.strip() for word in part.partition("="))
        if name not in AXES:
            raise SettingError(
                f"engine.mesh: {name!r} is no axis of a mesh{nearest(name, list(AXES))}; "
                f"expected {', '.join(AXES)}, {EXAMPLE}"
            )
        if name in sizes:
            raise SettingError(f"engine.mesh: {name} came twice in {text!r}; expected each axis once, {EXAMPLE}")
        if not size.isdecimal() or not 1 <= int(size) < 1 << 20:
            raise SettingError(f"engine.mesh: {name} is {size!r}, expected a number of devices from 1, {EXAMPLE}")
        sizes[name] = int(size)
    return sizes


def letters_of(tree: Any, hint: Any = None) -> Any:
    """The axis letters of every array in a tree of NamedTuples, as their types declare them: "C A"; "" if they do not.

    >>> from glassformer.layers import LayerNorm, contract
    >>> letters_of(contract.param_shapes(LayerNorm(8)))
    Params(gain='C', bias='C')
    """
    if tree is None or jax.tree_util.all_leaves([tree]):
        return None if tree is None else written(hint)
    if isinstance(tree, tuple) and (fields := getattr(tree, "_fields", ())):
        hints = hints_of(type(tree))
        return type(tree)(*(letters_of(value, hints.get(name)) for name, value in zip(fields, tree, strict=True)))
    return jax.tree.map(letters_of, tree, is_leaf=lambda node: node is not tree)


@cache
def hints_of(cls: type) -> dict[str, Any]:
    try:
        return get_type_hints(cls)
    except (NameError, TypeError):  # written for the type checker alone
        return {}


def written(hint: Any) -> str:
    return next((one.dim_str for one in (hint, *get_args(hint)) if hasattr(one, "dim_str")), "")


@lru_cache(maxsize=64)
def head_widths(model: Network) -> tuple[int, ...]:
    """Every D in the model: the heads of what is called A or E are so wide."""
    found = set()
    for node in structure(model).walk():
        for letters, value in zip(*map(jax.tree.leaves, (letters_of(node.x), node.x)), strict=True):
            found |= {size for letter, size in zip(letters.split(), value.shape, strict=False) if letter == "D"}
    return tuple(sorted(found))


class Placement:
    """Where arrays lie, by their letters. Without devices it can still be asked."""

    def __init__(
        self, name: str, sizes: dict[str, int], head_widths: tuple[int, ...] = (), mesh: Mesh | None = None
    ) -> None:
        self.name, self.sizes, self.head_widths, self.mesh = name, sizes, head_widths, mesh
        self.batch_axes = tuple(axis for axis in BATCH if sizes.get(axis, 1) > 1)

    @property
    def batch_parts(self) -> int:
        """Into how many parts a batch is split."""
        return prod(self.sizes[axis] for axis in self.batch_axes)

    def must_split(self, batch: int) -> None:
        """Refuse a batch of which devices would have unequal parts."""
        parts = self.batch_parts
        if batch % parts:
            raise SettingError(
                f"engine.mesh: {self.name} splits a batch into {parts} parts, and training.batch is {batch}; "
                f"try --batch {-(-batch // parts) * parts}"
            )

    def divides(self, letter: str, size: int, axis: str) -> bool:
        """Over the model axis a layer works on its part: so heads are whole there, and tables not small."""
        parts = self.sizes.get(axis, 1)
        if axis == "model" and letter == "V" and size < LEAST_ROWS * parts:
            return False
        units = self.head_widths if axis == "model" and letter in SIDE_BY_SIDE else ()
        return size % parts == 0 and all(size % unit == 0 and size // unit % parts == 0 for unit in units)

    def stored(self, letters: str, shape: tuple[int, ...]) -> P:
        """Where a parameter lies, or its gradient, or what the optimiser remembers of it."""
        return self.spec(letters, shape, ("model", "fsdp"))

    def at_use(self, letters: str, shape: tuple[int, ...]) -> P:
        """Where a parameter or an activation lies while a layer is at work: what only fsdp splits is whole."""
        return self.spec(letters, shape, ("model",))

    def spec(self, letters: str, shape: tuple[int, ...], axes: tuple[str, ...]) -> P:
        words = [word.lstrip("#") for word in letters.split()]
        if words and words[0].startswith("*"):  # any number of axes, the batch first
            words = ["B", *[""] * (len(shape) - len(words)), *words[1:]]
        words = [""] * (len(shape) - len(words)) + words  # of stacked layers there is an axis in front
        found: list[Any] = [None] * len(shape)
        if len(words) > len(shape):  # not the array that was declared
            return P(*found)
        for axis in axes:
            free = [i for i, place in enumerate(found) if place is None]
            fits = [
                i for letter in RULES[axis] for i in free if words[i] == letter and self.divides(letter, shape[i], axis)
            ]
            if fits and self.sizes.get(axis, 1) > 1:
                found[fits[0]] = axis
        if words[:1] == ["B"] and self.batch_axes and shape[0] % self.batch_parts == 0:
            found[0] = self.batch_axes
        return P(*found)

    def bytes_on_device(self, shape: tuple[int, ...], spec: Any, itemsize: int) -> int:
        return prod(shape) * itemsize // prod(self.sizes[axis] for axis in spec if axis)

    def bytes_stored(self, tree: Any) -> int:
        """Of parameters, or a state of them, on one device."""
        leaves = zip(*map(jax.tree.leaves, (tree, letters_of(tree))), strict=True)
        return sum(
            self.bytes_on_device(leaf.shape, self.stored(letters, leaf.shape), leaf.dtype.itemsize)
            for leaf, letters in leaves
        )

    def shardings(self, tree: Any) -> Any:
        """Of parameters, or a state of them."""
        return jax.tree.map(
            lambda leaf, letters: self.sharding(self.stored(letters, leaf.shape)), tree, letters_of(tree)
        )

    def sharding(self, spec: P) -> NamedSharding:
        assert self.mesh is not None, "only asked where there are devices"
        return NamedSharding(self.mesh, spec)

    def put(self, tree: Any) -> Any:
        """Parameters, or a state of them, onto the devices; also where they belong to several processes."""
        return jax.tree.map(put, tree, self.shardings(tree))

    def put_whole(self, tree: Any) -> Any:
        """On every device."""
        return jax.tree.map(lambda leaf: put(leaf, self.sharding(P())), tree)

    def from_rows(self, shape: tuple[int, ...], read: Callable[[slice], np.ndarray]) -> jax.Array:
        """An array whose first axis is split as a batch is; every host reads only the rows of its devices."""
        splits = self.batch_axes and shape[0] % self.batch_parts == 0
        sharding = self.sharding(P(self.batch_axes) if splits else P())
        return jax.make_array_from_callback(shape, sharding, lambda index: read(index[0] if index else slice(None)))

    def everywhere(self, leaf: Any) -> Any:
        """Inside a compiled program: whole on every device."""
        return lax.with_sharding_constraint(leaf, self.sharding(P()))

    def split(self, tree: Any) -> Any:
        """Inside a compiled program: arrays of which the first axis is the batch, split over it."""

        def constrained(leaf: Any) -> Any:
            splits = self.batch_axes and leaf.ndim and leaf.shape[0] % self.batch_parts == 0
            spec = P(self.batch_axes, *[None] * (leaf.ndim - 1)) if splits else P()
            return lax.with_sharding_constraint(leaf, self.sharding(spec))

        return jax.tree.map(constrained, tree)

    def keep(self, tree: Any) -> Any:
        """Inside a compiled program: parameters, gradients, a state, where they are stored."""
        return jax.tree.map(lax.with_sharding_constraint, tree, self.shardings(tree))

    @contextmanager
    def working(self) -> Iterator[None]:
        """While a step is traced: with fsdp every layer gathers its parameters when it is at work, and again in
        backward, so that none is kept in between."""
        if self.sizes.get("fsdp", 1) == 1:
            yield
            return
        with watching(partial(self.run, [])):
            yield

    def run(self, held: list[Any], call: Call) -> Any:
        """`held` is what the layers around hold already: a layer may be another one with the same parameters."""

        def gather(leaf: Any, letters: str) -> Any:
            if any(leaf is one for one in held):
                return leaf
            return lax.with_sharding_constraint(leaf, self.sharding(self.at_use(letters, leaf.shape)))

        def reduce(leaf: Any, letters: str) -> Any:
            """Whole, and then a part of it: the compiler makes one reduction of both."""
            stored = self.sharding(self.stored(letters, leaf.shape))
            return lax.with_sharding_constraint(gather(leaf, letters), stored)

        # a checkpointed block goes twice through its inside in backward, with the same weights
        own = own_arrays if not isinstance(call.layer, Checkpoint) else all_arrays
        params, given = call.params, call.given
        is_new = any(all(leaf is not one for one in held) for leaf in own(params).values())
        reduces = call.direction == "backward" and is_new
        if reduces:
            params, given = lax.optimization_barrier((params, given))  # not before dy is there
        elif call.direction == "forward":  # a table may be among what comes in
            given = over(own_arrays, gather, given)
        params = over(own, gather, params)
        inside = [*own(params).values()]
        held += inside
        result, other = call._replace(params=params, given=given).run()
        del held[len(held) - len(inside) :]
        return result, over(own, reduce, other) if reduces else other


def all_arrays(tree: Any) -> dict[str, Any]:
    """By name."""
    return named_leaves(tree)


def own_arrays(tree: Any) -> dict[str, Any]:
    """Those that a NamedTuple holds itself; those of its parts are their layers' concern."""
    fields = zip(tree._fields, tree, strict=True) if hasattr(tree, "_fields") else ()
    return {name: one for name, one in fields if isinstance(one, jax.Array)}


def over(arrays: Callable[[Any], dict[str, Any]], function: Callable[[Any, str], Any], tree: Any) -> Any:
    """The same tree with these arrays replaced: function(array, its letters)."""
    letters = named_leaves(letters_of(tree))
    return with_leaves(tree, {name: function(one, letters[name]) for name, one in arrays(tree).items()})


def put(leaf: Any, sharding: NamedSharding) -> jax.Array:
    if isinstance(leaf, Tracer):  # only shapes are asked for
        return leaf
    if isinstance(leaf, jax.Array) and (sharding.is_fully_addressable or not leaf.is_fully_addressable):
        return jax.device_put(leaf, sharding)
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(put(jax.random.key_data(leaf), sharding), impl=jax.random.key_impl(leaf))
    here = np.asarray(leaf)
    return jax.make_array_from_callback(here.shape, sharding, lambda index: here[index])


@lru_cache(maxsize=16)
def placement_for(mesh: str, model: Network) -> Placement | None:
    """On this machine's devices; None where everything is on one."""
    sizes = parse_mesh(mesh)
    if not sizes:
        return None
    wanted, devices = prod(sizes.values()), jax.devices()
    if wanted > len(devices):
        raise SettingError(
            f"engine.mesh: {mesh} needs {wanted} devices, and there are {len(devices)}; make it smaller, or "
            + SIMULATE.format(wanted)
        )
    several = jax.process_count()
    if wanted < len(devices) and several > 1:
        raise SettingError(
            f"engine.mesh: {mesh} has {wanted} devices, and the {several} processes have {len(devices)}: "
            "with several processes a mesh holds all of them"
        )
    shape = tuple(sizes.get(axis, 1) for axis in AXES)
    grid = jax.make_mesh(shape, AXES, axis_types=(AxisType.Auto,) * len(AXES), devices=devices[:wanted])
    return Placement(mesh, sizes, head_widths(model), grid)
