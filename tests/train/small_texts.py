"""Texts that are learned in a moment, and a small recipe for each task: numbers of two digits in two made-up tongues.

<up> says the tens first, <down> the ones: `<up> one two` and `<down> two one` are both 12. Every number is said once
in each tongue. Class: are the ones odd? Target: the digits. Parts: the words.
"""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from glassformer.data import Dataset
from glassformer.data.iris import load_iris
from glassformer.data.texts import Example, Part, Texts
from glassformer.models import BERT, GPT, T5, Llama, RecurrentClassifier, RecurrentLM, Text, TinyIris
from glassformer.train.optimiser import Optimiser
from glassformer.train.recipe import Engine, Recipe, Training, Validation
from glassformer.train.resolve import encoded, resolved
from glassformer.train.tasks import Answering, Classify, Contrast, Masked, NextToken, Span, Tag, Translate

WORDS = {1: "one", 2: "two", 4: "four", 5: "five", 6: "six"}
CONTEXT = 13  # <start> <up> four five <end>, in characters
TRAIN = 40  # of 50
KINDS = ("gpt", "lstm", "masked", "classify", "tag", "span", "t5", "reader", "answer", "iris")
OF_TEXTS = KINDS[:-1]


def number(tens: int, ones: int, mark: str) -> Example:
    text, parts = mark, []
    said = (("tens", tens), ("ones", ones))
    for name, digit in said if mark == "<up>" else reversed(said):
        start = len(text) + 1
        text += f" {WORDS[digit]}"
        parts.append(Part(name, start, len(text)))
    return Example(text, label=ones % 2, target=f"{tens}{ones}", parts=tuple(parts))


def small_texts(*, by_heart: bool = False) -> Texts:
    """By heart: the test texts are those that are trained on."""
    numbers = [number(*said) for said in product(WORDS, WORDS, ("<up>", "<down>"))]
    mixed = tuple(numbers[i] for i in np.random.default_rng(0).permutation(len(numbers)))
    return Texts(
        name="numbers",
        train=mixed[:TRAIN],
        test=mixed[:TRAIN] if by_heart else mixed[TRAIN:],
        classes=("even", "odd"),
        parts=("tens", "ones"),
        marks=("<up>", "<down>"),
    )


def small_text_recipe(
    kind: str, *, epochs: int = 2, share: float = 0.1, dropout: float = 0.1, **training: Any
) -> Recipe:
    """As a user would write it, not yet resolved. Training is random in every way: offsets, masks, dropout."""
    text = Text(context=CONTEXT)
    sizes: dict[str, Any] = {"width": 16, "hidden": 32, "heads": 2, "depth": 1}
    bert = BERT(text, **sizes)
    parts: dict[str, dict[str, Any]] = {
        "gpt": {"model": GPT(text, **sizes, dropout=dropout), "task": NextToken()},
        "llama": {"model": Llama(text, **sizes, key_heads=1), "task": NextToken()},
        "lstm": {"model": RecurrentLM(text, width=16, hidden=16, depth=1), "task": NextToken()},
        "masked": {"model": replace(bert, dropout=dropout), "task": Masked(share=0.2)},
        "classify": {"model": bert, "task": Classify()},
        "tag": {"model": bert, "task": Tag()},
        "span": {"model": bert, "task": Span(part="tens")},
        "t5": {"model": T5(text, **sizes, head_width=8, buckets=8, reach=16), "task": Translate()},
        "reader": {"model": RecurrentClassifier(text, width=16, hidden=16, depth=1, cell="gru"), "task": Classify()},
        "answer": {"model": GPT(Text(context=CONTEXT + 3), **sizes, dropout=dropout), "task": Answering()},
        "contrast": {"model": replace(bert, dropout=dropout), "task": Contrast(temperature=0.2)},
        "iris": {"model": TinyIris(), "data": "iris"},
    }
    return Recipe(
        **{"data": "numbers", **parts[kind]},
        training=Training(**{"epochs": epochs, "batch": 4, **training}),
        optimiser=Optimiser(name="adam", lr={"classify": 0.003, "masked": 0.005}.get(kind, 0.01)),
        validation=Validation(share=share),
        engine=Engine(name="jax"),
    )


def ready(recipe: Recipe, texts: Texts | None = None) -> tuple[Recipe, Dataset]:
    """The recipe, resolved, and its data."""
    is_table = isinstance(recipe.model, TinyIris)
    data = load_iris(recipe.data) if is_table else encoded(recipe, texts or small_texts())
    return resolved(recipe, data), data
