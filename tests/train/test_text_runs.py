"""Whole runs on texts and tables, one of each family: they learn, they resume, they start from one another."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import glassformer
from glassformer.data import Dataset
from glassformer.data.iris import load_iris
from glassformer.data.table import Table, load_csv
from glassformer.data.tokeniser_training import BytePairs, Characters
from glassformer.errors import CheckpointError, DataError, EngineError, SettingError, ShapeError
from glassformer.models import (
    BERT,
    GPT,
    MLP,
    T5,
    BERTFor,
    ClassHead,
    MaskedHead,
    RecurrentClassifier,
    RecurrentLM,
    SpanHead,
    TagHead,
    TinyIris,
    ViT,
)
from glassformer.models.model import Network
from glassformer.names import named_leaves
from glassformer.train import fit, loop
from glassformer.train.best_epoch import after_epoch, best
from glassformer.train.jax_engine import Batches, JaxEngine
from glassformer.train.listener import InterruptedRunError, Listener
from glassformer.train.loop import Loop
from glassformer.train.presets import preset
from glassformer.train.recipe import Engine, Recipe, Training, Validation, with_seed
from glassformer.train.resolve import encoded, lasting_name, load_for, resolved
from glassformer.train.rng import Threefry
from glassformer.train.run_folder import Progress, Row, RunFolder
from glassformer.train.score import Score
from glassformer.train.tasks import Classify, Masked, NextToken, Span, Tag, Task, Translate
from glassformer.train.warm_start import recipe_from, warm_start
from glassformer.train.weights import load_arrays

from .small import Stop, assert_same_run, small_data
from .small_texts import ready, small_text_recipe, small_texts
from .test_settings import through_toml

EPOCHS = 30  # after which small texts are known by heart, or nearly
FILES = {"recipe.toml", "model.safetensors", "state.safetensors", "log.csv", "metrics.json", "curves.png"}
TEXT_PRESETS = ("gpt-nano", "bert-nano", "t5-nano", "lstm-nano")
slow = pytest.mark.slow


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A run of each kind, trained when it is first asked for, tested on what it was trained on."""
    folder = tmp_path_factory.mktemp("learned")

    def run(kind: str) -> Path:
        if not (folder / kind).exists():
            recipe, data = ready(small_text_recipe(kind, epochs=EPOCHS, share=0.0), small_texts(by_heart=True))
            fit.train(recipe, data, folder / kind, Listener())
        return folder / kind

    return run


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A run of each kind that has taken no step, made when it is first asked for."""
    folder = tmp_path_factory.mktemp("first")
    return cache(lambda kind: begun(*ready(small_text_recipe(kind), small_texts(by_heart=True)), folder / kind))


def log_of(run: Path) -> list[dict[str, str]]:
    names, *lines = (run / "log.csv").read_text().splitlines()
    return [dict(zip(names.split(","), line.split(","), strict=True)) for line in lines]


@pytest.mark.parametrize(
    ("kind", "share", "accuracy"),
    [
        ("gpt", 0.3, 0.7),  # the second half of a number cannot be known
        pytest.param("lstm", 0.3, 0.7, marks=slow),
        pytest.param("masked", 0.6, 0.4, marks=slow),
        pytest.param("classify", 0.6, 0.8, marks=slow),
        ("tag", 0.01, 0.99),
        pytest.param("span", 0.05, 0.9, marks=slow),
        pytest.param("t5", 0.3, 0.5, marks=slow),  # every digit and the end
        pytest.param("reader", 0.5, 0.9, marks=slow),
        ("iris", 0.2, 0.85),
    ],
)
def test_every_family_learns(kind: str, share: float, accuracy: float, learned: Callable[[str], Path]) -> None:
    """`share` is what is left of the first epoch's loss."""
    run = learned(kind)
    losses = [float(row["loss"]) for row in log_of(run)]
    assert len(losses) == EPOCHS
    assert losses[-1] < share * losses[0]
    assert glassformer.load(run).metrics["test_accuracy"] > accuracy


