"""Several hosts that train one run: processes that are started with the same command, each with devices of its own.

JAX makes one program for the devices of all (`jax.distributed`). The first host alone writes the run folder; what has
to be the same everywhere, it says to the others. With a single process each function here gives back what it is given.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from glassformer.errors import FileError, SettingError

SEEN = 20.0  # seconds after which what another host has written is seen, in a file system over a network


def count() -> int:
    return jax.process_count()


def is_first() -> bool:
    """Whether this host writes the run folder and says how training goes."""
    return jax.process_index() == 0


def named() -> str:
    return f"host {jax.process_index()} of {jax.process_count()}"


def of_first(make: Callable[[], Any]) -> Any:
    """What the first host has made, as JSON can hold it; the others make nothing."""
    if count() == 1:
        return make()
    from jax.experimental.multihost_utils import broadcast_one_to_all

    said = np.frombuffer(json.dumps(make()).encode(), np.uint8) if is_first() else np.zeros(0, np.uint8)
    length = int(broadcast_one_to_all(np.int32(len(said))))
    return json.loads(
        bytes(broadcast_one_to_all(np.resize(said, length) if is_first() else np.zeros(length, np.uint8)))
    )


def of_all(values: Any) -> np.ndarray:
    """The values of every host, (hosts, …)."""
    if count() == 1:
        return np.asarray(values)[None]
    from jax.experimental.multihost_utils import process_allgather

    return np.asarray(process_allgather(np.asarray(values)))


def must_agree(what: dict[str, Any]) -> None:
    """Refuse hosts that were started with something else than the first; the names of `what` are said."""
    first = of_first(lambda: what)
    plain = json.loads(json.dumps(what))
    differs = [name for name in {**first, **plain} if first.get(name) != plain.get(name)]
    wrong = [index for index, different in enumerate(of_all(bool(differs))) if different]
    advice = "start the same command on every host, with the same data and the same release"
    if differs:
        name = differs[0]
        raise SettingError(
            f"{named()}: {name} is {plain.get(name)!r}, and on host 0 it is {first.get(name)!r}; {advice}"
        )
    if wrong:
        raise SettingError(f"host {wrong[0]} does not have the settings of host 0 (it says which); {advice}")


def must_see(path: Path) -> None:
    """Refuse a folder that the first host has written to and another cannot see."""
    of_first(lambda: None)  # it is written now
    deadline = time.monotonic() + SEEN
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    blind = [index for index, seen in enumerate(of_all(path.exists())) if not seen]
    if blind:
        raise FileError(
            f"{path}: host 0 has written it, and host {blind[0]} does not see it; the run folder has to lie in a file "
            "system that all hosts share: choose another with --out"
        )


def whole(tree: Any) -> Any:
    """Arrays that lie on the devices of several hosts, as NumPy's, on every host; leaf by leaf."""

    def gathered(leaf: Any) -> np.ndarray:
        if leaf.is_fully_addressable or leaf.is_fully_replicated:
            return np.asarray(leaf)
        from jax.experimental.multihost_utils import process_allgather

        return np.asarray(process_allgather(leaf, tiled=True))

    return jax.tree.map(gathered, tree) if count() > 1 else jax.device_get(tree)
