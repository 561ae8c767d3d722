"""Training a GPT-2 on a GPU beside the same in PyTorch: compiled, with its fused attention and its fused AdamW.

Each side is a process of its own, for two frameworks do not share a GPU's memory well; they take turns. Ours is the
loop of `glassformer train` with all that it does between steps; PyTorch's is the bare step. Both start from the same
weights, read the same crops of the same text and follow the same recipe, so that their losses can be compared too.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from glassformer.bench import peers, text_peers
from glassformer.data.dataset import Dataset
from glassformer.data.pydoc import load_pydoc
from glassformer.errors import EngineError
from glassformer.layers import attention
from glassformer.layers.contract import Layer
from glassformer.layers.fused_attention import FusedAttention
from glassformer.layers.masks import as_mask
from glassformer.names import named_leaves
from glassformer.shapes import Static
from glassformer.train import jax_engine
from glassformer.train.held_out import split
from glassformer.train.listener import Listener
from glassformer.train.loop import Loop
from glassformer.train.presets import preset
from glassformer.train.recipe import Recipe
from glassformer.train.rng import make_order
from glassformer.train.run_folder import RunFolder
from glassformer.train.stream_engine import crops
from glassformer.train.tasks.next_token import Stream
from glassformer.train.throughput import Throughput

if TYPE_CHECKING:
    from torch import Tensor

PRESETS = ("gpt2-124m", "gpt2-350m", "gpt2-774m", "gpt2-1.5b")
OURS, TORCH, AUTODIFF = "jax", "compiled", "autodiff"
VOCABULARY = 50304  # GPT-2's 50,257 symbols, as a multiple of 64


@dataclass(frozen=True)
class Setting:
    """What both sides train."""

    preset: str
    batch: int = 0  # 0: the preset's
    context: int = 0  # likewise
    precision: str = "bf16"
    scan: bool = False  # ours: one compiled block for all
    total: int = 0  # updates that the schedule of the learning rate is made for; 0: the preset's
    place: str = "gpu"  # where ours must be

    @property
    def recipe(self) -> Recipe:
        """The preset with every update one batch."""
        made = preset(self.preset)
        model: Any = made.model
        text = replace(model.text, vocabulary=VOCABULARY, context=self.context or model.text.context)
        batch, total = self.batch or made.training.batch, self.total or made.training.steps
        return replace(
            made,
            model=replace(model, text=text),
            training=replace(made.training, batch=batch, accumulate=1, steps=total, score_every=total, epochs=1),
            engine=replace(made.engine, precision=self.precision, scan=self.scan),  # pyright: ignore[reportArgumentType]
        )


@dataclass(frozen=True)
class Result:
    setting: Setting
    tokens: int  # of a step
    step_ms: dict[str, float]
    compile_s: dict[str, float]
    memory: dict[str, int]  # bytes of the GPU that were in use at most
    mfu: dict[str, float]
    device: str
    losses: dict[str, list[float]] = field(repr=False)

    @property
    def other(self) -> str | None:
        """What ours is compared with."""
        return next((name for name in self.step_ms if name != OURS), None)

    @property
    def ratio(self) -> float | None:
        """How many times as fast."""
        return self.step_ms[self.other] / self.step_ms[OURS] if self.other else None

    @property
    def difference(self) -> float | None:
        """Of the two loss curves, at most, over the steps that both took."""
        if self.other is None:
            return None
        pairs = zip(self.losses[OURS], self.losses[self.other], strict=False)
        return max(abs(ours - theirs) for ours, theirs in pairs)

    def plain(self) -> dict[str, Any]:
        per_second = {name: self.tokens / ms * 1e3 for name, ms in self.step_ms.items()}
        return asdict(self) | {"tokens_per_s": per_second, "ratio": self.ratio, "difference": self.difference}


class Contest:
    """One preset, all sides ready to take turns of so many steps."""

    def __init__(self, setting: Setting, steps: int, sides: tuple[str, ...] = (OURS, TORCH)) -> None:
        self.setting, self.steps = setting, steps
        self.sides = {name: Side(name, setting) for name in sides}
        self.seconds: dict[str, list[float]] = {name: [] for name in self.sides}
        self.answers: dict[str, dict[str, Any]] = {}

    def run(self, rounds: int) -> Iterator[int]:
        """A turn to compile, then `rounds` that count."""
        try:
            for turn in range(rounds + 1):
                for name, side in self.sides.items():
                    self.seconds[name].append(side.ask({"steps": self.steps if turn else 2})["seconds"])
                yield turn
            self.answers = {name: side.ask({"steps": 0}) for name, side in self.sides.items()}
        finally:
            for side in self.sides.values():
                side.stop()

    def result(self) -> Result:
        recipe = self.setting.recipe
        step = {name: median(seconds[1:]) / self.steps for name, seconds in self.seconds.items()}
        ours = self.answers[OURS]
        return Result(
            setting=self.setting,
            tokens=recipe.training.batch * recipe.model.input.context,  # pyright: ignore[reportAttributeAccessIssue]
            step_ms={name: 1e3 * seconds for name, seconds in step.items()},
            compile_s={name: max(0.0, seconds[0] - 2 * step[name]) for name, seconds in self.seconds.items()},
            memory={name: answer["memory"] for name, answer in self.answers.items()},
            mfu={name: ours["work"] * recipe.training.batch / ours["peak"] / seconds for name, seconds in step.items()}
            if ours["peak"]
            else {},
            device=ours["device"],
            losses={name: answer["losses"] for name, answer in self.answers.items()},
        )


class Side:
    """A process that trains when it is asked to."""

    def __init__(self, name: str, setting: Setting) -> None:
        # what a framework does not use stays free for the other; PyTorch's side has JAX for the first weights alone
        own = {"JAX_PLATFORMS": "cpu"} if name == TORCH else {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        if setting.precision == "float32":  # as PyTorch takes the word; JAX would round products of a GPU to TF32
            own["JAX_DEFAULT_MATMUL_PRECISION"] = "highest"
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, name, json.dumps(asdict(setting))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | own,
        )

    def ask(self, what: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            print(json.dumps(what), file=self.process.stdin, flush=True)
        for line in self.process.stdout:
            if line.startswith("{"):
                answer = json.loads(line)
                if "error" in answer:
                    raise EngineError(answer["error"])
                return answer
        raise EngineError(f"bench train: the side {self.name} ended before its turn; its messages are above")

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()


def serve(name: str, setting: Setting) -> None:
    """The program of a side: for each line that comes, so many steps, and how long they took."""
    if name != TORCH and jax.default_backend() != setting.place:
        none = f"{setting.preset} is compared on a {setting.place.upper()}, and JAX has none here"
        print(json.dumps({"error": none}), flush=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        take, about = SIDES[name](setting.recipe, Path(folder))
        losses: list[float] = []
        for line in sys.stdin:
            steps = json.loads(line)["steps"]
            if not steps:
                print(json.dumps(about() | {"losses": losses}), flush=True)
                continue
            start = time.perf_counter()
            losses += take(steps)
            print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)


def text_of(recipe: Recipe) -> Dataset:
    """The documentation of Python's language, a number for each character."""
    text = "\n".join(example.text for example in load_pydoc("pydoc").train)
    _, ids = np.unique(np.array(list(text)), return_inverse=True)
    context: int = recipe.model.input.context  # pyright: ignore[reportAttributeAccessIssue]
    return Dataset("pydoc", Stream(ids.astype(np.int32), Static(context)), None, (), vocabulary=VOCABULARY)


