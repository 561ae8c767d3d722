"""A recipe: everything that decides how a run turns out, in one typed place. Runs save it, fully resolved."""

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

from glassformer.data.tokeniser_training import BytePairs, Characters
from glassformer.errors import SettingError, at_least
from glassformer.layers.contract import Layer, param_shapes
from glassformer.losses import CrossEntropy, LabelSmoothing, Loss
from glassformer.models import ViT
from glassformer.models.model import Network
from glassformer.names import named_leaves
from glassformer.train.augment import Augment
from glassformer.train.optimiser import Optimiser
from glassformer.train.placement import Placement, parse_mesh, placement_for
from glassformer.train.tasks import Classify, Task
from glassformer.train.tune import Full, Tune

MOST_SEEDS = 10_000


@dataclass(frozen=True)
class Training:
    epochs: int = 5
    batch: int = 32  # samples whose gradient is computed at once
    accumulate: int = 1  # batches whose gradients make one update
    seed: int = 1
    loss: Loss | None = None  # None: the task's own
    label_smoothing: float = 0.0  # of the cross-entropy
    subset: int = 0  # train on the first so many samples alone (of running text: tokens); 0: on all
    samples: int = 0  # in an epoch, drawn anew for each; 0: all there are
    steps: int = 0  # updates in all, of random crops of running text; 0: epochs are counted instead
    score_every: int = 1000  # updates, where steps are counted: what the log calls an epoch
    shift: int = 0  # pixels by which a training image may be moved, at random, each way
    augment: Augment = field(default_factory=Augment)  # and turned, scaled, sheared, erased in part
    ema: float = 0.0  # what the averaged weights keep of themselves at each update; 0: there are none

    def __post_init__(self) -> None:
        at_least("training", 1, epochs=self.epochs, batch=self.batch, accumulate=self.accumulate)
        if self.samples_of_update >= 1 << 31:
            times = "" if self.accumulate == 1 else f", {self.accumulate:,} times"
            raise SettingError(f"training: batch is {self.batch:,}{times}, expected less than 2^31")
        at_least("training", 0, seed=self.seed, subset=self.subset, samples=self.samples, shift=self.shift)
        at_least("training", 0, steps=self.steps)
        at_least("training", 1, score_every=self.score_every)
        if self.seed >= 1 << 63:
            raise SettingError(f"training: seed is {self.seed}, expected less than 2^63")
        if not 0 <= self.ema < 1:
            raise SettingError(
                f"training: ema is {self.ema}, expected 0 (no averaged weights) to below 1, such as 0.999"
            )
        LabelSmoothing(self.label_smoothing)  # it refuses what is not a share

    @property
    def samples_of_update(self) -> int:
        return self.batch * self.accumulate

    def of_an_epoch(self, total: int) -> int:
        return min(self.samples or total, total)


@dataclass(frozen=True)
class Validation:
    """The last part of the training samples is held out; choices are made on it, never on the test set."""

    share: float = 0.1  # 0: train on everything and keep the last weights
    patience: int = 0  # stop after so many epochs without improvement; 0: never
    min_delta: float = 0.0  # what counts as improvement, in percentage points (of a loss: in hundredths of a nat)

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise SettingError(f"validation: share is {self.share}, expected 0 to below 1")
        at_least("validation", 0, patience=self.patience)
        if self.patience and not self.share:
            raise SettingError("validation: early stopping (patience) needs a validation share above 0")


@dataclass(frozen=True)
class Engine:
    name: Literal["auto", "jax", "native"] = "auto"
    mesh: str = ""  # jax: how devices share the work, data=4,model=2 (train/placement.py); nothing: one device
    precision: Literal["float32", "bf16"] = "float32"  # of matrix products; weights and what is wide are float32
    scan: bool = False  # jax: compile one block of a stack and scan it over all: deep models compile sooner
    rng: Literal["threefry", "xorshift"] = "threefry"
    deterministic: bool = False  # GPU: bit-identical repeats, a little slower; the CPU always is
    threads: int = 0  # native: 0 is one for each core; a run repeats to the bit with any number
    rewrites: bool = True  # native: may compute the same in another order, pool before a linear layer

    def __post_init__(self) -> None:
        at_least("engine", 0, threads=self.threads)
        if parse_mesh(self.mesh) and self.name == "native":
            raise SettingError(
                f"engine: a mesh came, {self.mesh}, and the native engine computes on one CPU; take --engine jax"
            )


@dataclass(frozen=True)
class Recipe:
    model: Network = field(default_factory=ViT)
    data: str = "mnist-mini"
    task: Task = Classify()
    tokeniser: Characters | BytePairs | None = None  # how one is made of the texts; None: there are no texts
    start: str = ""  # the run whose weights it starts from; nothing: from fresh ones
    tune: Tune = Full()  # which parameters learn, where it starts from a run
    training: Training = field(default_factory=Training)
    optimiser: Optimiser = field(default_factory=Optimiser)
    validation: Validation = field(default_factory=Validation)
    engine: Engine = field(default_factory=Engine)

    @property
    def loss(self) -> Loss:
        """What training makes small."""
        chosen = self.task.loss if self.training.loss is None else self.training.loss
        smoothing = self.training.label_smoothing
        if smoothing and chosen != CrossEntropy():
            raise SettingError(
                f"training: label_smoothing is {smoothing}, and the loss is {type(chosen).__name__}; only "
                "cross-entropy is smoothed: set it back, training.label_smoothing=0"
            )
        return LabelSmoothing(smoothing) if smoothing else chosen

    @property
    def network(self) -> Layer:
        """What is trained: the model, or what its tuning puts around it."""
        return self.tune.network(self.model)

    def merged(self, params: Any) -> Any:
        """The model's params, of those that are trained."""
        return self.tune.merged(self.model, params)

    @property
    def learning(self) -> Optimiser:
        """The optimiser, with all that is not tuned among what it freezes."""
        frozen = frozen_by(self.tune, self.model)
        return replace(self.optimiser, freeze=(*self.optimiser.freeze, *frozen)) if frozen else self.optimiser

    @property
    def placement(self) -> Placement | None:
        """Where its arrays lie on a mesh of devices; None: on one."""
        return placement_for(self.engine.mesh, self.model)

    @property
    def output_axis(self) -> str:
        """What the last axis of the model's output is: classes, symbols, places, numbers."""
        return self.task.output_axis or self.model.output_axis


def with_seed(recipe: Recipe, seed: int) -> Recipe:
    return replace(recipe, training=replace(recipe.training, seed=seed))


@lru_cache(maxsize=64)
def frozen_by(tune: Tune, model: Network) -> tuple[str, ...]:
    """The names of the network's parameters that do not learn."""
    if tune == Full():
        return ()
    learns = set(tune.learns(model))
    return tuple(name for name in named_leaves(param_shapes(tune.network(model))) if name not in learns)
