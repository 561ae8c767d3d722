"""Where a run on a mesh of devices stands: every host writes what lies on its own devices, while training goes on.

The folder `state` of a run holds the last two states, each in a folder named by the number of its step and written by
`orbax-checkpoint`: one that was not finished has another name and is not seen. They are read onto any other mesh. Of
every array a checksum is kept that does not depend on how it is cut; what was damaged is left for the state before.
"""

import logging
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from glassformer.errors import CheckpointError, TrainingError
from glassformer.names import named_leaves, with_leaves
from glassformer.train import hosts
from glassformer.train.weights import FORMAT, must_match, refuse_newer

STATES = "state"
DAMAGED = ".damaged"  # behind the name of a state that could not be read
KEPT = 2


def steps_of(folder: Path) -> list[int]:
    """The finished states in a run folder, by their steps; the last one first."""
    found = folder / STATES
    names = [one.name for one in found.iterdir()] if found.is_dir() else []
    return sorted((int(name) for name in names if name.isdecimal()), reverse=True)


class ShardedStates:
    def __init__(self, folder: Path) -> None:
        try:
            import orbax.checkpoint as orbax
        except ImportError:
            raise TrainingError(
                "a run on a mesh of devices keeps its state with orbax-checkpoint, which is missing; "
                "pip install 'glassformer[scale]'"
            ) from None
        self.path, self.args = (folder / STATES).absolute(), orbax.args
        options = orbax.CheckpointManagerOptions(max_to_keep=KEPT, enable_async_checkpointing=True)
        handlers = {"arrays": orbax.StandardCheckpointHandler(), "about": orbax.JsonCheckpointHandler()}
        self.manager = orbax.CheckpointManager(self.path, options=options, item_handlers=handlers)

    def save(self, step: int, state: Any, about: dict[str, Any]) -> None:
        """Copied from the devices now, written while training goes on."""
        leaves = named_leaves(state)
        if step in self.manager.all_steps():  # it was killed just after
            return
        checksums = checksums_of(leaves)
        arrays = {name: [leaf.shape, str(leaf.dtype), checksums[name]] for name, leaf in leaves.items()}
        about = {"format": FORMAT, "arrays": arrays, **about}
        both = self.args.Composite(arrays=self.args.StandardSave(leaves), about=self.args.JsonSave(about))
        self.manager.save(step, args=both, force=True)

    def wait(self) -> None:
        """Until everything is written; what went wrong is raised."""
        self.manager.wait_until_finished()

    def load(self, like: Any, notice: Callable[[str], None]) -> tuple[Any, dict[str, Any]]:
        """The last good state, placed as the leaves of `like` say, and what was stored beside it."""
        steps, damaged = steps_of(self.path.parent), []
        for step in steps:
            try:
                found = self.load_step(step, like)
            except Damaged as error:
                damaged.append((step, error))
                continue
            for bad, error in damaged:
                notice(f"{self.path / str(bad)}: damaged ({error}); the state before it is taken")
                self.put_aside(bad)
            return found
        what = (
            f"none of its {len(steps)} states can be read ({damaged[0][1]})" if steps else "it holds no finished state"
        )
        raise CheckpointError(f"{self.path}: {what}; bring back a copy, or train anew into another folder")

    def load_step(self, step: int, like: Any) -> tuple[Any, dict[str, Any]]:
        path, expected = self.path / str(step), named_leaves(like)
        about = self.read(step, about=self.args.JsonRestore())["about"]
        try:
            refuse_newer(about["format"], path)
            kept = {name: jax.ShapeDtypeStruct(shape, dtype) for name, (shape, dtype, _) in about["arrays"].items()}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise Damaged(f"its list of arrays is incomplete: {error}") from None
        must_match(expected, kept, path)
        arrays = self.read(step, arrays=self.args.StandardRestore(expected))["arrays"]
        for name, found in checksums_of(arrays).items():
            if found != about["arrays"][name][2]:
                raise Damaged(f"the checksum of {name!r} is not the one that was written down")
        return with_leaves(like, arrays), about

    def read(self, step: int, **items: Any) -> Any:
        log, read, wrong = logging.getLogger("absl"), None, ""
        level = log.level
        log.setLevel(logging.CRITICAL)  # what is wrong is said once, here
        try:
            read = self.manager.restore(step, args=self.args.Composite(**items))
        except Exception as error:  # several libraries have a part in it
            wrong = str(error).strip().partition("\n")[0][:200] or type(error).__name__
            ignore_stragglers()
        finally:
            log.setLevel(level)
        if hosts.of_all(bool(wrong)).any():
            raise Damaged(wrong or "another host cannot read its part")
        return read

    def put_aside(self, step: int) -> None:
        """The same step will be written again."""
        if hosts.is_first():
            (self.path / str(step)).rename(self.path / f"{step}{DAMAGED}")
        hosts.of_all(step)  # not before it is gone
        self.manager.reload()


def ignore_stragglers() -> None:
    """What else TensorStore was reading fails later, and nobody waits for it any more."""
    before = sys.unraisablehook

    def unless_of_it(failed: Any) -> None:
        if not any(words in str(failed.exc_value) for words in ("Event loop is closed", "TensorStore")):
            before(failed)

    sys.unraisablehook = unless_of_it


class Damaged(Exception):  # noqa: N818
    """A state that cannot be read, or is not what was written."""


def checksums_of(leaves: dict[str, jax.Array]) -> dict[str, int]:
    """One after the other: independent programs that talk to other hosts may wait for each other for ever."""
    return {name: int(checksum(leaf)) for name, leaf in leaves.items()}


@jax.jit  # one array each: a model has many, and few shapes
def checksum(leaf: jax.Array) -> jax.Array:
    """A sum modulo 2^32 over hashes of the elements' bits and places: the same however the array is cut."""
    if leaf.dtype == jnp.bool_:
        leaf = leaf.astype(jnp.uint8)
    width = min(leaf.dtype.itemsize, 4)
    bits = lax.bitcast_convert_type(leaf, jnp.dtype(f"uint{8 * width}")).astype(jnp.uint32)
    place = jnp.zeros(bits.shape, jnp.uint32)
    for axis in range(bits.ndim):
        stride = np.uint32(math.prod(bits.shape[axis + 1 :]) & 0xFFFFFFFF)
        place += lax.broadcasted_iota(jnp.uint32, bits.shape, axis) * stride
    return jnp.sum(mixed(bits ^ mixed(place)), dtype=jnp.uint32)


def mixed(x: jax.Array) -> jax.Array:
    """Every bit of a 32-bit number changes about half of those of its hash."""
    x = (x ^ (x >> 16)) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * np.uint32(0x846CA68B)
    return x ^ (x >> 16)


def to_json(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: [str(array.dtype), array.tolist()] for name, array in arrays.items()}


def of_json(plain: Any, where: Path) -> dict[str, np.ndarray]:
    try:
        return {name: np.array(values, dtype) for name, (dtype, values) in plain.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise CheckpointError(f"{where}: its random state is incomplete ({error})") from None
