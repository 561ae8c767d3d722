"""Regression, float arrays, and parts of one's own: an input, a model, a task with its loss, a data reader."""

import csv
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import fit, load, register, registry
from glassformer.data.dataset import Arrays, Dataset
from glassformer.data.table import load_csv
from glassformer.data.texts import Example, Texts
from glassformer.errors import DataError, SettingError, ShapeError
from glassformer.layers import Linear, linear
from glassformer.losses import CrossEntropy, LabelSmoothing, Loss, MeanSquaredError
from glassformer.models import GPT, MLP, Input, Network, Text, TinyIris
from glassformer.names import at
from glassformer.train.fit import resume
from glassformer.train.recipe import Engine, Recipe, Training
from glassformer.train.resolve import from_arrays, load_for, resolved
from glassformer.train.tasks import Batch, Regress, Task

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(80, 3)) * [1, 10, 100] + 5
NUMBERS = ROWS @ [3.0, 0.2, -0.01] + 1
SMALL = TinyIris(tokens=2, width=4, heads=1)
QUICK = Training(epochs=2, batch=10)


pytestmark = pytest.mark.usefixtures("registry_as_it_was")


def test_regression_on_float_arrays_from_fit_to_predict(tmp_path: Path) -> None:
    recipe = Recipe(model=SMALL, task=Regress(), training=QUICK, engine=Engine(name="jax"))
    run = fit(recipe, (ROWS[:60], NUMBERS[:60], ROWS[60:], NUMBERS[60:]), out=tmp_path / "run")
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["test_accuracy"] is metrics["val_accuracy"] is None
    assert metrics["task"] == "regress"
    found = run.predict(ROWS[60:])
    assert found.shape == (20, 1)
    assert metrics["test_loss"] == pytest.approx(np.mean((found[:, 0] - NUMBERS[60:]) ** 2), rel=1e-5)
    with (tmp_path / "run" / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["test_accuracy"], row["val_accuracy"]) for row in rows] == [("", ""), ("", "")]
    best = min(rows, key=lambda row: float(row["val_loss"]))
    assert metrics["best_epoch"] == int(best["epoch"])
    assert load(tmp_path / "run").recipe == run.recipe
    with pytest.raises(DataError, match="the task regress has no classes"):
        run.evaluate_samples(Arrays(ROWS, NUMBERS))


def test_the_score_of_a_regression_goes_down() -> None:
    """Squares of hand: with the labels' mean for an answer, the loss is their variance."""
    y, labels = jnp.zeros((4, 1)), jnp.array([[1.0], [2.0], [3.0], [9.0]])
    weights = jnp.array([[1.0], [1.0], [1.0], [0.0]])
    assert float(MeanSquaredError().total(y, labels, weights)) == pytest.approx(14)
    assert float(MeanSquaredError().forward(None, y, labels=labels, weights=weights)[0]) == pytest.approx(14 / 3)
    assert float(MeanSquaredError().total(y, labels, 0 * weights)) == 0
    with pytest.raises(ShapeError, match=r"labels of shape \(4,\) came, expected one per number: \(4, 1\)"):
        MeanSquaredError().forward(None, y, labels=labels[:, 0])


def test_a_table_of_numbers_for_a_regression(tmp_path: Path) -> None:
    file = tmp_path / "houses.csv"
    file.write_text("rooms,price\n" + "\n".join(f"{i},{2 * i}.5" for i in range(10)))
    data = load_for(Recipe(model=SMALL, task=Regress()), str(file))
    assert (data.classes, data.train.x.shape, data.test.labels.shape) == (("price",), (7, 1), (3, 1))
    assert np.array_equal(data.train.labels, 2 * data.train.x + 0.5)
    assert set(data.train.x[:, 0]) | set(data.test.x[:, 0]) == set(range(10))
    file.write_text("rooms,price\n1,cheap\n2,dear\n")
    with pytest.raises(DataError, match=r"line 2, column 2 \(price\): 'cheap' is not a number"):
        load_csv(file, numbers=True)