def test_what_the_folder_of_a_run_on_texts_holds(learned: Callable[[str], Path]) -> None:
    path = learned("gpt")
    assert {file.name for file in path.iterdir()} == FILES | {"tokenizer.json"}
    recipe, data = ready(small_text_recipe("gpt", epochs=EPOCHS, share=0.0), small_texts(by_heart=True))
    run = glassformer.load(path)
    assert run.recipe == recipe
    assert run.recipe.tokeniser == Characters()
    assert run.classes == ()
    assert run.tokeniser is not None
    assert data.tokeniser is not None
    assert run.tokeniser.to_json() == data.tokeniser.to_json()
    assert run.tokeniser.decode(run.tokeniser.encode("<up> four six")) == "<up> four six"
    assert (run.metrics["task"], run.metrics["engine"]) == ("next-token", "jax")
    with pytest.raises(DataError, match=r"gpt: GPT reads texts \(task next-token\), not images"):
        run.predict(np.zeros((1, 8, 8, 1), np.uint8))


def test_what_the_folder_of_a_run_on_a_table_holds(learned: Callable[[str], Path]) -> None:
    path = learned("iris")
    assert {file.name for file in path.iterdir()} == FILES
    run = glassformer.load(path)
    assert (run.tokeniser, run.classes) == (None, ("setosa", "versicolor", "virginica"))
    with pytest.raises(ShapeError, match=r"predict: .*of shape \(1, 8, 8, 1\) came, expected floats \(batch, 4\)"):
        run.predict(np.zeros((1, 8, 8, 1), np.uint8))
    score = run.score()
    assert score.accuracy == pytest.approx(run.metrics["test_accuracy"])
    assert score.loss == pytest.approx(run.metrics["test_loss"], rel=1e-5)
    assert run.score("iris:3") != score


@pytest.mark.parametrize(
    "kind", ["gpt", "iris", *(pytest.param(kind, marks=slow) for kind in ("masked", "t5", "reader", "lstm", "span"))]
)
def test_a_run_that_was_stopped_goes_on_to_the_bit(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped within the second epoch: offsets, masks and dropout go on where they stood."""
    texts = small_texts(by_heart=True)
    recipe, data = ready(small_text_recipe(kind, epochs=3, share=0.0), texts)
    fit.train(recipe, data, tmp_path / "whole", Listener())
    assert len(log_of(tmp_path / "whole")) == 3

    monkeypatch.setattr(loop, "CHUNK_SECONDS", 0.0)  # one step at a time
    stop = Stop(after=0)
    made = Loop(recipe, data, RunFolder(tmp_path / "run"), stop)
    made.steps_at_once, stop.left = 1, made.engine.steps + 2
    made.begin()
    with pytest.raises(InterruptedRunError, match="stopped in epoch 2 and saved"):
        fit.finish(made)
    fit.resume(tmp_path / "run", Listener(), data="iris" if kind == "iris" else texts)
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_other_texts_than_the_run_was_begun_with_are_refused(learned: Callable[[str], Path]) -> None:
    texts = small_texts(by_heart=True)
    others = texts._replace(train=(*texts.train[1:], texts.train[0]))
    with pytest.raises(CheckpointError, match="the training data of numbers is not what the run was begun with"):
        fit.resume(learned("gpt"), data=others)
    before = glassformer.load(learned("gpt")).metrics
    assert fit.resume(learned("gpt"), data=texts) == before


def test_an_epoch_of_some_samples_draws_them_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten of 94 rows: three steps of four, the last of two."""
    orders: list[np.ndarray] = []

    def batches(engine: JaxEngine, given: list[np.ndarray], epoch: int, batches: Any = JaxEngine.batches) -> Batches:
        orders.append(given[0])
        return batches(engine, given, epoch)

    monkeypatch.setattr(JaxEngine, "batches", batches)
    recipe, data = ready(small_text_recipe("iris", epochs=4, samples=10))
    fit.train(recipe, data, tmp_path, Listener())
    assert [len(order) for order in orders] == [10] * 4
    assert all(len(set(order)) == 10 for order in orders)
    assert len({tuple(order) for order in orders}) == 4
    assert set(np.concatenate(orders)) <= set(range(94))
    assert len(set(np.concatenate(orders))) > 30
    state = named_leaves(load_arrays(tmp_path / "state.safetensors")[0])
    assert int(next(array for name, array in state.items() if name.endswith("count"))) == 4 * 3


def test_more_samples_than_there_are() -> None:
    assert Training(samples=100).of_an_epoch(36) == 36
    recipe, data = ready(small_text_recipe("gpt", samples=100))
    assert JaxEngine(recipe, data.train, (1,)).count == NextToken().count(data.train)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lstm", *(pytest.param(kind, marks=slow) for kind in ("gpt", "masked", "tag", "t5"))])
def test_several_seeds_at_once_are_the_runs_of_each(kind: str, tmp_path: Path) -> None:
    recipe, data = ready(small_text_recipe(kind, epochs=1))
    together = fit.train_many(recipe, data, tmp_path / "many", (4, 0), Listener())
    for seed, run in zip((4, 0), together["runs"], strict=True):
        alone = fit.train(with_seed(recipe, seed), data, tmp_path / f"{seed}", Listener())
        assert run["seed"] == seed
        for name in ("loss", "test_loss", "val_loss", "test_accuracy"):
            assert run[name] == pytest.approx(alone[name], rel=1e-3), name
        one, other = (glassformer.load(tmp_path / path) for path in (f"many/seed-{seed}", f"{seed}"))
        assert one.recipe == other.recipe
        assert one.tokeniser is not None
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-3), one.params, other.params)
    assert together["test_loss"] == pytest.approx(np.mean([run["test_loss"] for run in together["runs"]]))


