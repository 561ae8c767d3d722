"""A recipe meets its data: the data is brought into the task's form, the model takes its sizes from it."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glassformer import registry
from glassformer.data import ARRAYS, KNOWN, load
from glassformer.data.dataset import IMAGES, ROWS, TEXTS, Arrays, Dataset, Samples, hold_out, make_dataset, with_labels
from glassformer.data.iris import load_iris
from glassformer.data.sources import lasting_name as of_images
from glassformer.data.sources import own_reader
from glassformer.data.table import Table, load_csv, make_table
from glassformer.data.text_sources import KNOWN_TEXTS, existing, is_text, lasting_text_name, load_texts
from glassformer.data.texts import Texts
from glassformer.data.token_shards import TokenStream, is_token_folder, open_tokens
from glassformer.data.tokeniser import Tokeniser
from glassformer.data.tokeniser_training import Characters
from glassformer.errors import DataError, SettingError
from glassformer.layers.contract import param_shapes
from glassformer.models import Network
from glassformer.reading import expanded
from glassformer.train.augment import Augment
from glassformer.train.held_out import split
from glassformer.train.limits import weights_must_fit
from glassformer.train.recipe import Recipe, Training
from glassformer.train.run_folder import RunFolder
from glassformer.train.settings import must_survive
from glassformer.train.tune import Full, Tune
from glassformer.train.warm_start import recipe_from, same_head, tokeniser_from

ENDINGS = {".npz": IMAGES, ".csv": ROWS, ".txt": TEXTS, ".tsv": TEXTS, ".jsonl": TEXTS}  # of files


def load_for(recipe: Recipe, name: str, tokeniser: Tokeniser | None = None) -> Dataset:
    """The data set of this name as the recipe's model reads it. A tokeniser is made from texts, unless one is given."""
    check_task(recipe)
    wanted = recipe.model.input.reads
    if read := own_reader(name):
        found = read(name)
        if isinstance(found, Texts):
            return encoded(recipe, found, tokeniser)
        if found.holds not in ("", wanted):
            raise not_readable(recipe.model, name, found.holds)
        return found
    if held(name, wanted) not in ("", wanted):
        raise not_readable(recipe.model, name, held(name, wanted))
    if is_token_folder(expanded(name)):
        return from_tokens(recipe, name, tokeniser)
    if wanted == IMAGES:
        return load(name)
    if name == ARRAYS:
        raise DataError(
            f"the run was trained on {wanted} given in Python, which no file holds; go on with it by "
            f"glassformer.train.fit.resume(RUN, data=…); a file of that name is ./{ARRAYS}"
        )
    if wanted == TEXTS:
        return encoded(recipe, load_texts(name), tokeniser)
    if wanted != ROWS:
        raise DataError(
            f"{name}: nothing reads {wanted} from it; register a reader for the name or the file's ending: "
            '@register.data(".wav")'
        )
    if is_iris(name):
        return load_iris(name)
    return load_csv(expanded(name), name=name, numbers=recipe.output_axis == "numbers")


def from_arrays(recipe: Recipe, arrays: Sequence[Any]) -> Dataset:
    """Samples and labels for training, samples and labels for testing, as the recipe's model reads them."""
    reads, numbers = recipe.model.input.reads, recipe.output_axis == "numbers"
    if reads == TEXTS:
        raise DataError(f"fit: arrays came, and {type(recipe.model).__name__} reads texts; give Texts, or a path")
    if len(arrays) != 4:
        raise DataError(
            f"fit: {len(arrays)} arrays came, expected four: train {reads}, train labels, test {reads}, test labels"
        )
    train, train_labels, test, test_labels = map(np.asarray, arrays)
    if reads == IMAGES:
        return make_dataset(ARRAYS, Samples(train, train_labels), Samples(test, test_labels), numbers=numbers)
    if reads == ROWS:
        return make_table(ARRAYS, Table(train, train_labels), Table(test, test_labels), numbers=numbers)
    given = Dataset(ARRAYS, Arrays(train, train_labels), Arrays(test, test_labels), classes=())
    return with_labels(given, numbers=numbers)


