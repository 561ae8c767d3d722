"""One image, one answer, one thread: what a call from Python costs, from an array of bytes to an array of logits.

All sides have their weights ready and compute the same logits; onnxruntime runs what `export --to onnx` writes.
PyTorch's best mode is also timed from a tensor of patches that were scaled and cut beforehand, to a tensor: less work
than ours does, and the fewest calls it can need.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from glassformer.bench import peers
from glassformer.bench.measure import Turns
from glassformer.bench.training import NATIVE, comparable, modes, native_engine, on_cpu, random_samples
from glassformer.errors import EngineError
from glassformer.hub.onnx_file import onnx_model, onnxruntime_version, session
from glassformer.train.presets import preset
from glassformer.train.recipe import Recipe

PRESETS = ("vit-pico", "vit-nano", "vit-micro", "vit-tiny")
TURN = 0.1  # seconds a turn lasts at least: thousands of calls of the smallest model
PATCHES = " from patches"
ONNXRUNTIME = "onnxruntime"

Answer = Callable[[np.ndarray], np.ndarray]  # one image, (rows, columns, channels) of bytes -> logits, (classes)


@dataclass(frozen=True)
class Result:
    preset: str
    call_us: dict[str, float]  # native; onnxruntime; PyTorch's modes, and the same `from patches`
    compile_s: dict[str, float]  # what the first call took longer
    spread: float
    without_native: str | None = None  # why it was left out

    @property
    def best(self) -> str | None:
        """PyTorch's fastest mode from bytes."""
        return self.fastest(peers.MODES)

    @property
    def best_from_patches(self) -> str | None:
        return self.fastest(tuple(mode + PATCHES for mode in peers.MODES))

    def fastest(self, names: tuple[str, ...]) -> str | None:
        return min((name for name in names if name in self.call_us), key=self.call_us.__getitem__, default=None)

    @property
    def ratios(self) -> dict[str, float | None]:
        """A peer's time over ours."""
        return {
            "native_to_torch": self.ratio(self.best),
            "native_to_torch_from_patches": self.ratio(self.best_from_patches),
            "native_to_onnxruntime": self.ratio(ONNXRUNTIME),
        }

    def ratio(self, other: str | None) -> float | None:
        is_measured = other in self.call_us and NATIVE in self.call_us
        return self.call_us[other] / self.call_us[NATIVE] if other and is_measured else None

    def plain(self) -> dict[str, Any]:
        best = {"best": self.best, "best_from_patches": self.best_from_patches}
        return dataclasses.asdict(self) | best | {"ratios": self.ratios}


class Contest:
    """One preset: the native engine, onnxruntime and every mode of PyTorch that runs here, ready to answer in turns."""

    def __init__(self, name: str, least: float = TURN, *, with_peers: bool = True) -> None:
        self.name, self.without_native = name, None
        recipe = comparable(preset(name))
        with on_cpu():
            params = jax.tree.map(np.array, recipe.model.init(jax.random.key(0)))
            image = random_samples(recipe, 1).images[0]
            contestants: dict[str, Callable[[], Any]] = {}
            try:
                contestants[NATIVE] = partial(native_answering(recipe, params), image)
            except EngineError as error:
                self.without_native = str(error)
            if with_peers and onnxruntime_version():
                contestants[ONNXRUNTIME] = partial(onnxruntime_answering(recipe, params), image)
            self.has_peers = with_peers and bool(modes())
            for mode in modes() if with_peers else ():
                contestants |= torch_contestants(recipe, params, mode, image)
        self.turns = Turns(contestants, least)

    def run(self, rounds: int) -> Iterator[int]:
        """Measure; yields after each round, the first of which compiles."""
        with inference() if self.has_peers else contextlib.nullcontext():
            yield from self.turns.run(rounds)

    def result(self) -> Result:
        return Result(
            preset=self.name,
            call_us={name: seconds * 1e6 for name, seconds in self.turns.medians().items()},
            compile_s=self.turns.compiling(),
            spread=self.turns.spread(),
            without_native=self.without_native,
        )


def native_answering(recipe: Recipe, params: Any) -> Answer:
    return native_engine(recipe, random_samples(recipe, 1), threads=1).answering(params)


def onnxruntime_answering(recipe: Recipe, params: Any) -> Answer:
    runtime = session(onnx_model(recipe.model, params).SerializeToString())
    return lambda image: runtime.run(None, {"images": image[None]})[0][0]


def torch_contestants(recipe: Recipe, params: Any, mode: str, image: np.ndarray) -> dict[str, Callable[[], Any]]:
    import torch

    from_bytes, from_patches = peers.answering(recipe.model, params, mode)
    patches = torch.tensor(np.asarray(peers.cut(recipe.model, image[None])))
    return {
        mode: lambda: from_bytes(torch.from_numpy(image)).numpy()[0],
        mode + PATCHES: lambda: from_patches(patches),
    }


def inference() -> Any:
    import torch

    return torch.inference_mode()