def first_weights(recipe: Recipe, data: Dataset, path: Path) -> dict[str, np.ndarray]:
    Loop(recipe, data, RunFolder(path), Listener()).begin()
    arrays, _ = load_arrays(path / "state.safetensors")
    return {name.removeprefix("state.params."): array for name, array in arrays.items() if ".params." in name}


def begun(recipe: Recipe, data: Dataset, path: Path) -> Path:
    """A run whose kept weights are its first: enough to start from."""
    made = Loop(recipe, data, RunFolder(path), Listener())
    made.begin()
    made.folder.save_model(recipe, made.state.params, data.classes, 0)
    return path


@pytest.mark.parametrize(
    ("old", "new"), [("masked", "tag"), ("masked", "masked"), ("classify", "tag"), ("classify", "classify")]
)
def test_another_task_takes_over_all_but_the_head(old: str, new: str, tmp_path: Path) -> None:
    """The same task takes over the head too. Classes and tags are three each: their heads would fit each other."""
    texts = small_texts()._replace(classes=("even", "odd", "neither"))
    recipe, data = ready(small_text_recipe(old, seed=8), texts)
    start = begun(recipe, data, tmp_path / "start")
    recipe, data = ready(replace(small_text_recipe(new), start=str(start)), texts)
    found = first_weights(recipe, data, tmp_path / "run")
    had = named_leaves(glassformer.load(start).params)
    fresh = named_leaves(Threefry(recipe.training.seed).init(recipe.model))
    assert found.keys() == fresh.keys()
    assert {name.partition(".")[0] for name in found} == {"bert", "head"}
    for name, array in found.items():
        expected = had[name] if new == old or name.startswith("bert.") else fresh[name]
        np.testing.assert_array_equal(array, expected, err_msg=name)
    assert not np.array_equal(had["bert.embed.emb"], fresh["bert.embed.emb"])


@pytest.mark.parametrize("how", ["recipe", "recipe_from"])
def test_a_table_with_more_rows_than_symbols_stays_as_large(how: str, tmp_path: Path) -> None:
    """As in models from elsewhere. A recipe of one's own need not say how large it is."""
    recipe, data = ready(small_text_recipe("masked"))
    larger = resolved(recipe, data._replace(tokeniser=BytePairs(300).train(["four"] * 9)))
    assert larger.model.bert.text.vocabulary > 25  # pyright: ignore
    begun(larger, data, tmp_path / "start")
    recipe = replace(small_text_recipe("tag"), start=str(tmp_path / "start"))
    if how == "recipe_from":
        recipe = replace(recipe_from(tmp_path / "start"), task=Tag())
    assert ready(recipe)[0].model.bert.text == larger.model.bert.text  # pyright: ignore
    first_weights(*ready(recipe), tmp_path / "run")


@pytest.mark.slow
def test_a_head_of_another_size_starts_anew(learned: Callable[[str], Path]) -> None:
    """The same task, with a class more: the layer that names the classes is fresh, the rest is not."""
    start, texts = learned("tag"), small_texts()._replace(parts=("tens", "ones", "hundreds"))
    recipe, _ = ready(replace(small_text_recipe("tag"), start=str(start)), texts)
    fresh = Threefry(1).init(recipe.model)
    found = warm_start(recipe, fresh)
    assert found.head.classify.w.shape == (16, 4)
    np.testing.assert_array_equal(found.head.classify.w, fresh.head.classify.w)
    np.testing.assert_array_equal(found.bert.embed.emb, glassformer.load(start).params.bert.embed.emb)


