"""A vector for each text, image or row: compared with the model's own forward of each input alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
import pytest

from glassformer.data import load as load_data
from glassformer.errors import DataError, SettingError
from glassformer.models import MLP, Images
from glassformer.names import named_leaves
from glassformer.native import encoder as native_encoder
from glassformer.predict import batches
from glassformer.predict.run import Run, load
from glassformer.train.resolve import encoded
from glassformer.train.run_folder import RunFolder
from glassformer.train.tasks import Embed, Tag
from glassformer.train.warm_start import warm_start

from ..programs import forward
from ..train.small_texts import small_text_recipe, small_texts
from ..train.text_runs import framed_ids, untrained

RAGGED = ["<up> one two", "<up> six", "<down>", "<down> two six", "<up> one", "<up> five one"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A BERT of the masked run, without its head."""
    masked = untrained(tmp_path_factory.mktemp("masked"), "masked")
    folder = RunFolder(tmp_path_factory.mktemp("encoder"))
    recipe = replace(masked.recipe, model=masked.model.backbone, task=Embed("mean", normalise=True), data="")
    assert masked.tokeniser
    folder.save_tokeniser(masked.tokeniser)
    folder.save_model(recipe, masked.params.bert, (), epoch=0)
    folder.save_recipe(recipe)
    return load(folder.path)


def tokens_of(run: Run, model: Any, params: Any, text: str) -> np.ndarray:
    return np.asarray(forward(model, params, np.array([framed_ids(run, text)]))[0], np.float64)


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_texts_of_any_length_in_their_order(
    encoder: Run, engine: Literal["native", "jax"], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = replace(encoder, engine=engine)
    tokens = [tokens_of(encoder, encoder.model, encoder.params, text) for text in RAGGED]
    assert len({len(one) for one in tokens}) > 3
    mean, first = (np.stack(rows) for rows in ([one.mean(axis=0) for one in tokens], [one[0] for one in tokens]))
    np.testing.assert_allclose(encoder.embed(RAGGED, normalise=False), mean, atol=1e-5)
    unit = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.embed(RAGGED), unit, atol=1e-5)
    np.testing.assert_allclose(encoder.embed(RAGGED, pooling="first", normalise=False), first, atol=1e-5)
    counts: list[int] = []
    monkeypatch.setattr(batches, "AT_ONCE", 16)
    monkeypatch.setattr(native_encoder, "AT_ONCE", 16)
    np.testing.assert_allclose(encoder.embed(RAGGED, listener=counts.append), unit, atol=1e-5)
    assert sum(counts) == len(RAGGED)
    assert len(counts) > 3


@pytest.mark.parametrize("kind", ["masked", "classify", "tag", "span"])
def test_of_a_model_with_a_head_what_goes_into_it(kind: str, tmp_path: Path) -> None:
    run = untrained(tmp_path, kind)
    model, params, text = run.model.backbone, run.params.bert, RAGGED[0]
    expected = tokens_of(run, model, params, text).mean(axis=0)
    np.testing.assert_allclose(run.embed([text])[0], expected, atol=1e-5)


def test_of_a_model_that_goes_on_with_texts(tmp_path: Path) -> None:
    run = untrained(tmp_path, "gpt")
    assert run.tokeniser
    counted = len(run.tokeniser.encode(RAGGED[0]))
    assert run.embed(RAGGED).shape == (len(RAGGED), 16)
    assert counted < run.model.example(1).shape[1]
    np.testing.assert_allclose(run.embed(RAGGED)[0], run.embed(RAGGED[:1])[0], atol=1e-5)


def test_images_and_rows(tmp_path: Path) -> None:
    run, images = load(), load_data("mnist-mini").test.images[:3]
    found, head = run.embed(images), run.params.head
    np.testing.assert_allclose(found @ head.w + head.b, run.logits(images), atol=1e-4)
    unit = run.embed(images, normalise=True)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-5)
    iris = untrained(tmp_path, "iris")
    rows, head = np.array([[5.1, 3.5, 1.4, 0.2], [6, 3, 4.8, 1.8]]), iris.params.head
    np.testing.assert_allclose(iris.embed(rows) @ head.w + head.b, iris.logits(rows), atol=1e-4)


