"""What contrastive tuning is worth: how often the nearest neighbour of a text is its partner, before and after.

Each seed pre-trains its own BERT on unlabelled names, is scored as it stands, tuned on pairs, and scored again. Of the
things whose names are in the test pairs none is in training; the weights kept are chosen on validation pairs.
"""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import jax

from glassformer.bench.fine_tuning import PRESET, Tuning, paired_interval, ready, with_training
from glassformer.train import fit
from glassformer.train.loop import Listener, with_seed
from glassformer.train.presets import preset
from glassformer.train.recipe import Recipe
from glassformer.train.score import score_in_parts, tally
from glassformer.train.tasks import Contrast
from glassformer.train.warm_start import recipe_from, warm_start

PAIRS = Tuning("names", reading=2, task="contrast", labelled=0, epochs=3, lr=4e-3, batch=64, samples=4000)


@dataclasses.dataclass(frozen=True)
class Result:
    tuning: Tuning
    candidates: int  # test pairs: a text's partner is found among so many
    before: tuple[float, ...]  # recall@1, by seed
    after: tuple[float, ...]

    @property
    def differences(self) -> list[float]:
        return [after - before for before, after in zip(self.before, self.after, strict=True)]

    @property
    def interval(self) -> tuple[float, float]:
        return paired_interval(self.differences)

    def plain(self) -> dict[str, Any]:
        mean = sum(self.differences) / len(self.differences)
        return dataclasses.asdict(self) | {"difference": mean, "interval": list(self.interval)}


def compare_retrieval(
    tuning: Tuning, seeds: tuple[int, ...], folder: Path, listener: Listener, base: Recipe | None = None
) -> Result:
    reading = with_training(dataclasses.replace(base or preset(PRESET), data=tuning.data), epochs=tuning.reading)
    read, texts = ready(reading, tuning.data, None)
    listener.notice(f"{tuning.data}: reads its text for {tuning.reading} epochs, {len(seeds)} seeds")
    path = folder / f"{tuning.data}-masked"
    fit.train_many(read, texts, path, seeds, listener)
    scores, candidates = [], 0
    for seed in seeds:
        recipe = with_training(
            dataclasses.replace(recipe_from(path / f"seed-{seed}"), data=tuning.data, task=Contrast(pooling="mean")),
            epochs=tuning.epochs,
            samples=tuning.samples,
            batch=tuning.batch,
        )
        recipe = dataclasses.replace(recipe, optimiser=dataclasses.replace(recipe.optimiser, lr=tuning.lr))
        recipe, pairs = ready(with_seed(recipe, seed), tuning.data, texts.tokeniser)
        start = warm_start(recipe, recipe.model.init(jax.random.key(seed)))
        before = score_in_parts(jax.jit(partial(tally, recipe)), recipe.task, start, pairs.test).accuracy
        listener.notice(f"{tuning.data}: contrast, seed {seed}, recall@1 {100 * before:.1f} % before")
        after = fit.train(recipe, pairs, folder / f"{path.name}-contrast" / f"seed-{seed}", listener)["test_accuracy"]
        scores.append((before, after))
        candidates = recipe.task.count(pairs.test)
    before, after = zip(*scores, strict=True)
    return Result(tuning, candidates, before, after)
