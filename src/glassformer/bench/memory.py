"""How much memory a training step of a language model on a long text takes, by the way it attends.

Each way trains in a process of its own, with the jax engine on all cores. Its first step compiles and counts for
nothing. Then freed memory is given back, the kernel's mark of the most memory that the process ever had is set back,
and what the next step adds to the process at rest is what it took: patterns, caches, gradients and all. Linux only.
"""

import ctypes
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from glassformer.errors import EngineError

SETTLE = 2.0  # seconds in which XLA's threads give back what the first step had
STATUS, MARK = Path("/proc/self/status"), Path("/proc/self/clear_refs")
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "plain+checkpoint": {"checkpoint": True},
    "blockwise": {"attend": "blockwise"},
    "blockwise+checkpoint": {"attend": "blockwise", "checkpoint": True},
    "banded+checkpoint": {"attend": "banded", "window": 256, "checkpoint": True},
    "linear+checkpoint": {"attend": "linear", "checkpoint": True},
}


@dataclass(frozen=True)
class Sizes:
    tokens: int = 8192
    width: int = 64
    heads: int = 2
    depth: int = 2
    vocabulary: int = 256


@dataclass(frozen=True)
class Result:
    way: str
    megabytes: float  # that a step adds to the process at rest
    seconds: float  # of a step
    loss: float  # of the first step


def measured(way: str, sizes: Sizes) -> Result:
    """In a process of its own."""
    if not MARK.exists():
        raise EngineError(f"bench memory: {MARK} is not here; the peak of a process is measured on Linux only")
    asked = json.dumps({"way": way, "sizes": asdict(sizes)})
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "glassformer.bench.memory", asked]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        raise EngineError(f"bench memory: {way} could not be measured: {why}")
    return Result(**json.loads(done.stdout.splitlines()[-1]))


def measure(way: str, sizes: Sizes) -> Result:
    """In this process, whose memory it is."""
    from glassformer.bench.training import jax_training, random_samples

    recipe = recipe_for(way, sizes)
    train = jax_training(recipe, random_samples(recipe, 1), initial(recipe.model))
    loss = float(train()[0])
    time.sleep(SETTLE)
    ctypes.CDLL(None).malloc_trim(0)
    before = status("VmRSS")
    MARK.write_text("5")  # sets VmHWM back to what the process has now
    start = time.perf_counter()
    train()
    seconds = time.perf_counter() - start
    return Result(way, (status("VmHWM") - before) / 1024, seconds, loss)


def recipe_for(way: str, sizes: Sizes) -> Any:
    from glassformer.models import GPT, Text
    from glassformer.train.recipe import Recipe, Training
    from glassformer.train.settings import from_plain, to_plain
    from glassformer.train.tasks import NextToken

    text = Text(sizes.vocabulary, sizes.tokens)
    model = GPT(text, sizes.width, 4 * sizes.width, sizes.heads, sizes.depth)
    model = from_plain(GPT, {**to_plain(model), **WAYS[way]})
    return Recipe(model=model, task=NextToken(), training=Training(batch=1))


def initial(model: Any) -> Any:
    import jax

    return model.init(jax.random.key(0))


def status(name: str) -> int:
    """In kilobytes."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1])


def main() -> None:
    asked = json.loads(sys.argv[1])
    print(json.dumps(asdict(measure(asked["way"], Sizes(**asked["sizes"])))))


if __name__ == "__main__":
    main()
