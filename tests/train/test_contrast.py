"""Contrastive tuning: what is compared with what, and a run from its pairs to its vectors."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import glassformer
from glassformer.cli import app
from glassformer.data.texts import Example, Texts
from glassformer.data.tokeniser_training import Characters
from glassformer.errors import DataError, SettingError, ShapeError
from glassformer.layers import FirstToken, MaskedMeanPool, UnitNorm
from glassformer.lens.trace_input import text_input
from glassformer.losses import InfoNCE
from glassformer.models import GPT, VectorHead
from glassformer.predict.run import Run, load
from glassformer.train import fit, loop
from glassformer.train.jax_engine import JaxEngine, loss_of_step
from glassformer.train.loop import InterruptedRunError, Listener, Loop
from glassformer.train.recipe import Recipe
from glassformer.train.resolve import encoded, load_for, resolved
from glassformer.train.run_folder import RunFolder
from glassformer.train.score import score_in_parts, tally
from glassformer.train.tasks import Contrast, Embed
from glassformer.train.tasks.contrast import Pairs, meanings

from ..programs import forward
from .small import Stop, assert_same_run
from .small_texts import ready, small_text_recipe, small_texts


def pairs_of(*pairs: tuple[str, str]) -> tuple[Example, ...]:
    return tuple(Example(text, target=target) for text, target in pairs)


ONE_TO_ONE = tuple(one for one in small_texts().train if one.text.startswith("<up>"))
TEXTS = Texts("numbers", ONE_TO_ONE, ONE_TO_ONE, marks=("<up>", "<down>"))  # each target once


def some(rows: int, width: int = 3, seed: int = 0) -> Any:
    return UnitNorm().forward(None, jnp.asarray(np.random.default_rng(seed).normal(size=(rows, width))))[0]


def by_hand(x: np.ndarray, temperature: float) -> float:
    """Of B pairs, all of them real and different: softmax over the batch, in both directions."""
    first, second = np.split(np.asarray(x, np.float64), 2)
    scores = first @ second.T / temperature
    both = [scores - np.log(np.exp(scores).sum(axis=axis, keepdims=True)) for axis in (0, 1)]
    return float(-np.mean([np.diag(one) for one in both]))


def test_the_loss_is_the_cross_entropy_over_the_batch_in_both_directions() -> None:
    x, labels = some(8), jnp.tile(jnp.arange(4), 2)
    loss, _ = InfoNCE(0.3).forward(None, x, labels=labels)
    assert float(loss) == pytest.approx(by_hand(np.asarray(x), 0.3), rel=1e-6)
    same = jnp.ones((8, 3)) / 3**0.5
    assert float(InfoNCE(0.3).forward(None, same, labels=labels)[0]) == pytest.approx(np.log(4), rel=1e-6)


def test_padding_is_nobodys_negative_and_gets_no_gradient() -> None:
    loss, x, labels = InfoNCE(0.2), some(10), jnp.tile(jnp.arange(5), 2)
    weights = jnp.tile(jnp.array([1.0, 1, 1, 0, 0]), 2)
    real = np.flatnonzero(weights)
    value, cache = loss.forward(None, x, labels=labels, weights=weights)
    alone, own = loss.forward(None, x[real], labels=labels[real])
    assert float(value) == pytest.approx(float(alone), rel=1e-6)
    d, d_alone = loss.backward(None, cache, jnp.ones(()))[0], loss.backward(None, own, jnp.ones(()))[0]
    np.testing.assert_allclose(d[real], d_alone, atol=1e-6)
    assert (np.delete(np.asarray(d), real, axis=0) == 0).all()
    counted, _ = loss.forward(None, x, labels=labels)
    assert float(counted) > float(value) + 0.01


def test_pairs_of_one_label_are_no_negatives_of_each_other() -> None:
    loss, x = InfoNCE(0.2), some(6)
    same, _ = loss.forward(None, x, labels=jnp.array([0, 0, 1, 0, 0, 1]))
    rows = [np.array(one) for one in ([0, 2, 3, 5], [1, 2, 4, 5])]  # each of the two beside the third
    alone = [by_hand_of_first(np.asarray(x)[one], 0.2) for one in rows]
    third = [float(by_hand_of_third(np.asarray(x), 0.2))]
    assert float(same) == pytest.approx(np.mean([*alone, *third]), rel=1e-5)
    nothing, cache = loss.forward(None, x, labels=jnp.zeros(6, int))
    assert float(nothing) == 0
    assert not np.asarray(loss.backward(None, cache, jnp.ones(()))[0]).any()


def by_hand_of_first(x: np.ndarray, temperature: float) -> float:
    """The first of two pairs, both directions."""
    scores = np.exp(x[:2] @ x[2:].T / temperature)
    return float(-np.log([scores[0, 0] / scores[0].sum(), scores[0, 0] / scores[:, 0].sum()]).mean())


def by_hand_of_third(x: np.ndarray, temperature: float) -> float:
    scores = np.exp(x[:3] @ x[3:].T / temperature)
    return float(-np.log([scores[2, 2] / scores[2].sum(), scores[2, 2] / scores[:, 2].sum()]).mean())


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_a_temperature_that_is_none(temperature: float) -> None:
    for make in (InfoNCE, partial(Contrast, None, 0)):
        with pytest.raises(SettingError, match=r"info-nce: a temperature of \S+ came, expected one above 0"):
            make(temperature)


def test_vectors_that_are_no_pairs() -> None:
    for rows, labels in ((5, 5), (6, 3)):
        with pytest.raises(ShapeError, match=r"expected \(2 B, C\) with one label each"):
            InfoNCE().forward(None, some(rows), labels=jnp.arange(labels))


def test_pairs_that_share_a_text_mean_the_same() -> None:
    examples = pairs_of(("a", "b"), ("c", "d"), ("e", "b"), ("e", "f"), ("f", "g"), ("d", "h"))
    assert meanings(examples).tolist() == [0, 1, 0, 0, 0, 1]


def test_samples_and_batches() -> None:
    letters = Characters().train(["abcdef"])
    texts = Texts("made", pairs_of(("ab", "c"), ("d", "efa"), ("ab", "f")), pairs_of(("a", "b"), ("c", "d")))
    train, _, classes, _ = Contrast().encode(texts, letters, context=5)
    assert classes == ()
    batch = Contrast().batch(train, jnp.array([1, 0]))
    a, b, c, d, e, f = range(5, 11)
    pad, start, end = 0, 2, 3
    expected = [[start, d, end, pad, pad], [start, a, b, end, pad], [start, e, f, a, end], [start, c, end, pad, pad]]
    assert np.asarray(batch.x).tolist() == expected
    assert (np.asarray(batch.keywords["keep"]) == (np.asarray(batch.x) != pad)).all()
    assert np.asarray(batch.labels).tolist() == [1, 0, 1, 0]
    with pytest.raises(DataError, match="made: 'efa' is 5 symbols long with its frame, the model's context is 4"):
        Contrast(longest=4).encode(texts, letters, context=5)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("ab", ""), ("c", "d")], "made: the second text of a pair is empty, beside 'ab'"),
        ([(" ", "ab"), ("c", "d")], "made: the first text of a pair is empty, beside 'ab'"),
        ([("a", ""), ("b", "")], "made: its texts have no second texts: they are no pairs, which this task needs"),
    ],
)
def test_texts_that_are_no_pairs(pairs: list[tuple[str, str]], message: str) -> None:
    texts = Texts("made", pairs_of(*pairs), pairs_of(("a", "b"), ("c", "d")))
    with pytest.raises(DataError) as error:
        Contrast().encode(texts, Characters().train(["abcd"]), context=9)
    assert message in str(error.value)


def test_too_few_pairs_and_too_small_a_batch() -> None:
    recipe = small_text_recipe("contrast")
    with pytest.raises(DataError, match="numbers, its test part: 1 pair of texts, expected 2 or more"):
        encoded(recipe, TEXTS._replace(test=TEXTS.test[:1]))
    data = encoded(recipe, TEXTS._replace(train=TEXTS.train[:8]))
    with pytest.raises(DataError, match=r"what validation holds out: 1 pair of texts.*validation\.share=0"):
        resolved(recipe, data)
    with pytest.raises(SettingError, match="training: batch is 1, and contrast compares the samples of a batch"):
        resolved(small_text_recipe("contrast", batch=1, share=0.0), data)


def test_a_model_that_gives_no_vectors() -> None:
    with pytest.raises(SettingError, match="task: contrast came, and GPT does next-token, answer"):
        load_for(Recipe(model=GPT(), task=Contrast()), "nothing is looked for")


def test_a_step_compares_the_real_pairs_of_its_batch_alone() -> None:
    recipe, data = ready(small_text_recipe("contrast", batch=7, share=0.0, dropout=0.0), TEXTS)
    engine, params = JaxEngine(recipe, data.train, (1,)), recipe.model.init(jax.random.key(2))
    order = np.random.default_rng(1).permutation(engine.total)
    batches, left = engine.batches([order], 1), engine.total % 7
    assert left > 1
    loss, _ = jax.jit(lambda i: loss_of_step(recipe, params, batches, i))(engine.steps - 1)
    batch = recipe.task.batch(data.train, jnp.asarray(order[-left:]))
    y = forward(recipe.model, params, batch.x, **batch.keywords)
    assert float(loss) == pytest.approx(by_hand(np.asarray(y), 0.2), rel=1e-5)


@pytest.mark.parametrize("at_once", [3, 200])
def test_a_score_compares_all_pairs(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, data = ready(small_text_recipe("contrast"), TEXTS)
    monkeypatch.setattr(Contrast, "at_once", at_once)
    monkeypatch.setattr("glassformer.train.tasks.contrast.AT_ONCE", 7)
    params = recipe.model.init(jax.random.key(2))
    score = score_in_parts(jax.jit(partial(tally, recipe)), recipe.task, params, data.test)
    batch = recipe.task.batch(data.test, jnp.arange(len(TEXTS.test)))
    y = np.asarray(forward(recipe.model, params, batch.x, **batch.keywords))
    assert score.loss == pytest.approx(by_hand(y, 0.2), rel=1e-5)
    first, second = np.split(y, 2)
    right = [(scores.argmax(axis=1) == np.arange(len(first))).mean() for scores in (first @ second.T, second @ first.T)]
    assert score.accuracy == pytest.approx(np.mean(right))


def test_vectors_that_are_all_alike_find_nothing() -> None:
    samples = Pairs(np.zeros((4, 2, 1), np.int32), np.ones((4, 2, 1), bool), np.array([0, 1, 2, 2]))
    recall, loss = Contrast().compared(np.ones((8, 3), np.float32), samples)
    assert recall == 0
    assert loss == pytest.approx(np.mean([np.log(4), np.log(4), np.log(3), np.log(3)]))


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("contrast")
    recipe = small_text_recipe("contrast", epochs=60, share=0.0, dropout=0.0, batch=10)
    fit.train(*ready(recipe, TEXTS), folder, Listener())
    return load(folder)


def test_pairs_are_learned_by_heart(learned: Run) -> None:
    assert learned.metrics["test_accuracy"] > 0.9
    assert learned.recipe.loss == InfoNCE(0.2)
    with pytest.raises(DataError, match="this run gives embeddings, and no answers: glassformer embed"):
        learned.answer(["<up> one two"])
    assert text_input(learned, "", "<up> one two").dy is not None  # its loss compares several texts


def test_a_run_embeds_as_it_has_learned(learned: Run) -> None:
    """The head's own output, at ragged lengths, and what `embed` makes of the values that go into it."""
    words = [text for one in TEXTS.test[:5] for text in (one.text, one.target)]
    vectors = learned.embed(words)
    data = encoded(learned.recipe, TEXTS, learned.tokeniser)
    batch = learned.recipe.task.batch(data.test, jnp.arange(5))
    y = np.asarray(forward(learned.model, learned.params, batch.x, **batch.keywords))
    np.testing.assert_allclose(vectors, y.reshape(2, 5, -1).swapaxes(0, 1).reshape(10, -1), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_a_stopped_run_goes_on_to_the_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two batches to an update, dropout, and a last batch that is not full."""
    recipe, data = ready(small_text_recipe("contrast", epochs=2, share=0.0, accumulate=2), TEXTS)
    fit.train(recipe, data, tmp_path / "whole", Listener())
    monkeypatch.setattr(loop, "CHUNK_SECONDS", 0.0)
    stop = Stop(after=0)
    made = Loop(recipe, data, RunFolder(tmp_path / "run"), stop)
    made.steps_at_once, stop.left = 1, made.engine.steps + 1
    made.begin()
    with pytest.raises(InterruptedRunError, match="stopped in epoch 2 and saved"):
        fit.finish(made)
    fit.resume(tmp_path / "run", Listener(), data=TEXTS)
    assert_same_run(tmp_path / "run", tmp_path / "whole")


@pytest.mark.slow
def test_several_seeds_at_once_are_the_runs_of_each(tmp_path: Path) -> None:
    recipe, data = ready(small_text_recipe("contrast", epochs=1), TEXTS)
    together = fit.train_many(recipe, data, tmp_path / "many", (4, 0), Listener())
    for seed, run in zip((4, 0), together["runs"], strict=True):
        alone = fit.train(loop.with_seed(recipe, seed), data, tmp_path / f"{seed}", Listener())
        assert run["test_accuracy"] == pytest.approx(alone["test_accuracy"])
        assert run["test_loss"] == pytest.approx(alone["test_loss"], rel=1e-4)


@pytest.mark.parametrize(
    ("before", "pool"), [("first", FirstToken()), pytest.param("mean", MaskedMeanPool(), marks=pytest.mark.slow)]
)
def test_tuning_an_encoder_keeps_its_pooling(before: Any, pool: Any, tmp_path: Path) -> None:
    """An imported encoder says how to pool; its weights are where tuning starts, and other tasks start from there."""
    recipe, data = ready(small_text_recipe("masked"), TEXTS)
    folder, encoder = RunFolder(tmp_path / "encoder"), recipe.model.backbone
    weights = encoder.init(jax.random.key(5))
    imported = replace(recipe, model=encoder, task=Embed(before, longest=13), data="")
    assert data.tokeniser
    folder.save_tokeniser(data.tokeniser)
    folder.save_model(imported, weights, (), epoch=0)
    folder.save_recipe(imported)
    settings: Any = {"training__epochs": 1, "validation__share": 0.0, "optimiser__lr": 1e-9}
    run = glassformer.fit(data=TEXTS, start=folder.path, task="contrast", out=tmp_path / "tuned", **settings)
    assert run.recipe.task == Contrast(pooling=before, longest=13)
    assert run.model.head == VectorHead(pool)  # pyright: ignore[reportAttributeAccessIssue]
    close = partial(np.testing.assert_allclose, atol=1e-6)
    jax.tree.map(close, run.params.bert, weights)
    words = ["<up> one two", "<down> six"]
    start = load(folder.path)
    close(run.embed(words), start.embed(words, normalise=True))
    tagged = glassformer.fit(data=small_texts(), start=run.path, task="tag", out=tmp_path / "tagged", **settings)
    jax.tree.map(close, tagged.params.bert, weights)


SMALL = ["model.width=8", "model.hidden=8", "model.heads=2", "model.depth=1", "training.batch=16", "training.epochs=1"]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.csv"
    path.write_text("anchor,positive\n" + "".join(f"{one.text},{one.target}\n" for one in (*TEXTS.train, *TEXTS.test)))
    return path


def command(*words: str) -> Any:
    return CliRunner().invoke(app, [*words])


def test_from_fresh_weights_and_a_file(pairs: Path, tmp_path: Path) -> None:
    settings = [word for one in (*SMALL, "task.temperature=0.1") for word in ("--set", one)]
    out = str(tmp_path / "run")
    done = command("train", "bert-nano", "--task", "contrast", "--data", str(pairs), "--out", out, *settings)
    assert done.exit_code == 0, done.output
    assert "test recall@1 " in done.stdout
    run = load(out)
    assert run.recipe.task == Contrast(pooling="mean", temperature=0.1)
    assert run.recipe.data == str(pairs)
    scored = command("eval", out, "--json")
    found = json.loads(scored.stdout.splitlines()[-1])
    assert found["recall@1"] == pytest.approx(run.metrics["test_accuracy"])
    assert found["loss"] == pytest.approx(run.metrics["test_loss"], rel=1e-5)
    assert "run on the 5 test pairs of" in command("eval", out).stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bert-nano", "--set", "task.temperature=0"], "info-nce: a temperature of 0.0 came, expected one above 0"),
        (["bert-nano", "--set", "task.temperature=nan"], "info-nce: a temperature of nan came, expected one above 0"),
        (["bert-nano", "--set", "task.pooling=max"], "task.pooling: 'max' came"),
        (["bert-nano", "--set", "training.label_smoothing=0.1"], "the loss is InfoNCE; only cross-entropy is smoothed"),
        (["t5-nano"], "task: contrast came, and T5 does translate"),
        (["vit-nano"], "task: contrast came, and ViT does classify"),
    ],
)
def test_what_is_refused_before_training(
    words: list[str], message: str, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pairs.parent)
    refused = command("train", *words, "--task", "contrast", "--data", str(pairs))
    assert message in str(refused.exception)
    assert not (pairs.parent / "runs").exists()
