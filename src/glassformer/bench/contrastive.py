"""What contrastive tuning is worth: how often the nearest neighbour of a text is its partner, before and after.

A BERT is pre-trained on unlabelled text (one that lies in the folder already is taken), scored as it stands, tuned on
pairs with each seed, and scored again. Of the things whose names are in the test pairs no name is in the training
pairs; the weights that are kept are chosen on validation pairs.
"""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import jax

from glassformer.bench.fine_tuning import PRESET, Tuning, paired_interval, ready, with_training
from glassformer.train import fit
from glassformer.train.listener import Listener
from glassformer.train.presets import preset
from glassformer.train.recipe import Recipe
from glassformer.train.score import score_in_parts, tally
from glassformer.train.tasks import Contrast
from glassformer.train.warm_start import recipe_from, tokeniser_from, warm_start

READ = "places"  # as the classification of places reads it
PAIRS = Tuning("names", reading=15, task="contrast", labelled=0, epochs=3, lr=4e-3, batch=32, samples=6000)


@dataclasses.dataclass(frozen=True)
class Result:
    tuning: Tuning
    candidates: int  # test pairs: a text's partner is found among so many
    before: float  # recall@1 of the pre-trained weights
    after: tuple[float, ...]  # by seed

    @property
    def differences(self) -> list[float]:
        return [after - self.before for after in self.after]

    @property
    def interval(self) -> tuple[float, float]:
        return paired_interval(self.differences)

    def plain(self) -> dict[str, Any]:
        mean = sum(self.differences) / len(self.differences)
        return dataclasses.asdict(self) | {"difference": mean, "interval": list(self.interval)}


def compare_retrieval(
    tuning: Tuning, seeds: tuple[int, ...], folder: Path, listener: Listener, base: Recipe | None = None
) -> Result:
    path = folder / f"{READ}-masked"
    if not (path / "metrics.json").exists():
        reading = with_training(dataclasses.replace(base or preset(PRESET), data=READ), epochs=tuning.reading)
        listener.notice(f"{READ}: reads its text for {tuning.reading} epochs")
        fit.train(*ready(reading, READ, None), path, listener)
    recipe = with_training(
        dataclasses.replace(recipe_from(path), data=tuning.data, task=Contrast(pooling="mean")),
        epochs=tuning.epochs,
        samples=tuning.samples,
        batch=tuning.batch,
    )
    recipe = dataclasses.replace(recipe, optimiser=dataclasses.replace(recipe.optimiser, lr=tuning.lr))
    recipe, pairs = ready(recipe, tuning.data, tokeniser_from(path))
    start = warm_start(recipe, recipe.model.init(jax.random.key(0)))
    before = score_in_parts(jax.jit(partial(tally, recipe)), recipe.task, start, pairs.test).accuracy
    listener.notice(f"{tuning.data}: contrast, recall@1 {100 * before:.1f} % before, {len(seeds)} seeds")
    runs = fit.train_many(recipe, pairs, folder / f"{path.name}-contrast", seeds, listener)["runs"]
    return Result(tuning, recipe.task.count(pairs.test), before, tuple(run["test_accuracy"] for run in runs))