def encoded(recipe: Recipe, texts: Texts, tokeniser: Tokeniser | None = None) -> Dataset:
    """Texts as arrays, for the recipe's task."""
    text: Any = recipe.model.input
    if text.reads != TEXTS:
        raise not_readable(recipe.model, texts.name, TEXTS)
    if tokeniser is None and recipe.start:
        tokeniser = tokeniser_from(recipe.start)  # its weights know these symbols
    if tokeniser is None:
        strings = [string for example in texts.train for string in recipe.task.strings(example) if string]
        tokeniser = (recipe.tokeniser or Characters()).train(strings, texts.marks)
    tokeniser = recipe.task.equipped(tokeniser)
    train, test, classes, notes = recipe.task.encode(texts, tokeniser, text.context)
    recipe.task.must_have_samples(f"{texts.name}, its training part", train)
    recipe.task.must_have_samples(f"{texts.name}, its test part", test)
    return Dataset(texts.name, train, test, classes, tokeniser, notes=notes)


def from_tokens(recipe: Recipe, name: str, tokeniser: Tokeniser | None) -> Dataset:
    """Tokens in files, for the recipe's task; a run that goes on from another must have had the same tokeniser."""
    text: Any = recipe.model.input
    if text.reads != TEXTS:
        raise not_readable(recipe.model, name, TEXTS)
    tokens, made_with = open_tokens(expanded(name))
    before = tokeniser_from(recipe.start) if tokeniser is None and recipe.start else tokeniser
    if before is not None and before.to_json() != made_with.to_json():
        raise DataError(
            f"{name}: its tokens were made with another tokeniser than the run's; tokenise the text with the run's: "
            "`glassformer data tokenise FILES --tokeniser RUN --out FOLDER`"
        )
    train, test, classes, _ = recipe.task.from_tokens(tokens, text.context)
    recipe.task.must_have_samples(f"{name}, its training part", train)
    recipe.task.must_have_samples(f"{name}, its test part", test)
    return Dataset(name, train, test, classes, made_with)


def resolved(recipe: Recipe, data: Dataset) -> Recipe:
    """The recipe with the data's own sizes in the model; here it is whole, and checked."""
    recipe.optimiser.must_use_its_settings()
    check_task(recipe)
    reads = recipe.model.input.reads
    if data.holds not in ("", reads):
        raise not_readable(recipe.model, data.name, data.holds)
    if recipe.training.shift and reads != IMAGES:
        raise SettingError("training: shift moves images, and this model reads none; set it back: training.shift=0")
    if recipe.training.augment != Augment() and reads != IMAGES:
        raise SettingError("training: augment changes images, and this model reads none; leave training.augment out")
    if recipe.validation.share:  # now, rather than when the first epoch is over
        for part, samples in zip(("leaves", "holds out"), hold_out(data.train, recipe.validation.share), strict=True):
            recipe.task.must_have_samples(f"{data.name}, what validation {part}", samples)
    if recipe.training.subset:
        which = f"{data.name}, of which training.subset takes {recipe.training.subset:,}"
        recipe.task.must_have_samples(which, split(recipe, data)[0])
    if reads == TEXTS:
        recipe = dataclasses.replace(recipe, tokeniser=recipe.tokeniser or Characters())
        if recipe.start:  # its table may be padded with rows that no symbol has
            data = data._replace(vocabulary=recipe_from(recipe.start).model.input.vocabulary)  # pyright: ignore
    model = recipe.task.fitted(recipe.model.for_data(data, recipe.task.name))
    recipe = dataclasses.replace(recipe, model=model)
    recipe.loss  # noqa: B018  it may refuse
    recipe = dataclasses.replace(recipe, tune=resolved_tune(recipe))
    recipe.learning.must_name(param_shapes(recipe.network))
    weights_must_fit(recipe.model)
    recipe = dataclasses.replace(recipe, training=with_steps(recipe, data) or with_batch_of(recipe, data))
    if recipe.training.batch < recipe.task.least:
        raise SettingError(
            f"training: batch is {recipe.training.batch}, and {recipe.task.name} compares the samples of a batch with "
            f"each other; expected {recipe.task.least} or more"
        )
    must_survive(recipe)
    return recipe