def test_a_classifier_starts_from_a_language_model(tmp_path: Path) -> None:
    """They share the reader."""
    recipe, data = ready(small_text_recipe("lstm", seed=8))
    begun(recipe, data, tmp_path / "lm")
    model = RecurrentClassifier(recipe.model.text, width=16, hidden=16, depth=1)  # pyright: ignore
    reader = replace(small_text_recipe("reader"), model=model, start=str(tmp_path / "lm"))
    found = first_weights(*ready(reader), tmp_path / "classifier")
    old = named_leaves(glassformer.load(tmp_path / "lm").params)
    shared = [name for name in found if name.startswith("reader.")]
    assert set(found) - set(shared) == {"head.w", "head.b"}
    for name in shared:
        np.testing.assert_array_equal(found[name], old[name])


@pytest.mark.slow
def test_from_python_a_run_starts_from_another(learned: Callable[[str], Path], tmp_path: Path) -> None:
    """Its model, its symbols, its settings but for those that are given."""
    start = learned("masked")
    texts = small_texts()._replace(train=tuple(e for e in small_texts().train if "six" not in e.text))
    settings = {"training__epochs": 1, "model__dropout": 0.0, "optimiser__lr": 0.01}
    run = glassformer.fit(data=texts, start=start, task="tag", out=tmp_path / "run", **settings)
    assert run.recipe.start == str(start)
    assert isinstance(run.model, BERTFor)
    assert run.model.head == TagHead(16, classes=3)
    assert run.classes == ("other", "tens", "ones")
    assert (run.tokeniser.to_json()) == (start / "tokenizer.json").read_text()  # pyright: ignore
    assert run.recipe.training == replace(RunFolder(start).recipe().training, epochs=1)
    assert recipe_from(run.path).model == run.model.bert


@pytest.mark.parametrize("how", ["recipe", "keyword"])
def test_symbols_are_those_of_the_run_it_starts_from(how: str, first: Callable[[str], Path]) -> None:
    """A tokeniser made of other texts may be as large and mean something else."""
    start = first("masked")
    others = small_texts()._replace(train=tuple(e._replace(text=e.text.replace("x", "y")) for e in small_texts().train))
    recipe = replace(small_text_recipe("tag"), start=str(start) if how == "recipe" else "")
    data = fit.as_dataset(others, recipe, fit.tokeniser_from(start) if how == "keyword" else None)
    assert data.tokeniser is not None
    assert data.tokeniser.to_json() == (start / "tokenizer.json").read_text()


@pytest.mark.parametrize(
    ("change", "name", "came"),
    [
        ({"width": 8}, "bert.embed.emb", r"has shape \(25, 16\) there, and this model needs \(25, 8\)"),
        ({"depth": 2}, "bert.blocks.1.attn.w_q", r"is not there, and this model needs \(16, 16\)"),
    ],
)
def test_a_start_of_another_size(
    change: dict[str, Any], name: str, came: str, first: Callable[[str], Path], tmp_path: Path
) -> None:
    recipe = small_text_recipe("tag")
    start = first("masked")
    recipe = replace(recipe, model=replace(recipe.model, **change), start=str(start))  # pyright: ignore
    with pytest.raises(
        CheckpointError, match=rf"{start}: '{name}' {came}; start from a run of the same model: BERTFor"
    ):
        fit.train(*ready(recipe), tmp_path / "run", Listener())
    assert not (tmp_path / "run").exists()


def test_a_start_with_another_vocabulary(first: Callable[[str], Path], tmp_path: Path) -> None:
    recipe, texts = replace(small_text_recipe("tag"), start=str(first("masked"))), small_texts()
    data = encoded(recipe, texts, BytePairs(280).train([e.text for e in texts.train], texts.marks))
    with pytest.raises(CheckpointError, match=r"'bert.embed.emb' has shape \(25, 16\) there, .* the same tokeniser"):
        fit.train(resolved(recipe, data), data, tmp_path / "run", Listener())
    assert not (tmp_path / "run").exists()


def test_a_start_of_another_model(first: Callable[[str], Path], tmp_path: Path) -> None:
    recipe = replace(small_text_recipe("gpt"), start=str(first("reader")))
    with pytest.raises(CheckpointError, match=r"'embed.emb' is not there, .* same model: RecurrentClassifier"):
        fit.train(*ready(recipe), tmp_path / "run", Listener())


