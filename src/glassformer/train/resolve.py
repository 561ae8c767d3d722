"""A recipe meets its data: the data is brought into the task's form, the model takes its sizes from it."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data import load
from glassformer.data.dataset import Dataset
from glassformer.data.iris import load_iris
from glassformer.data.sources import lasting_name as of_images
from glassformer.data.table import load_csv
from glassformer.data.text_sources import is_text, lasting_text_name, load_texts
from glassformer.data.texts import Texts
from glassformer.data.tokeniser import Tokeniser
from glassformer.data.tokeniser_training import Characters
from glassformer.errors import DataError, SettingError
from glassformer.models import (
    BERT,
    GPT,
    T5,
    BERTFor,
    ClassHead,
    MaskedHead,
    RecurrentClassifier,
    RecurrentLM,
    SpanHead,
    TagHead,
    TinyIris,
)
from glassformer.models.model import Model, Network
from glassformer.models.text import Text
from glassformer.train.recipe import Recipe
from glassformer.train.tasks import TASK_NAMES, Classify, Masked, NextToken, Span, Tag, Task, Translate

DOES: dict[type[Network], tuple[type[Task], ...]] = {
    GPT: (NextToken,),
    RecurrentLM: (NextToken,),
    RecurrentClassifier: (Classify,),
    BERT: (Masked, Classify, Tag, Span),
    BERTFor: (Masked, Classify, Tag, Span),
    T5: (Translate,),
}  # every other model classifies


def load_for(recipe: Recipe, name: str, tokeniser: Tokeniser | None = None) -> Dataset:
    """The data set of this name as the recipe's model reads it. A tokeniser is made from texts, unless one is given."""
    check_task(recipe)
    if text_of(recipe.model) is not None:
        return encoded(recipe, load_texts(name), tokeniser)
    if isinstance(recipe.model, TinyIris):
        return load_iris(name) if is_iris(name) else load_csv(Path(name).expanduser(), name=name)
    return load(name)


def encoded(recipe: Recipe, texts: Texts, tokeniser: Tokeniser | None = None) -> Dataset:
    """Texts as arrays, for the recipe's task."""
    text = text_of(recipe.model)
    if text is None:
        raise DataError(f"{texts.name}: texts came, and {type(recipe.model).__name__} does not read any")
    if tokeniser is None:
        strings = [string for example in texts.train for string in (example.text, example.target) if string]
        tokeniser = (recipe.tokeniser or Characters()).train(strings, texts.marks)
    train, test, classes = recipe.task.encode(texts, tokeniser, text.context)
    return Dataset(texts.name, train, test, classes, tokeniser)


def resolved(recipe: Recipe, data: Dataset) -> Recipe:
    """The recipe with the data's own sizes in the model; here it is whole, and checked."""
    recipe.optimiser.must_use_its_settings()
    check_task(recipe)
    model = recipe.model
    if isinstance(model, Model):
        if not hasattr(data.train, "images"):
            raise DataError(f"{data.name}: {type(model).__name__} reads images, and it holds none")
        images = dataclasses.replace(model.images, shape=data.train.images.shape[1:], classes=len(data.classes))
        return dataclasses.replace(recipe, model=dataclasses.replace(model, images=images))  # pyright: ignore
    if recipe.training.shift:
        raise SettingError("training: shift moves images, and this model reads none; set it back: training.shift=0")
    if isinstance(model, TinyIris):
        return dataclasses.replace(recipe, model=dataclasses.replace(model, columns=columns_of(model, data)))
    if data.tokeniser is None:
        raise DataError(f"{data.name}: {type(model).__name__} reads texts, and it holds none")
    model = with_head(recipe.task, with_vocabulary(model, data.tokeniser.size), len(data.classes))
    return dataclasses.replace(recipe, model=model, tokeniser=recipe.tokeniser or Characters())


def check_task(recipe: Recipe) -> None:
    does = DOES.get(type(recipe.model), (Classify,))
    if not isinstance(recipe.task, does):
        known = ", ".join(TASK_NAMES[task] for task in does)
        raise SettingError(
            f"task: {TASK_NAMES[type(recipe.task)]} came, and {type(recipe.model).__name__} does {known}; "
            f"say --task {TASK_NAMES[does[0]]}, or choose another model"
        )


def text_of(model: Any) -> Text | None:
    """What a model of texts is given; None for others."""
    return model.bert.text if isinstance(model, BERTFor) else getattr(model, "text", None)


def with_vocabulary(model: Any, size: int) -> Any:
    if isinstance(model, BERTFor):
        head = model.head
        if isinstance(head, MaskedHead):
            head = dataclasses.replace(head, vocabulary=size)
        return dataclasses.replace(model, bert=with_vocabulary(model.bert, size), head=head)
    return dataclasses.replace(model, text=dataclasses.replace(model.text, vocabulary=size))


def with_head(task: Task, model: Any, classes: int) -> Any:
    """BERT with the head of its task; another model as it is, with as many classes as there are."""
    if isinstance(model, RecurrentClassifier):
        return dataclasses.replace(model, classes=classes)
    if not isinstance(model, BERT | BERTFor):
        return model
    bert = model if isinstance(model, BERT) else model.bert
    heads = {
        Masked: lambda: MaskedHead(bert.width, bert.text.vocabulary, eps=bert.eps, activation=bert.activation),
        Classify: lambda: ClassHead(bert.width, classes, bert.dropout),
        Tag: lambda: TagHead(bert.width, classes, bert.dropout),
        Span: lambda: SpanHead(bert.width),
    }
    return BERTFor(bert, heads[type(task)]())


def columns_of(model: TinyIris, data: Dataset) -> Any:
    """How many columns and classes there are, and how the columns are spread."""
    x = data.train.x.astype(np.float64)
    mean, std = x.mean(axis=0), x.std(axis=0)
    return dataclasses.replace(
        model.columns,
        count=x.shape[1],
        classes=len(data.classes),
        mean=tuple(round(float(value), 4) for value in mean),
        std=tuple(round(float(value), 4) or 1.0 for value in std),
    )


def is_iris(name: str) -> bool:
    return name.partition(":")[0] == "iris"


def lasting_name(name: str) -> str:
    """The word for a data set that a run writes down: it means the same from any folder."""
    if is_iris(name):
        return name
    return lasting_text_name(name) if is_text(name) else of_images(name)
