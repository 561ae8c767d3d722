"""Is it worth while to read before one learns? BERT pre-trained on unlabelled text, then tuned on few labels, beside
the same BERT trained on those labels from fresh weights. And what of the gain is kept where only an adapter learns.

All arms have the same labels, order and seed; seed by seed they are compared. The adapter's has a learning rate of its
own. The interval of the mean difference is Student's, from as many differences as there are seeds; that of the share of
the gain is Fieller's, of a ratio of two means that are paired.
"""

import dataclasses
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from glassformer.data.tokeniser import Tokeniser
from glassformer.train import fit
from glassformer.train.listener import Listener
from glassformer.train.presets import preset
from glassformer.train.recipe import Recipe, with_seed
from glassformer.train.resolve import load_for, resolved
from glassformer.train.tasks import TASKS
from glassformer.train.tune import LowRank
from glassformer.train.warm_start import recipe_from

PRESET = "bert-nano"
ADAPTED = ("*.w_q", "*.w_v", "*.embed.emb")  # a language shows in its characters: without their table little is gained
POOLED = LowRank(targets=(*ADAPTED, "head.pool.w"), also=("head.classify.*", "head.pool.b"))
ATTENTION = LowRank(targets=("*.attn.w_?", "*.embed.emb"))


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
    lora: LowRank = LowRank(targets=ADAPTED)  # chosen on validation data, with other seeds, as is its rate
    lora_lr: float = 5e-3


TUNINGS = (
    Tuning("places", reading=15, task="classify", labelled=1000, epochs=10, lr=1e-3, lora=POOLED),
    Tuning("dates", reading=3, task="tag", labelled=200, epochs=8, lr=1.5e-3, lora=ATTENTION, lora_lr=1e-2),
)


@dataclasses.dataclass(frozen=True)
class Result:
    tuning: Tuning
    masked_loss: float  # of pre-training, nats a token, on the test part
    unigram: float  # nats a token: what the frequencies of the symbols alone leave open
    scratch: tuple[float, ...]  # test accuracy, by seed
    tuned: tuple[float, ...]
    lora: tuple[float, ...]
    learning: int  # parameters of the adapter and the head
    parameters: int
    optimiser_bytes: tuple[int, int]  # where all learn; where the adapter does

    @property
    def kept(self) -> float:
        """The adapter's share of the gain of tuning all."""
        gain, adapter = (statistics.mean(scores) - statistics.mean(self.scratch) for scores in (self.tuned, self.lora))
        return adapter / gain

    @property
    def kept_interval(self) -> tuple[float, float]:
        """95 %; without ends where the gain itself may be none."""
        adapter = [after - before for before, after in zip(self.scratch, self.lora, strict=True)]
        return ratio_interval(adapter, self.differences)

    @property
    def differences(self) -> list[float]:
        return [after - before for before, after in zip(self.scratch, self.tuned, strict=True)]

    @property
    def interval(self) -> tuple[float, float]:
        return paired_interval(self.differences)

    def plain(self) -> dict[str, Any]:
        mean = statistics.mean(self.differences)
        kept = {"kept": self.kept, "kept_interval": list(self.kept_interval)}
        return dataclasses.asdict(self) | {"difference": mean, "interval": list(self.interval), **kept}


def ratio_interval(above: list[float], below: list[float]) -> tuple[float, float]:
    """95 %, of the ratio of two means of paired values (Fieller, 1954): all r for which the mean of `above - r * below`
    cannot be told from zero. These lie between the roots of a r^2 - 2 b r + c."""
    import numpy as np
    from scipy.stats import t

    means, spread = np.mean([above, below], axis=1), np.cov(above, below)
    share = float(t.ppf(0.975, len(above) - 1)) ** 2 / len(above)
    (c, b), (_, a) = np.outer(means, means) - share * spread
    if a <= 0:  # the mean below cannot be told from zero
        return -math.inf, math.inf
    half = math.sqrt(max(b * b - a * c, 0.0))
    return float((b - half) / a), float((b + half) / a)


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
        arms, results = {}, {}
        tuned = recipe_from(path)
        adapted = dataclasses.replace(tuned, tune=tuning.lora)
        for name, recipe, lr in (
            ("scratch", base, tuning.lr),
            ("tuned", tuned, tuning.lr),
            ("lora", adapted, tuning.lora_lr),
        ):
            listener.notice(f"{tuning.data}: {tuning.task}, {name}, {len(seeds)} seeds")
            arm = with_training(
                dataclasses.replace(recipe, data=tuning.data, task=TASKS[tuning.task]()),
                epochs=tuning.epochs,
                subset=tuning.labelled,
                batch=tuning.batch,
            )
            arm = dataclasses.replace(arm, optimiser=dataclasses.replace(arm.optimiser, lr=lr))
            whole, samples = ready(arm, tuning.data, data.tokeniser)
            runs = [  # in turn: on a CPU, half as long as all in one program
                fit.train(with_seed(whole, seed), samples, folder / f"{path.name}-{name}" / f"seed-{seed}", listener)
                for seed in seeds
            ]
            arms[name], results[name] = tuple(run["test_accuracy"] for run in runs), runs[0]
        yield Result(
            tuning,
            masked["test_loss"],
            unigram_entropy(data),
            **arms,
            learning=results["lora"]["learning"],
            parameters=results["lora"]["parameters"],
            optimiser_bytes=(results["tuned"]["optimiser_bytes"], results["lora"]["optimiser_bytes"]),
        )


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