@pytest.mark.parametrize(
    ("model", "task", "does"),
    [
        (
            GPT(),
            Masked(),
            "masked came, and GPT does next-token, answer, chat; say --task next-token, or choose another model",
        ),
        (RecurrentLM(), Classify(), "classify came, and RecurrentLM does next-token"),
        (RecurrentClassifier(), NextToken(), "next-token came, and RecurrentClassifier does classify"),
        (T5(), Span(), "span came, and T5 does translate"),
        (BERT(), Translate(), "translate came, and BERT does masked, classify, tag, span, contrast; say --task masked"),
        (BERTFor(BERT(), SpanHead(768)), NextToken(), "next-token came, and BERTFor does span, masked, classify, tag"),
        (ViT(), Tag(), "tag came, and ViT does classify, regress; say --task classify"),
        (TinyIris(), Masked(), "masked came, and TinyIris does classify"),
    ],
)
def test_a_task_that_is_not_for_the_model(model: Network, task: Task, does: str) -> None:
    recipe = Recipe(model=model, task=task)
    with pytest.raises(SettingError, match=f"task: {does}"):
        load_for(recipe, "nothing is looked for")
    with pytest.raises(SettingError, match=f"task: {does}"):
        resolved(recipe, small_data())


READ_TEXTS = (
    "texts are read by gpt, llama, bert, t5, recurrent, recurrent-classifier: choose one of them, or other data"
)
READ_IMAGES = "images are read by mlp, patch_attention, vit, patch_block: choose one of them, or other data"
READ_ROWS = "rows of numbers are read by tiny_iris: choose one of them, or other data"


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("vit-nano", "pydoc", f"pydoc: it holds texts, and ViT reads images; {READ_TEXTS}"),
        ("mlp", "{}/book.txt", f"book.txt: it holds texts, and MLP reads images; {READ_TEXTS}"),
        ("vit-nano", "iris", f"iris: it holds rows of numbers, and ViT reads images; {READ_ROWS}"),
        ("vit-nano", "{}/rows.csv", f"rows.csv: it holds rows of numbers, and ViT reads images; {READ_ROWS}"),
        ("gpt-nano", "mnist-mini", f"mnist-mini: it holds images, and GPT reads texts; {READ_IMAGES}"),
        ("gpt-nano", "{}/some.npz", f"some.npz: it holds images, and GPT reads texts; {READ_IMAGES}"),
        ("bert-nano", "iris:3", f"iris:3: it holds rows of numbers, and BERT reads texts; {READ_ROWS}"),
        ("iris", "dates", f"dates: it holds texts, and TinyIris reads rows of numbers; {READ_TEXTS}"),
        ("iris", "mnist", f"mnist: it holds images, and TinyIris reads rows of numbers; {READ_IMAGES}"),
        ("iris", "{}", "cannot be read: Is a directory; expected a CSV file"),
        ("iris", "no.csv", "no.csv: there is no such file; expected a CSV file"),
        ("gpt-nano", "{}", "it is a folder; expected a text file in UTF-8"),
        ("vit-nano", "{}/other.bin", "a file of this kind cannot be read as a data set"),
        ("vit-nano", "no.txt", "no.txt: there is no such file or folder"),
        ("t5-nano", "pydoc", "pydoc: its texts have no targets, which this task needs"),
    ],
)
def test_data_that_the_model_does_not_read(name: str, data: str, message: str, tmp_path: Path) -> None:
    for file in ("book.txt", "rows.csv", "some.npz", "other.bin"):
        (tmp_path / file).write_text("1,2,yes\n")
    with pytest.raises(DataError) as error:
        load_for(preset(name), data.format(tmp_path))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        (GPT(), small_data(), f"small: it holds images, and GPT reads texts; {READ_IMAGES}"),
        (GPT(), load_iris(), f"iris: it holds rows of numbers, and GPT reads texts; {READ_ROWS}"),
        (TinyIris(), small_data(), f"small: it holds images, and TinyIris reads rows of numbers; {READ_IMAGES}"),
        (MLP(), load_iris(), f"iris: it holds rows of numbers, and MLP reads images; {READ_ROWS}"),
        (MLP(), "texts", f"numbers: it holds texts, and MLP reads images; {READ_TEXTS}"),
        (TinyIris(), "texts", f"numbers: it holds texts, and TinyIris reads rows of numbers; {READ_TEXTS}"),
    ],
)
def test_a_data_set_that_the_model_does_not_read(model: Network, data: Any, message: str) -> None:
    if data == "texts":
        with pytest.raises(DataError) as error:
            encoded(Recipe(model=model), small_texts())
        assert message in str(error.value)
        _, data = ready(small_text_recipe("reader"))
    task = NextToken() if isinstance(model, GPT) else Classify()
    with pytest.raises(DataError) as error:
        resolved(Recipe(model=model, task=task), data)
    assert message in str(error.value)