class InTurns(Loop):
    """The loop of `glassformer train`, some steps at a time."""

    def take(self, steps: int) -> list[float]:
        self.steps_at_once, self.losses = steps, []
        self.run_chunk(self.engine.batches([], 1))
        return self.losses

    def take_steps(self, batches: Any, last: int) -> np.ndarray:
        losses = super().take_steps(batches, last)
        self.losses = losses[0].tolist()
        return losses


Take = Callable[[int], list[float]]
About = Callable[[], dict[str, Any]]


def ours(recipe: Recipe, folder: Path) -> tuple[Take, About]:
    loop = InTurns(recipe, text_of(recipe), RunFolder(folder / "run"), Listener())
    loop.begin()
    speed = Throughput(recipe)

    def about() -> dict[str, Any]:
        device = jax.devices()[0]
        memory = (device.memory_stats() or {}).get("peak_bytes_in_use", 0)
        return {"memory": memory, "work": speed.work, "peak": speed.peak, "device": device.device_kind}

    return loop.take, about


def autodiff(recipe: Recipe, folder: Path) -> tuple[Take, About]:
    """Ours with `jax.grad` in the place of the written-out backward."""
    jax_engine.loss_and_gradient = by_autodiff
    return ours(recipe, folder)


class DifferentiableAttention(FusedAttention):
    """Fused attention as `jax.grad` takes it: the kernel's backward is left to JAX."""

    def forward(self, params: None, x: attention.Inputs, *, mask: Any = None) -> tuple[Any, Any]:
        if self.instead(x.q.dtype, x.q.shape[-1]):
            return super().forward(params, x, mask=mask)
        return self.kernel(as_mask(mask).causal, None, x.q, x.k, x.v), None


