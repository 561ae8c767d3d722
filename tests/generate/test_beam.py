"""Beam search: the texts that the transformers library finds, and the best there is where all can be tried."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer.errors import CheckpointError, SettingError
from glassformer.generate import BeamSearch, best_answers
from glassformer.generate.decoder import must_be_numbers
from glassformer.generate.jax_decoder import JaxDecoder
from glassformer.models import GPT, Text

from .script import Script
from .theirs import END, PAD, TOKENISER, generated, gpt2_of_both, t5_of_both

PROMPTS = ["abc", "q", "hell", "abcdefghijklmnopqrabcdefghij"]
SEEDS = (3, 4, 6, 7)
READ = [[*TOKENISER.encode(text), END] for text in PROMPTS]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("beams", "length_penalty", "early_stopping"),
    [(4, 1.0, False), (4, 1.0, True), (3, 0.0, False), (2, 2.5, False), (5, -1.0, True), (1, 1.0, False)],
)
def test_texts_are_those_of_transformers(beams: int, length_penalty: float, early_stopping: bool, seed: int) -> None:
    theirs, model, params = t5_of_both(seed)
    search = BeamSearch(beams, length_penalty, early_stopping)
    found = search.find(JaxDecoder(model, params, PAD), READ, length=12, end=END)
    settings: dict[str, Any] = {"num_beams": beams, "max_new_tokens": 12}
    if beams > 1:
        settings |= {"length_penalty": length_penalty, "early_stopping": early_stopping}
    assert found == [generated(theirs, ids, **settings) for ids in READ]


def test_some_of_those_texts_end_early_and_some_do_not() -> None:
    lengths = set()
    for seed in SEEDS:
        _, model, params = t5_of_both(seed)
        lengths |= {len(ids) for ids in BeamSearch().find(JaxDecoder(model, params), READ, length=12, end=END)}
    assert 12 in lengths
    assert len(lengths) > 4


def test_gpt_too() -> None:
    theirs, model, params = gpt2_of_both(1)
    prompts = [ids[:-1] for ids in READ[:3]]
    found = BeamSearch().find(JaxDecoder(model, params), prompts, length=8, end=END)
    assert found == [generated(theirs, ids, num_beams=4, max_new_tokens=8) for ids in prompts]


def test_two_tokens_are_the_best_two_that_begin_with_one_of_the_best_first() -> None:
    model = GPT(Text(8, 8), width=6, hidden=8, heads=2, depth=1)
    draw, shapes = np.random.default_rng(0), jax.eval_shape(model.init, jax.random.key(0))
    params = jax.tree.map(lambda leaf: draw.normal(scale=0.5, size=leaf.shape).astype(np.float32), shapes)
    pairs = np.array(list(itertools.product(range(8), repeat=2)))
    ids = jnp.asarray([[7, *pair] for pair in pairs])
    steps = np.asarray(jax.jit(lambda: jax.nn.log_softmax(model.forward(params, ids)[0]))())
    first, second = (steps[np.arange(64), place, pairs[:, place]] for place in (0, 1))
    for beams in (1, 2, 4):
        begun = first >= np.sort(first)[-8 * beams]
        best = pairs[np.argmax(np.where(begun, first + second, -np.inf))]
        (found,) = BeamSearch(beams).find(JaxDecoder(model, params), [[7]], length=2, end=None)
        assert found == best.tolist()


def test_answers_as_text() -> None:
    _, model, params = t5_of_both(2)
    decoder = JaxDecoder(model, params, PAD)
    found = best_answers(decoder, TOKENISER, PROMPTS, length=12)
    assert found == [TOKENISER.decode(ids) for ids in BeamSearch().find(decoder, READ, length=12, end=END)]
    longest = max(found, key=len)
    (cut,) = best_answers(decoder, TOKENISER, [PROMPTS[found.index(longest)]], length=12, stop=(longest[2:4],))
    assert cut == longest[: longest.index(longest[2:4])]


def test_bad_input() -> None:
    decoder = Script(10, [[1]])
    with pytest.raises(SettingError, match="beams is 0, expected 1 or more"):
        BeamSearch(beams=0)
    with pytest.raises(SettingError, match="length_penalty is nan"):
        BeamSearch(length_penalty=float("nan"))
    with pytest.raises(SettingError, match="6 beams are too many for 10 symbols; 5 at most"):
        BeamSearch(beams=6).find(decoder, [[1]], length=3, end=END)
    with pytest.raises(SettingError, match="length is 0"):
        BeamSearch().find(decoder, [[1]], length=0, end=END)
    assert decoder.steps == -1
    assert BeamSearch().find(decoder, [], length=3, end=END) == []
    with pytest.raises(CheckpointError, match="not numbers"):
        must_be_numbers(np.array([[np.nan, 1.0]]))
