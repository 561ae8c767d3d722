"""Run folders that nobody had to train: weights drawn at random, large enough that attention is far from even."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from glassformer.models import BERT, GPT, T5, TinyIris, ViT
from glassformer.models.model import Network
from glassformer.models.text import Text
from glassformer.train.recipe import Recipe, Training
from glassformer.train.resolve import load_for, resolved
from glassformer.train.run_folder import RunFolder
from glassformer.train.tasks import Classify, Masked, NextToken, Translate

TEXT = "the cat sat on the mat and saw the dog. " * 40
WORDS = Text(17, 32)
RECIPES: dict[str, Recipe] = {
    "vit": Recipe(model=ViT(width=8, hidden=12, heads=2, depth=1)),
    "gpt": Recipe(model=GPT(WORDS, width=8, hidden=12, heads=2, depth=1), task=NextToken(), data="text"),
    "bert": Recipe(model=BERT(WORDS, width=8, hidden=12, heads=2, depth=1), task=Masked(), data="text"),
    "t5": Recipe(
        model=T5(Text(17, 64), width=6, hidden=7, heads=2, head_width=4, depth=1, decoder_depth=1),
        task=Translate(),
        data="dates",
    ),
    "iris": Recipe(model=TinyIris(), task=Classify(), data="iris"),
}


def make_run(path: Path, kind: str, seed: int = 0, epochs: int = 3) -> Path:
    recipe = replace(RECIPES[kind], training=Training(epochs=epochs))
    if recipe.data == "text":
        file = path.parent.parent / "text.txt"
        file.write_text(TEXT)
        recipe = replace(recipe, data=str(file))
    data = load_for(recipe, recipe.data)
    recipe, folder = resolved(recipe, data), RunFolder(path)
    folder.save_recipe(recipe)
    if data.tokeniser is not None:
        folder.save_tokeniser(data.tokeniser)
    folder.save_model(recipe, grown(recipe.model, seed), data.classes, epoch=2)
    return path


def grown(model: Network, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    return jax.tree.map(lambda leaf: rng.normal(0, 0.5, leaf.shape).astype(leaf.dtype), shapes)