def test_rows_that_are_classified(tmp_path: Path) -> None:
    labels = (NUMBERS.mean() < NUMBERS).astype(int)
    run = fit(
        Recipe(model=SMALL, training=QUICK), (ROWS[:60], labels[:60], ROWS[60:], labels[60:]), out=tmp_path / "run"
    )
    evaluation = run.evaluate(ROWS[60:], labels[60:])
    assert evaluation.accuracy == pytest.approx(run.metrics["test_accuracy"])
    assert run.predict(ROWS[60:]).shape == (20,)


def test_float_images_of_any_scale() -> None:
    images = RNG.normal(size=(20, 8, 8)) * 1e-3
    labels = np.arange(20) % 3
    recipe = Recipe(model=MLP(hidden=(4,)))
    data = from_arrays(recipe, (images, labels, images, labels))
    assert data.train.images.dtype == np.float32
    model = resolved(recipe, data).model
    pixels, _ = model.input.prepare.forward(None, jnp.asarray(data.train.images))  # pyright: ignore[reportAttributeAccessIssue]
    assert model.example(2).dtype == np.float32
    assert (float(pixels.mean()), float(pixels.std())) == (pytest.approx(0, abs=1e-4), pytest.approx(1, rel=1e-4))


WRONG = {
    "texts are no arrays": (Recipe(model=GPT()), (ROWS, NUMBERS, ROWS, NUMBERS), "GPT reads texts; give Texts"),
    "three arrays": (Recipe(model=SMALL), (ROWS, NUMBERS, ROWS), "3 arrays came, expected four: train rows of numbers"),
    "numbers for classes": (Recipe(model=SMALL), (ROWS, NUMBERS, ROWS, NUMBERS), "labels are float64 .*whole numbers"),
    "a row too few": (Recipe(model=SMALL), (ROWS[1:], NUMBERS, ROWS, NUMBERS), "rows are 79, their labels 80"),
    "not finite": (Recipe(model=SMALL), (ROWS * np.inf, NUMBERS, ROWS, NUMBERS), "no finite number of 32 bits"),
    "other columns": (Recipe(model=SMALL), (ROWS, NUMBERS, ROWS[:, 1:], NUMBERS), r"test rows are .*\(80, 2\)"),
    "whole pixels": (Recipe(), (np.zeros((2, 8, 8), int), [0, 1], np.zeros((2, 8, 8), int), [0, 1]), "or floats"),
}


@pytest.mark.parametrize("name", WRONG)
def test_arrays_that_do_not_fit(name: str) -> None:
    recipe, arrays, message = WRONG[name]
    with pytest.raises(DataError, match=message):
        from_arrays(recipe, arrays)


def test_which_loss_trains() -> None:
    assert Recipe().loss == CrossEntropy()
    assert Recipe(training=Training(label_smoothing=0.1)).loss == LabelSmoothing(0.1)
    assert Recipe(task=Regress()).loss == MeanSquaredError()
    assert Recipe(training=Training(loss=LabelSmoothing(0.3))).loss == LabelSmoothing(0.3)
    with pytest.raises(SettingError, match=r"smoothing is 0\.1, and the loss is MeanSquaredError; only cross-entropy"):
        Recipe(task=Regress(), training=Training(label_smoothing=0.1)).loss  # noqa: B018


# ---- everything of one's own