def test_a_long_text_is_refused_or_cut(encoder: Run) -> None:
    text = "<up> one two six one"
    with pytest.raises(
        DataError, match=r"the text: '<up> one two six one' is \d+ symbols long, the run's context takes"
    ):
        encoder.embed([text])
    (found,) = encoder.embed([text], cut=True)
    assert encoder.tokeniser
    short = encoder.tokeniser.decode(encoder.tokeniser.encode(text)[:11])
    np.testing.assert_allclose(found, encoder.embed([short])[0], atol=1e-6)
    narrow = replace(encoder, recipe=replace(encoder.recipe, task=Embed(longest=5)))
    with pytest.raises(DataError, match="the run's context takes 3; shorten it by"):
        narrow.embed(["<up> one"])


def test_what_is_refused(encoder: Run, tmp_path: Path) -> None:
    for given, message in (
        ("one", "one text came, expected a list"),
        ([], "nothing came, expected one text or more"),
        (["<up>", ""], "text 2: there is nothing in it to read"),
        ([3], "3 came, expected a text"),
    ):
        with pytest.raises(DataError, match=message):
            encoder.embed(given)  # pyright: ignore[reportArgumentType]
    with pytest.raises(SettingError, match="pooling is 'max', expected mean or first"):
        encoder.embed(["<up>"], pooling="max")  # pyright: ignore[reportArgumentType]
    with pytest.raises(SettingError, match="ViT pools its tokens itself; leave out pooling='first'"):
        load().embed(np.zeros((1, 28, 28), np.uint8), pooling="first")
    with pytest.raises(DataError, match=r"T5 has no vector to embed by: it reads a pair of texts"):
        untrained(tmp_path / "t5", "t5").embed(["<up> one"])
    run = of_mlp(Headless(Images((4, 3, 1), classes=5), hidden=(7,)))
    with pytest.raises(DataError, match="Headless has no vector to embed by: no part of it is called head"):
        run.embed(np.zeros((1, 4, 3), np.uint8))


class Headless(MLP):
    @property
    def task_parts(self) -> tuple[str, ...]:
        return ("head",)  # and none of its parts is called so


def of_mlp(model: MLP) -> Run:
    return replace(load(), recipe=replace(load().recipe, model=model), params=model.init(jax.random.key(0)))


def test_an_mlp_gives_what_goes_into_its_last_layer() -> None:
    run, x = of_mlp(MLP(Images((4, 3, 1), classes=5), hidden=(7,))), np.full((2, 4, 3), 99, np.uint8)
    last = run.params.layers[1]
    np.testing.assert_allclose(run.embed(x) @ last.w + last.b, run.logits(x), rtol=1e-5)


def test_it_gives_no_answers(encoder: Run) -> None:
    for ask in (lambda: encoder.answer(["<up>"]), encoder.load_data, encoder.score, encoder.evaluate):
        with pytest.raises(DataError, match="this run gives embeddings, and no answers: glassformer embed "):
            ask()
    with pytest.raises(DataError, match="this task has no labels, and so no loss"):
        Embed().batch(None, np.arange(1))  # pyright: ignore[reportArgumentType]


def test_another_task_starts_from_the_encoder(encoder: Run) -> None:
    model = encoder.model.for_data(small_data(encoder), "tag")
    recipe = replace(small_text_recipe("tag"), model=model, task=Tag(), start=str(encoder.path))
    found = named_leaves(warm_start(recipe, model.init(jax.random.key(1))))
    for name, leaf in named_leaves(encoder.params).items():
        np.testing.assert_array_equal(found[f"bert.{name}"], leaf)


def small_data(run: Run) -> Any:
    return encoded(replace(run.recipe, task=Tag()), small_texts(), run.tokeniser)
