"""Random numbers of a run. `threefry`: drawn afresh from (seed, epoch), so nothing has to be remembered.
`xorshift`: one small generator that runs on from initialisation into every shuffle, to repeat published runs exactly.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

import jax
import numpy as np

from glassformer.errors import CheckpointError, SettingError
from glassformer.layers.contract import Layer, param_shapes
from glassformer.layers.positions import Positions, Uniform, Xavier
from glassformer.names import named_leaves, with_leaves
from glassformer.structure import structure
from glassformer.train.limits import bytes_of

MASK = (1 << 64) - 1
LARGE = 1 << 26  # bytes of parameters


class Order(Protocol):
    """Where the first weights and the order of the training samples come from."""

    def init(self, model: Layer) -> Any: ...
    def shuffled(self, epoch: int, count: int) -> np.ndarray: ...
    def current(self, epoch: int, count: int) -> np.ndarray: ...
    def state(self) -> dict[str, np.ndarray]: ...
    def restore(self, state: dict[str, np.ndarray]) -> None: ...


@lru_cache(maxsize=64)
def compiled_init(model: Layer, platform: str) -> Callable[[Any], Any]:
    """Compiled once for all seeds of a model."""
    return jax.jit(model.init, compiler_options=quickly(platform))


def quickly(platform: str) -> dict[str, Any] | None:
    """For what is run a few times: on a CPU, compiling it well would take three times as long as all else about it."""
    return {"xla_backend_optimization_level": 0} if platform == "cpu" else None


def platform_here() -> str:
    """Where what is called now is computed."""
    device: Any = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    return jax.default_backend() if device is None else device.platform


@lru_cache(maxsize=32)  # of a study's runs, many have the same seed
def permutation(seed: int, epoch: int, count: int) -> np.ndarray:
    order = np.random.default_rng((seed, epoch)).permutation(count).astype(np.int32)
    order.flags.writeable = False
    return order


class Threefry:
    """JAX's own keys for weights, NumPy's PCG64 for the order of the samples."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def init(self, model: Layer) -> Any:
        key = jax.random.key(self.seed)
        if bytes_of(param_shapes(model)) > LARGE:  # array by array: one program for all takes minutes to compile
            return model.init(key)
        return compiled_init(model, platform_here())(key)

    def shuffled(self, epoch: int, count: int) -> np.ndarray:
        """The order of this epoch. It depends on nothing that came before."""
        return permutation(self.seed, epoch, count)

    current = shuffled  # of an epoch that is taken up in the middle

    def state(self) -> dict[str, np.ndarray]:
        return {}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        pass


class Xorshift:
    """64-bit xorshift; a draw is the high 32 bits. The order of one epoch is shuffled further into the next."""

    def __init__(self, seed: int) -> None:
        self.x = seed or 0x9E3779B97F4A7C15
        self.order: np.ndarray | None = None

    def draw(self) -> int:
        x = self.x
        x ^= (x << 13) & MASK
        x ^= x >> 7
        x ^= (x << 17) & MASK
        self.x = x
        return x >> 32

    def uniform(self, shape: tuple[int, ...], limit: float) -> np.ndarray:
        """Uniform in ±limit, row by row, in float32 throughout."""
        unit = np.array([self.draw() >> 8 for _ in range(int(np.prod(shape)))], np.float32) / np.float32(1 << 24)
        low, high = np.float32(-limit), np.float32(limit)
        return (low + (high - low) * unit).reshape(shape)

    def init(self, model: Layer) -> Any:
        """Patch matrix, positions where they are random, q, k, v, the two feed-forward matrices, the classifier."""
        params = Threefry(0).init(model)  # for everything that is not drawn: biases, fixed starts
        leaves = named_leaves(params)
        names = ["patch.w", "positions.pos", "attn.w_q", "attn.w_k", "attn.w_v", "ff.w_up", "ff.w_down", "head.w"]
        if not set(names) <= leaves.keys():
            raise SettingError(f"rng: xorshift repeats runs of patch_attention; this model is {type(model).__name__}")
        limits = {name: float(np.sqrt(np.float32(6.0) / np.float32(sum(leaves[name].shape)))) for name in names}
        positions = structure(model).find("positions").layer
        start = positions.start if isinstance(positions, Positions) else None
        if isinstance(start, Uniform):
            limits["positions.pos"] = start.limit
        elif not isinstance(start, Xavier):
            del limits["positions.pos"]
        return with_leaves(params, {name: self.uniform(leaves[name].shape, limit) for name, limit in limits.items()})

    def shuffled(self, epoch: int, count: int) -> np.ndarray:
        if self.order is None:
            self.order = np.arange(count, dtype=np.int32)
        order = self.order.tolist()
        for i in range(count - 1, 0, -1):
            j = self.draw() % (i + 1)
            order[i], order[j] = order[j], order[i]
        self.order = np.array(order, np.int32)
        return self.order

    def current(self, epoch: int, count: int) -> np.ndarray:
        """The order of an epoch that is taken up in the middle: it was shuffled before it was saved."""
        return np.arange(count, dtype=np.int32) if self.order is None else self.order

    def state(self) -> dict[str, np.ndarray]:
        order = {} if self.order is None else {"order": self.order}
        return {"x": np.array([self.x], np.uint64), **order}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        if "x" not in state:
            raise CheckpointError("the saved state has no 'order.x', so the generator cannot go on where it stood")
        self.x = int(state["x"][0])
        self.order = state.get("order")


def make_order(kind: str, seed: int) -> Order:
    return Xorshift(seed) if kind == "xorshift" else Threefry(seed)