def with_steps(recipe: Recipe, data: Dataset) -> Training | None:
    """Where updates are counted: as many epochs of `score_every` as they make; None where epochs are counted.

    Of text in files updates are always counted: as many as the recipe's epochs have, where it names none.
    """
    training, task = recipe.training, recipe.task
    in_files = any(isinstance(field, TokenStream) for field in data.train)
    if not training.steps and not in_files:
        return None
    if not task.by_steps:
        raise SettingError(
            f"training: steps is {training.steps}, and the task {task.name} is learned in epochs of its samples; set "
            "it back: training.steps=0"
        )
    train, _ = split(recipe, data)
    of_epoch = -(-(training.samples or task.count(train)) // training.samples_of_update)
    steps = training.steps or training.epochs * of_epoch
    every = min(of_epoch if training.samples else training.score_every, steps)
    return dataclasses.replace(training, steps=steps, score_every=every, epochs=-(-steps // every))


def resolved_tune(recipe: Recipe) -> Tune:
    """With the head among what learns, where it belongs to the task or is new."""
    if recipe.tune == Full():
        return recipe.tune
    if not recipe.start:
        raise SettingError(
            f"tune: {registry.kind_of(type(recipe.tune))} came, and no run to start from: with fresh weights all "
            "learns; name a run: --from RUN (in Python start=RUN)"
        )
    is_new = not same_head(RunFolder(Path(recipe.start)).recipe(), recipe)
    return recipe.tune.with_head(recipe.model, own=is_new or recipe.output_axis != "symbols")


def with_batch_of(recipe: Recipe, data: Dataset) -> Training:
    """A batch of no more samples than an epoch has, and no more batches to an update: memory is taken for all of it."""
    training, (train, _) = recipe.training, split(recipe, data)
    most = training.of_an_epoch(recipe.task.count(train))
    batch = max(1, min(training.batch, most))
    return dataclasses.replace(training, batch=batch, accumulate=max(1, min(training.accumulate, -(-most // batch))))


def held(name: str, wanted: str) -> str:
    """What data of this name is made of; nothing where it would have to be opened to tell."""
    if name in KNOWN:
        return IMAGES
    if name in KNOWN_TEXTS:
        return TEXTS
    if is_iris(name):
        return ROWS
    path = existing(name)
    if path is None or not path.is_file() or (path.suffix == ".csv" and wanted == TEXTS):
        return ""  # CSV may hold numbers, or pairs of texts
    return ENDINGS.get(path.suffix, "")


def not_readable(model: Network, name: str, there: str) -> DataError:
    readers = ", ".join(kind for kind, cls in registry.registered("model").items() if reads(cls) == there)
    return DataError(
        f"{name}: it holds {there}, and {type(model).__name__} reads {model.input.reads}; "
        f"{there} are read by {readers}: choose one of them, or other data"
    )


def reads(cls: type[Network]) -> str:
    try:
        return cls().input.reads
    except TypeError:  # it has settings without defaults
        return ""


def check_task(recipe: Recipe) -> None:
    task, does = recipe.task.name, recipe.model.tasks
    if task not in does:
        raise SettingError(
            f"task: {task} came, and {type(recipe.model).__name__} does {', '.join(does)}; "
            f"say --task {does[0]}, or choose another model"
        )


def is_iris(name: str) -> bool:
    return name.partition(":")[0] == "iris"


def lasting_name(name: str) -> str:
    """The canonical name of a data set, which means the same from any folder."""
    if is_iris(name) or registry.find("data", name.partition(":")[0]):
        return name
    return lasting_text_name(name) if is_text(name) else of_images(name)