@dataclass(frozen=True)
class Sounds(Input):
    reads: ClassVar[str] = "sounds"

    length: int = 1
    numbers: int = 1

    def example(self, batch: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((batch, self.length), jnp.float32)

    def check(self, where: str, x: Any) -> None:
        if x.shape[1:] != (self.length,):
            raise ShapeError(f"{where}: sounds of {x.shape[1:]} came, expected {self.length} values")

    def for_data(self, data: Dataset) -> Self:
        return replace(self, length=data.train.x.shape[1], numbers=len(data.classes))


class Params(NamedTuple):
    head: linear.Params


@dataclass(frozen=True)
class Listener(Network):
    tasks: ClassVar[tuple[str, ...]] = ("loudness",)
    output_axis: ClassVar[str] = "numbers"

    sounds: Sounds = Sounds()

    @property
    def input(self) -> Sounds:
        return self.sounds

    @property
    def head(self) -> Linear:
        return Linear(self.sounds.length, self.sounds.numbers)

    def init(self, key: Any) -> Params:
        return Params(head=self.head.init(key))

    def forward(self, params: Params, x: Any) -> tuple[Any, Any]:
        self.sounds.check("Listener", x)
        return at("head", self.head).forward(params.head, x)

    def backward(self, params: Params, cache: Any, dy: Any) -> tuple[Any, Params]:
        dx, dhead = at("head", self.head).backward(params.head, cache, dy)
        return dx, Params(head=dhead)


@dataclass(frozen=True)
class Fourth(Loss):
    """The fourth power of the error."""

    def forward(self, params: None, x: Any, *, labels: Any, weights: Any = None) -> tuple[Any, Any]:
        d = x - labels
        weights = jnp.ones_like(d) if weights is None else weights
        share = weights / jnp.sum(weights)
        return jnp.sum(share * d**4), (d, share)

    def backward(self, params: None, cache: Any, dy: Any) -> tuple[Any, None]:
        d, share = cache
        return 4 * share * d**3 * dy, None


@dataclass(frozen=True)
class Loudness(Task):
    by_loss: ClassVar[bool] = True
    power: int = 1

    @property
    def loss(self) -> Loss:
        return Fourth()

    def right(self, y: Any, labels: Any) -> None:
        return None

    def batch(self, samples: Any, chosen: Any) -> Batch:
        return Batch(samples.x[chosen], samples.labels[chosen] ** self.power, None, {})


def sounds_from(word: str) -> Dataset:
    x = np.random.default_rng(len(word)).normal(size=(40, 5)).astype(np.float32)
    labels = x.mean(axis=1, keepdims=True)
    return Dataset(word, Arrays(x[:30], labels[:30]), Arrays(x[30:], labels[30:]), ("volume",))


def test_a_model_task_loss_and_reader_of_ones_own(tmp_path: Path) -> None:
    register.model("listener")(Listener)
    register.task("loudness")(Loudness)
    register.loss("fourth")(Fourth)
    register.data("street")(sounds_from)
    recipe = Recipe(model=Listener(), task=Loudness(power=2), data="street:2", training=QUICK)
    run = fit(recipe, out=tmp_path / "run")
    assert run.model == Listener(sounds=Sounds(length=5, numbers=1))
    test = sounds_from("street:2").test
    expected = np.mean((run.predict(test.x) - test.labels**2) ** 4)
    assert run.metrics["test_loss"] == pytest.approx(expected, rel=1e-4)
    assert load(tmp_path / "run").recipe.data == "street:2"
    assert resume(tmp_path / "run")["epochs"] == 2
    for what, name in (("model", "listener"), ("task", "loudness")):
        thing = registry._registered[what].pop(name)
        with pytest.raises(SettingError, match=rf"{what}\.kind: '{name}' came.*--code FILE"):
            load(tmp_path / "run")
        registry._registered[what][name] = thing


def test_an_unregistered_model_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    register.task("loudness")(Loudness)
    with pytest.raises(SettingError, match=r"model is Listener, which has no name; .*@register\.model\(\"listener\"\)"):
        fit(Recipe(model=Listener(), task=Loudness()), sounds_from("street"), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_reader_for_the_ending_of_a_file(tmp_path: Path) -> None:
    @register.data(".lines")
    def lines(word: str) -> Texts:
        texts = tuple(Example(line) for line in Path(word).read_text().splitlines())
        return Texts(word, texts, texts)

    file = tmp_path / "a.lines"
    file.write_text("one two\nthree\n")
    data = load_for(Recipe(model=GPT(text=Text(context=4)), task=registry.find("task", "next-token")()), str(file))
    assert data.holds == "texts"
    assert len(data.train.ids) == len("one two") + 1 + len("three")
    with pytest.raises(DataError, match="it holds texts, and TinyIris reads rows of numbers"):
        load_for(Recipe(model=SMALL), str(file))


def test_nothing_reads_an_own_input_from_a_name() -> None:
    register.task("loudness")(Loudness)
    with pytest.raises(DataError, match=r"mnist\.wav: nothing reads sounds from it; register a reader"):
        load_for(Recipe(model=Listener(), task=Loudness()), "mnist.wav")