def test_texts_given_in_python_are_not_looked_for(learned: Callable[[str], Path], tmp_path: Path) -> None:
    assert lasting_name("numbers") == "arrays"
    with pytest.raises(DataError, match=r"trained on texts given in Python, which no file holds; .*fit\.resume"):
        load_for(small_text_recipe("gpt"), "arrays")
    with pytest.raises(DataError, match="trained on rows of numbers given in Python"):
        load_for(small_text_recipe("iris"), "arrays")


def test_images_cannot_be_shifted_where_there_are_none() -> None:
    with pytest.raises(SettingError, match=r"training: shift moves images, .*training\.shift=0"):
        ready(small_text_recipe("gpt", shift=1))


def test_the_native_engine_says_that_it_cannot(tmp_path: Path) -> None:
    recipe, data = ready(replace(small_text_recipe("lstm"), engine=Engine(name="native")))
    with pytest.raises(EngineError, match=r"the native engine has no .* yet"):
        fit.train(recipe, data, tmp_path / "run", Listener())


@pytest.mark.slow
def test_a_text_file_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "book.txt").write_text("".join(f"{e.text}\n" for e in (*small_texts().train, *small_texts().test)))
    monkeypatch.chdir(tmp_path)
    sizes: dict[str, Any] = {"model__width": 16, "model__hidden": 16, "model__text__context": 8}
    run = glassformer.fit("lstm-nano", "book.txt", out="run", training__epochs=1, training__samples=20, **sizes)
    assert run.recipe.data == str(tmp_path / "book.txt")
    loss = run.metrics["test_loss"]
    monkeypatch.chdir("/")
    score = glassformer.load(tmp_path / "run").score()
    assert score.loss == pytest.approx(loss, rel=1e-5)
    assert 1 < score.loss < np.log(30)


@pytest.mark.parametrize("name", [*TEXT_PRESETS, "iris"])
def test_every_preset_survives_its_own_file(name: str) -> None:
    given = preset(name)
    data = load_iris() if name == "iris" else encoded(given, small_texts()._replace(train=small_texts().train * 9))
    recipe = resolved(given, data)
    assert through_toml(recipe) == recipe
    if name == "iris":
        assert recipe.tokeniser is None
        assert recipe.model.columns.mean == pytest.approx(data.train.x.mean(axis=0), rel=1e-6)  # pyright: ignore
    elif name == "bert-nano":
        assert recipe.model == BERTFor(replace(given.model, text=text_of(25)), MaskedHead(64, 25))  # pyright: ignore
    else:
        assert recipe.model == replace(given.model, text=text_of(25))  # pyright: ignore


def text_of(vocabulary: int) -> Any:
    return replace(GPT().text, vocabulary=vocabulary, context=64)


@pytest.mark.parametrize(
    ("task", "head"),
    [
        (Classify(), ClassHead(16, 2)),
        (Tag(), TagHead(16, 3)),
        (Span("ones"), SpanHead(16)),
        (Masked(0.3), MaskedHead(16, 25)),
    ],
)
def test_bert_gets_the_head_of_its_task(task: Task, head: Any) -> None:
    recipe, data = ready(replace(small_text_recipe("tag"), task=task))
    assert isinstance(recipe.model, BERTFor)
    assert recipe.model.head == head
    assert recipe.model.bert.text.vocabulary == 25
    assert through_toml(recipe) == recipe
    assert resolved(recipe, data) == recipe


def test_other_tokenisers_and_models_survive_toml() -> None:
    small, texts = replace(small_text_recipe("reader"), tokeniser=BytePairs(280)), small_texts()
    data = encoded(small, texts, BytePairs(280).train([e.text for e in texts.train], texts.marks))
    recipe = replace(resolved(small, data), start="/some/run")
    assert through_toml(recipe) == recipe
    assert recipe.model.text.vocabulary == data.tokeniser.size > 263  # pyright: ignore
    assert recipe.model.classes == 2  # pyright: ignore


