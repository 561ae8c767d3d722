"""Is it worth while to read before one learns? BERT pre-trained on unlabelled text, then tuned on few labels, beside
the same BERT trained on those labels from fresh weights.

Both arms have the same recipe, labels, order and seed; seed by seed they are compared. The interval of the mean
difference is Student's, from as many differences as there are seeds.
"""

import dataclasses
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from glassformer.data.tokeniser import Tokeniser
from glassformer.train import fit
from glassformer.train.loop import Listener
from glassformer.train.presets import preset
from glassformer.train.recipe import Recipe
from glassformer.train.resolve import load_for, resolved
from glassformer.train.tasks import TASKS
from glassformer.train.warm_start import recipe_from

PRESET = "bert-nano"


@dataclasses.dataclass(frozen=True)
class Tuning:
    data: str
    reading: int  # epochs of pre-training
    task: str
    labelled: int  # samples; 0: all
    epochs: int
    lr: float
    batch: int = 16
    samples: int = 0  # in an epoch, drawn anew for each; 0: all


TUNINGS = (
    Tuning("places", reading=15, task="classify", labelled=1000, epochs=10, lr=1e-3),
    Tuning("dates", reading=3, task="tag", labelled=200, epochs=8, lr=1.5e-3),
)


@dataclasses.dataclass(frozen=True)
class Result:
    tuning: Tuning
    masked_loss: float  # of pre-training, nats a token, on the test part
    unigram: float  # nats a token: what the frequencies of the symbols alone leave open
    scratch: tuple[float, ...]  # test accuracy, by seed
    tuned: tuple[float, ...]

    @property
    def differences(self) -> list[float]:
        return [after - before for before, after in zip(self.scratch, self.tuned, strict=True)]

    @property
    def interval(self) -> tuple[float, float]:
        return paired_interval(self.differences)

    def plain(self) -> dict[str, Any]:
        mean = statistics.mean(self.differences)
        return dataclasses.asdict(self) | {"difference": mean, "interval": list(self.interval)}


def paired_interval(differences: list[float]) -> tuple[float, float]:
    """95 %, of the mean difference."""
    from scipy.stats import t

    mean, count = statistics.mean(differences), len(differences)
    half = float(t.ppf(0.975, count - 1)) * statistics.stdev(differences) / math.sqrt(count)
    return mean - half, mean + half


def compare(
    tunings: tuple[Tuning, ...], seeds: tuple[int, ...], folder: Path, listener: Listener, base: Recipe | None = None
) -> Iterator[Result]:
    base = base or preset(PRESET)
    for tuning in tunings:
        reading = with_training(dataclasses.replace(base, data=tuning.data), epochs=tuning.reading)
        read, data = ready(reading, tuning.data, None)
        path = folder / f"{tuning.data}-masked"
        listener.notice(f"{tuning.data}: reads its text for {tuning.reading} epochs")
        masked = fit.train(read, data, path, listener)
        arms = {}
        for name, recipe in ("scratch", base), ("tuned", recipe_from(path)):
            listener.notice(f"{tuning.data}: {tuning.task}, {name}, {len(seeds)} seeds")
            arm = with_training(
                dataclasses.replace(recipe, data=tuning.data, task=TASKS[tuning.task]()),
                epochs=tuning.epochs,
                subset=tuning.labelled,
                batch=tuning.batch,
            )
            arm = dataclasses.replace(arm, optimiser=dataclasses.replace(arm.optimiser, lr=tuning.lr))
            runs = fit.train_many(
                *ready(arm, tuning.data, data.tokeniser), folder / f"{path.name}-{name}", seeds, listener
            )
            arms[name] = tuple(run["test_accuracy"] for run in runs["runs"])
        yield Result(tuning, masked["test_loss"], unigram_entropy(data), **arms)


def ready(recipe: Recipe, name: str, tokeniser: Tokeniser | None) -> tuple[Recipe, Any]:
    data = load_for(recipe, name, tokeniser)
    return resolved(recipe, data), data


def with_training(recipe: Recipe, **settings: Any) -> Recipe:
    return dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, **settings))


def unigram_entropy(data: Any) -> float:
    """Mean of -log p over the test tokens, where p is how often a symbol occurs in training (add-one)."""
    import numpy as np

    from glassformer.train.tasks.masked import inside

    def symbols(rows: Any) -> Any:
        return rows.ids[np.asarray(inside(rows.keep))]

    size = data.tokeniser.size
    counts = np.bincount(symbols(data.train), minlength=size) + 1
    return float(-np.log(counts / counts.sum())[symbols(data.test)].mean())
