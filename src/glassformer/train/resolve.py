"""A recipe meets its data: the data is brought into the task's form, the model takes its sizes from it."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data import ARRAYS, KNOWN, load
from glassformer.data.dataset import Dataset, hold_out
from glassformer.data.iris import load_iris
from glassformer.data.sources import lasting_name as of_images
from glassformer.data.table import Table, load_csv
from glassformer.data.text_sources import KNOWN_TEXTS, existing, is_text, lasting_text_name, load_texts
from glassformer.data.texts import Texts
from glassformer.data.tokeniser import Tokeniser
from glassformer.data.tokeniser_training import Characters
from glassformer.errors import DataError, SettingError
from glassformer.models import (
    BERT,
    GPT,
    MODELS,
    T5,
    BERTFor,
    ClassHead,
    Columns,
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
from glassformer.train.warm_start import recipe_from, tokeniser_from

IMAGES, ROWS, TEXTS = "images", "rows of numbers", "texts"
ENDINGS = {".npz": IMAGES, ".csv": ROWS, ".txt": TEXTS}  # of files
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
    wanted = reads(type(recipe.model))
    if held(name) not in ("", wanted):
        raise not_readable(recipe.model, name, held(name))
    if wanted == IMAGES:
        return load(name)
    if name == ARRAYS:
        raise DataError(
            f"the run was trained on {wanted} given in Python, which no file holds; go on with it by "
            f"glassformer.train.fit.resume(RUN, data=…); a file of that name is ./{ARRAYS}"
        )
    if wanted == TEXTS:
        return encoded(recipe, load_texts(name), tokeniser)
    return load_iris(name) if is_iris(name) else load_csv(Path(name).expanduser(), name=name)


def encoded(recipe: Recipe, texts: Texts, tokeniser: Tokeniser | None = None) -> Dataset:
    """Texts as arrays, for the recipe's task."""
    text = text_of(recipe.model)
    if text is None:
        raise not_readable(recipe.model, texts.name, TEXTS)
    if tokeniser is None and recipe.start:
        tokeniser = tokeniser_from(recipe.start)  # its weights know these symbols
    if tokeniser is None:
        strings = [string for example in texts.train for string in (example.text, example.target) if string]
        tokeniser = (recipe.tokeniser or Characters()).train(strings, texts.marks)
    train, test, classes = recipe.task.encode(texts, tokeniser, text.context)
    recipe.task.must_have_samples(f"{texts.name}, its training part", train)
    recipe.task.must_have_samples(f"{texts.name}, its test part", test)
    return Dataset(texts.name, train, test, classes, tokeniser)


def resolved(recipe: Recipe, data: Dataset) -> Recipe:
    """The recipe with the data's own sizes in the model; here it is whole, and checked."""
    recipe.optimiser.must_use_its_settings()
    check_task(recipe)
    model = recipe.model
    if (there := made_of(data)) != reads(type(model)):
        raise not_readable(model, data.name, there)
    if isinstance(model, Model):
        images = dataclasses.replace(model.images, shape=data.train.images.shape[1:], classes=len(data.classes))
        return dataclasses.replace(recipe, model=dataclasses.replace(model, images=images))  # pyright: ignore
    if recipe.training.shift:
        raise SettingError("training: shift moves images, and this model reads none; set it back: training.shift=0")
    if isinstance(model, TinyIris):
        return dataclasses.replace(recipe, model=dataclasses.replace(model, columns=columns_of(model, data)))
    if recipe.validation.share:  # now, rather than when the first epoch is over
        for part, samples in zip(("leaves", "holds out"), hold_out(data.train, recipe.validation.share), strict=True):
            recipe.task.must_have_samples(f"{data.name}, what validation {part}", samples)
    size = data.tokeniser.size  # pyright: ignore[reportOptionalMemberAccess]
    if recipe.start:  # its table may be filled up with rows that no symbol has
        size = max(size, getattr(text_of(recipe_from(recipe.start).model), "vocabulary", 0))
    model = with_head(recipe.task, with_vocabulary(model, size), len(data.classes))
    return dataclasses.replace(recipe, model=model, tokeniser=recipe.tokeniser or Characters())


def reads(model: type[Network]) -> str:
    if issubclass(model, Model):
        return IMAGES
    return ROWS if issubclass(model, TinyIris) else TEXTS


def made_of(data: Dataset) -> str:
    if data.tokeniser is not None:
        return TEXTS
    return ROWS if isinstance(data.train, Table) else IMAGES


def held(name: str) -> str:
    """What data of this name is made of; nothing where it would have to be opened to tell."""
    if name in KNOWN:
        return IMAGES
    if name in KNOWN_TEXTS:
        return TEXTS
    if is_iris(name):
        return ROWS
    path = existing(name)
    return ENDINGS.get(path.suffix, "") if path is not None and path.is_file() else ""


def not_readable(model: Network, name: str, there: str) -> DataError:
    readers = ", ".join(kind for kind, cls in MODELS.items() if reads(cls) == there)
    return DataError(
        f"{name}: it holds {there}, and {type(model).__name__} reads {reads(type(model))}; "
        f"{there} are read by {readers}: choose one of them, or other data"
    )


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


def columns_of(model: TinyIris, data: Dataset) -> Columns:
    """How many columns and classes there are, and how the columns are spread."""
    x = data.train.x.astype(np.float64)
    mean, std = x.mean(axis=0), x.std(axis=0)
    differs = std > 1e-6 * np.abs(x).max(axis=0)  # by more than float32 may round
    return dataclasses.replace(
        model.columns,
        count=x.shape[1],
        classes=len(data.classes),
        mean=nine_digits(mean),
        std=nine_digits(np.where(differs, std, 1.0)),
    )


def nine_digits(values: np.ndarray) -> tuple[float, ...]:
    """As many as a float32 has, whatever the unit."""
    return tuple(float(f"{value:.9g}") for value in values)


def is_iris(name: str) -> bool:
    return name.partition(":")[0] == "iris"


def lasting_name(name: str) -> str:
    """The word for a data set that a run writes down: it means the same from any folder."""
    if is_iris(name):
        return name
    return lasting_text_name(name) if is_text(name) else of_images(name)