@slow
@pytest.mark.parametrize("name", [*TEXT_PRESETS, "iris"])
def test_every_preset_takes_a_step(name: str) -> None:
    given = replace(preset(name), optimiser=replace(preset(name).optimiser, schedule=Recipe().optimiser.schedule))
    data = load_iris() if name == "iris" else encoded(given, small_texts()._replace(train=small_texts().train * 9))
    recipe = resolved(replace(given, training=replace(given.training, samples=0)), data)
    engine = JaxEngine(recipe, data.train, (1,))
    params = Threefry(1).init(recipe.model)
    before = jax.tree.map(np.array, params)
    state, losses = engine.run(engine.start(params), engine.batches([np.arange(engine.total)], 1), 0, 2)
    assert np.isfinite(losses).all()
    changed = jax.tree.map(lambda a, b: bool(np.isfinite(b).all() and np.any(a != b)), before, state.params)
    assert sum(jax.tree.leaves(changed)) > 0.8 * len(jax.tree.leaves(changed))


def scored_rows(*scores: tuple[float, float]) -> tuple[Row, ...]:
    """By validation accuracy and loss."""
    return tuple(
        Row(i + 1, 1.0, 0.1, 0.5, accuracy, 0.01, test_loss=1.0, val_loss=loss)
        for i, (accuracy, loss) in enumerate(scores)
    )


@pytest.mark.parametrize(
    ("min_delta", "by_loss", "epoch"),
    [(0.0, True, 3), (0.0, False, 2), (4.0, True, 3), (6.0, True, 1), (25.0, False, 1)],
)
def test_the_epoch_that_is_kept(min_delta: float, by_loss: bool, epoch: int) -> None:
    rows = scored_rows((0.5, 2.0), (0.7, 1.98), (0.6, 1.95), (0.65, 1.96))
    assert best(rows, min_delta, by_loss=by_loss) == epoch


@pytest.mark.parametrize("task", [NextToken(), Masked(), Classify(), Tag(), Span(), Translate()])
def test_language_models_are_chosen_by_loss(task: Task) -> None:
    recipe = Recipe(task=task, training=Training(epochs=9), validation=Validation(patience=2))
    progress = Progress()
    for row in scored_rows((0.5, 2.0), (0.9, 3.0), (0.4, 1.0), (0.4, 1.5)):
        progress = after_epoch(recipe, progress, row)
        if progress.done:
            break
    by_loss = isinstance(task, NextToken | Masked)
    assert progress.best_epoch == (3 if by_loss else 2)
    assert progress.done == (not by_loss)  # two epochs have passed since the second


def test_the_best_weights_by_loss_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, data = ready(small_text_recipe("lstm", epochs=3))
    told = iter([(0.1, 3.0), (0.2, 1.0), (0.9, 2.0)])
    held_out = len(loop.split(recipe, data)[1].ids)  # pyright: ignore

    def score(engine: JaxEngine, params: object, samples: Any) -> Score:
        return Score(*next(told)) if len(samples.ids) == held_out else Score(0.25, 1.0)

    monkeypatch.setattr(JaxEngine, "score", score)
    result = fit.train(recipe, data, tmp_path, Listener())
    assert (result["best_epoch"], result["val_loss"], result["val_accuracy"]) == (2, 1.0, 0.2)
    assert load_arrays(tmp_path / "model.safetensors")[1]["epoch"] == 2


@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e6])
def test_columns_are_measured_in_their_own_unit(unit: float, tmp_path: Path) -> None:
    """Lengths in cm or in 10 km; a column that says nothing is left as it is."""
    iris = load_iris().train
    lines = [f"{','.join(repr(float(v) * unit) for v in x)},0.1,{label}" for x, label in zip(*iris, strict=True)]
    (tmp_path / "flowers.csv").write_text("\n".join(lines))
    data = load_csv(tmp_path / "flowers.csv")
    recipe = resolved(small_text_recipe("iris"), data)
    assert isinstance(data.train, Table)
    prepared, _ = recipe.model.columns.prepare.forward(None, data.train.x)  # pyright: ignore
    np.testing.assert_allclose(np.mean(prepared, axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(np.std(prepared, axis=0), [1, 1, 1, 1, 0], atol=1e-4)
    assert recipe.model.columns.count == 5  # pyright: ignore
    assert recipe.model.columns.std[4] == 1.0  # pyright: ignore
