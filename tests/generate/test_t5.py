"""T5 with a memory: the numbers of forward at every place, the texts of others."""

from typing import Any

import jax
import numpy as np
import pytest

from glassformer.errors import DataError, SettingError, ShapeError
from glassformer.generate import Sampling, answer_text
from glassformer.generate.jax_decoder import JaxDecoder
from glassformer.layers import GELUTanh
from glassformer.models import T5, Text
from glassformer.models.t5 import Inputs

from .theirs import END, PAD, TOKENISER, VOCABULARY, generated, t5_of_both

SIZES: dict[str, Any] = {"width": 12, "hidden": 17, "heads": 3, "head_width": 5, "buckets": 6, "reach": 7}
MODELS = {
    "v1.0": T5(Text(19, 11), **SIZES, depth=2),
    "v1.1": T5(Text(19, 11), **SIZES, depth=1, decoder_depth=3, gated=True, activation=GELUTanh(), tied=False),
}
SOURCE = np.random.default_rng(0).integers(19, size=(3, 9))
TARGET = np.random.default_rng(1).integers(19, size=(3, 11))
LENGTHS = np.array([5, 9, 1])


def drawn(model: Any) -> Any:
    """Ones and zeros, which weights start with, hide mistakes."""
    draw = np.random.default_rng(2)
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    return jax.tree.map(lambda leaf: draw.normal(scale=0.4, size=leaf.shape).astype(np.float32), shapes)


def all_scores(model: T5, params: Any, source: Any, target: Any, lengths: Any) -> np.ndarray:
    """Of forward, without any memory."""
    keep = np.arange(source.shape[1]) < lengths[:, None]
    forward = jax.jit(lambda params, x, keep: model.forward(params, x, keep=keep)[0])
    return np.asarray(forward(params, Inputs(source, target), keep))


def assert_same(scores: np.ndarray, expected: Any) -> None:
    assert scores.dtype == np.float32
    assert np.abs(scores - expected).max() < 1e-5 * max(1, np.abs(expected).max())


@pytest.mark.parametrize("name", MODELS)
def test_every_score_is_that_of_forward(name: str) -> None:
    model = MODELS[name]
    params = drawn(model)
    target = TARGET.copy()
    target[:, 0] = 4
    expected = all_scores(model, params, SOURCE, target, LENGTHS)
    decoder = JaxDecoder(model, params, start_token=4)
    assert_same(decoder.start(SOURCE, LENGTHS), expected[:, 0])
    for place in range(1, 11):
        assert_same(decoder.step(target[:, place]), expected[:, place])
    with pytest.raises(ShapeError, match="context of 11 tokens is full"):
        decoder.step(target[:, 0])


@pytest.mark.parametrize("rows", [[2, 0, 2, 1], [1, 0, 2], [0, 0, 0]])
def test_rows_go_on_from_other_rows(rows: list[int]) -> None:
    model = MODELS["v1.0"]
    params = drawn(model)
    decoder = JaxDecoder(model, params)
    decoder.start(SOURCE, LENGTHS)
    decoder.step(TARGET[:, 0])
    decoder.reorder(np.array(rows))
    decoder.reorder(np.arange(len(rows))[::-1])
    scores = decoder.step(np.arange(len(rows)))
    went_on = rows[::-1]
    target = np.stack([np.zeros(len(rows), int), TARGET[went_on, 0], np.arange(len(rows))], axis=1)
    assert_same(scores, all_scores(model, params, SOURCE[went_on], target, LENGTHS[went_on])[:, -1])


PROMPTS = ["abc", "q", "hell", "abcdefghijklmnopqrabcdefghij"]


@pytest.mark.parametrize("seed", [3, 4, 6, 7])
@pytest.mark.parametrize("penalty", [1.0, 1.7])
def test_greedy_text_is_that_of_transformers(seed: int, penalty: float) -> None:
    theirs, model, params = t5_of_both(seed)
    sampling = Sampling(greedy=True, repetition_penalty=penalty)
    found = answer_text(JaxDecoder(model, params, PAD), TOKENISER, PROMPTS, length=10, sampling=sampling)
    read = [[*TOKENISER.encode(text), END] for text in PROMPTS]
    expected = [generated(theirs, ids, repetition_penalty=penalty) for ids in read]
    assert found == [TOKENISER.decode(ids) for ids in expected]
    assert len(set(found)) > 1, "answers that are all alike show little"


def test_an_answer_may_be_as_long_as_the_context_and_a_prompt_too() -> None:
    model = T5(Text(VOCABULARY, 11), **SIZES, depth=1)
    decoder = JaxDecoder(model, drawn(model))
    assert answer_text(decoder, TOKENISER, ["abcdefghij"], length=11)
    with pytest.raises(SettingError, match="length is 12, the model's context is 11; ask for 11 at most"):
        answer_text(decoder, TOKENISER, ["abc"], length=12)
    with pytest.raises(DataError, match="the prompt: 12 tokens, the model's context is 11; shorten it by 1 or more"):
        answer_text(decoder, TOKENISER, ["abcdefghijk"], length=3)
    with pytest.raises(DataError, match="prompt 2: it is empty, and there is nothing to answer"):
        answer_text(decoder, TOKENISER, ["a", ""], length=3)
