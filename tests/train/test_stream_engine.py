"""Steps over text in files: the same crops for a seed and a step, exact resumes, as with the text in memory."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from glassformer.data import tokenise as tokenising
from glassformer.data.token_shards import open_tokens
from glassformer.data.tokenise import tokenise
from glassformer.data.tokeniser_training import Characters
from glassformer.errors import DataError, FileError, SettingError, TrainingError
from glassformer.models import BERT, GPT, Text
from glassformer.shapes import Static
from glassformer.train import fit, loop
from glassformer.train.loop import InterruptedRunError
from glassformer.train.optimiser import Optimiser
from glassformer.train.recipe import Recipe, Training, Validation
from glassformer.train.resolve import load_for, resolved
from glassformer.train.run_folder import RunFolder
from glassformer.train.stream_engine import StreamEngine, crops
from glassformer.train.tasks import Masked, NextToken

from .small import Stop, assert_same_run, small_recipe

WORDS = "".join(f"{i % 7} bells and {i * i % 11} whistles\n" for i in range(400))


@pytest.fixture
def tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(tokenising, "PIECE", 2000)
    (tmp_path / "words.txt").write_text(WORDS)
    tokenise([tmp_path / "words.txt"], tmp_path / "tokens", Characters())
    return str(tmp_path / "tokens")


def small_gpt(**training: Any) -> Recipe:
    return Recipe(
        model=GPT(Text(context=8), width=8, hidden=16, heads=2, depth=1, dropout=0.1),
        task=NextToken(),
        training=Training(**{"batch": 4, "steps": 12, "score_every": 5, **training}),
        optimiser=Optimiser(name="adamw", lr=0.01),
    )


def test_updates_are_counted_and_scored_in_between(tokens: str, tmp_path: Path) -> None:
    result = fit.run_recipe(small_gpt(), tokens, lambda recipe: recipe, out=tmp_path / "run")
    assert result["epochs"] == 3  # 12 updates, scored every 5
    assert (tmp_path / "run" / "log.csv").read_text().count("\n") == 4
    losses = [float(line.split(",")[1]) for line in (tmp_path / "run" / "log.csv").read_text().splitlines()[1:]]
    assert losses[-1] < losses[0]
    assert result["engine"] == "jax"


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_run_that_was_stopped_goes_on_to_the_bit(tokens: str, accumulate: int, tmp_path: Path) -> None:
    recipe = small_gpt(accumulate=accumulate, steps=20, score_every=10)
    fit.run_recipe(recipe, tokens, lambda recipe: recipe, out=tmp_path / "whole")
    with pytest.raises(InterruptedRunError):
        fit.run_recipe(recipe, tokens, lambda recipe: recipe, out=tmp_path / "stopped", listener=Stop(1))
    fit.resume(tmp_path / "stopped")
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_files_and_memory_train_alike(tokens: str) -> None:
    recipe = small_gpt()
    data = load_for(recipe, tokens)
    recipe = resolved(recipe, data)
    held = data.train._replace(ids=data.train.ids.read(0, len(data.train.ids)))
    one, other = (StreamEngine(recipe, samples, (3,)) for samples in (data.train, held))
    params = recipe.model.init(jax.random.key(0))
    for engine in (one, other):
        engine.losses = engine.run(engine.start(params), engine.batches([], 1), 0, 4)[1]  # pyright: ignore
        params = recipe.model.init(jax.random.key(0))
    assert one.losses.tolist() == other.losses.tolist()  # pyright: ignore


def test_any_step_can_be_repeated(tokens: str) -> None:
    stream, _ = open_tokens(Path(tokens))
    ids = stream.read(0, len(stream))
    drawn = crops(stream, seed=2, step=1000, count=50, length=9)
    again = crops(open_tokens(Path(tokens))[0], seed=2, step=1000, count=50, length=9)
    np.testing.assert_array_equal(drawn, again)
    np.testing.assert_array_equal(drawn, crops(ids, seed=2, step=1000, count=50, length=9))
    assert (drawn != crops(ids, seed=2, step=1001, count=50, length=9)).any()
    assert (drawn != crops(ids, seed=3, step=1000, count=50, length=9)).any()
    starts = {tuple(row) for row in np.lib.stride_tricks.sliding_window_view(ids, 9)}
    assert {tuple(row) for row in drawn} <= starts


def test_every_window_can_be_drawn() -> None:
    ids = np.arange(12, dtype=np.int32)
    drawn = np.concatenate([crops(ids, seed=0, step=step, count=20, length=9) for step in range(20)])
    assert set(drawn[:, 0].tolist()) == {0, 1, 2, 3}


def test_several_seeds_train_together(tokens: str, tmp_path: Path) -> None:
    result = fit.run_recipe(small_gpt(), tokens, lambda recipe: recipe, out=tmp_path / "many", seeds=(1, 2))
    alone = fit.run_recipe(small_gpt(seed=2), tokens, lambda recipe: recipe, out=tmp_path / "two")
    assert result["runs"][1]["loss"] == pytest.approx(alone["loss"], rel=1e-5)
    assert result["runs"][0]["loss"] != result["runs"][1]["loss"]


def test_epochs_of_a_recipe_become_steps(tokens: str) -> None:
    data = load_for(small_gpt(), tokens)
    training = resolved(small_gpt(steps=0, epochs=2), data).training
    windows = NextToken().count(data.train._replace(ids=data.train.ids[: round(0.9 * len(data.train.ids))]))
    assert training.steps == 2 * -(-windows // 4)
    training = resolved(small_gpt(steps=0, epochs=2, samples=10), data).training
    assert (training.steps, training.score_every, training.epochs) == (6, 3, 2)


def test_what_is_not_finite_is_told(tokens: str, tmp_path: Path) -> None:
    recipe = replace(small_gpt(), optimiser=Optimiser(lr=1e30))
    with pytest.raises(TrainingError, match="is not finite"):
        fit.run_recipe(recipe, tokens, lambda recipe: recipe, out=tmp_path / "run")


def test_what_cannot_be_trained_by_steps_is_said(tokens: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="the task classify is learned in epochs"):
        small_recipe(steps=10)
    with pytest.raises(DataError, match="the task masked reads no tokens"):
        load_for(Recipe(model=BERT(Text(context=8), width=8, heads=2), task=Masked()), tokens)
    with pytest.raises(SettingError, match="score_every is 0"):
        Training(score_every=0)
    for short in (small_gpt(subset=8), small_gpt(subset=8, steps=0)):  # tokens, of running text
        with pytest.raises(DataError, match=r"training\.subset takes 8: it is 8 tokens long, too short for a window"):
            resolved(short, load_for(short, tokens))
    recipe = small_gpt()
    fit.run_recipe(recipe, tokens, lambda recipe: recipe, out=tmp_path / "run")
    other = tmp_path / "other"
    tokenise([tmp_path / "words.txt"], other, Characters().train(["another alphabet"]))
    with pytest.raises(DataError, match="another tokeniser than the run's"):
        fit.run_recipe(recipe, str(other), lambda recipe: recipe, start=tmp_path / "run", out=tmp_path / "on")
    tiny = tmp_path / "tiny"
    (tmp_path / "tiny.txt").write_text("too short")
    tokenise([tmp_path / "tiny.txt"], tiny, Characters())
    with pytest.raises(DataError, match="too short for a window"):
        load_for(recipe, str(tiny))


def test_a_stream_in_memory_may_be_taken_by_steps_too() -> None:
    ids = np.resize(np.arange(5, dtype=np.int32), 500)
    from glassformer.data import Dataset
    from glassformer.train.tasks.next_token import Stream

    tokeniser = Characters().train(["abc"])
    data = Dataset("memory", Stream(ids, Static(8)), Stream(ids[:100], Static(8)), (), tokeniser)
    recipe = resolved(replace(small_gpt(), validation=Validation(share=0.0)), data)
    engine = StreamEngine(recipe, data.train, (1,))
    assert engine.steps == 5


def test_a_large_state_is_written_while_training_goes_on(
    tokens: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = small_gpt(steps=20, score_every=10)
    fit.run_recipe(recipe, tokens, lambda recipe: recipe, out=tmp_path / "small")
    monkeypatch.setattr(loop, "LARGE", 0)
    fit.run_recipe(recipe, tokens, lambda recipe: recipe, out=tmp_path / "large")
    assert_same_run(tmp_path / "small", tmp_path / "large")
    with pytest.raises(InterruptedRunError):
        fit.run_recipe(recipe, tokens, lambda recipe: recipe, out=tmp_path / "stopped", listener=Stop(1))
    fit.resume(tmp_path / "stopped")
    assert_same_run(tmp_path / "small", tmp_path / "stopped")
    broken = replace(recipe, optimiser=Optimiser(lr=1e30))
    with pytest.raises(TrainingError, match=r"after step \d+ of epoch 1 a value is not finite"):
        fit.run_recipe(broken, tokens, lambda recipe: recipe, out=tmp_path / "broken")


def test_what_cannot_be_written_meanwhile_is_said(tokens: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "LARGE", 0)

    def full(self: RunFolder, *content: Any) -> None:
        raise FileError("the disk is full")

    monkeypatch.setattr(RunFolder, "save_state", full)
    with pytest.raises(FileError, match="the disk is full"):
        fit.run_recipe(small_gpt(), tokens, lambda recipe: recipe, out=tmp_path / "run")