def by_autodiff(model: Any, loss: Layer, params: Any, x: Any, **given: Any) -> tuple[Any, Any]:
    labels, weights = given["labels"], given["weights"]
    if isinstance(model.attend, FusedAttention):
        model = replace(model, attend=DifferentiableAttention(model.attend.scale))

    def value(params: Any) -> Any:
        return loss.forward(None, model.forward(params, x)[0], labels=labels, weights=weights)[0]

    return jax.value_and_grad(value)(params)


def pytorch(recipe: Recipe, folder: Path) -> tuple[Take, About]:
    import torch
    import torch.nn.functional as F  # noqa: N812

    model: Any = recipe.model
    place = "cuda" if torch.cuda.is_available() else "cpu"
    seed, batch, length = recipe.training.seed, recipe.training.batch, model.text.context + 1
    weights = peers.weights_from(make_order(recipe.engine.rng, seed).init(model))
    weights = jax.tree.map(lambda weight: weight.detach().to(place).requires_grad_(), weights)
    forward = partial(text_peers.gpt, text_peers.looking_back(model.text.context, TORCH), model.heads)
    settings = recipe.optimiser
    optimiser = torch.optim.AdamW(groups(weights, settings.weight_decay), betas=(settings.b1, settings.b2), fused=True)
    rate = settings.schedule.rate(settings.lr, recipe.training.steps, 1)
    stream, leaves = split(recipe, text_of(recipe))[0].ids, jax.tree.leaves(weights)
    narrow = torch.autocast(place, dtype=torch.bfloat16, enabled=recipe.engine.precision == "bf16")
    done = 0

    def loss_of(rows: "Tensor") -> "Tensor":
        with narrow:
            return F.cross_entropy(forward(weights, rows[:, :-1]), rows[:, 1:].flatten())

    if place == "cuda":
        loss_of = torch.compile(loss_of, dynamic=False)

    def take(steps: int) -> list[float]:
        nonlocal done
        losses = []
        for _ in range(steps):
            rows = torch.from_numpy(crops(stream, seed, done, batch, length)).long()
            for group in optimiser.param_groups:
                group["lr"] = np.asarray(rate(done)).item()
            optimiser.zero_grad(set_to_none=True)
            loss = loss_of(rows.pin_memory().to(place, non_blocking=True) if place == "cuda" else rows)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(leaves, settings.clip)
            optimiser.step()
            losses.append(loss.detach())
            done += 1
        return torch.stack(losses).cpu().tolist()

    return take, lambda: {"memory": torch.cuda.max_memory_allocated() if place == "cuda" else 0}


def groups(weights: Any, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices shrink; tables, gains and biases do not: `optimiser.decay = "matrices"`."""
    named = named_leaves(weights)
    matrices = [name for name in named if name.rpartition(".")[-1].startswith("w_")]
    return [
        {"params": [named[name] for name in matrices], "weight_decay": weight_decay},
        {"params": [leaf for name, leaf in named.items() if name not in matrices], "weight_decay": 0.0},
    ]


SIDES = {OURS: ours, TORCH: pytorch, AUTODIFF: autodiff}

if __name__ == "__main__":
    serve(sys.argv[1], Setting(**json.loads(sys.argv[2])))
