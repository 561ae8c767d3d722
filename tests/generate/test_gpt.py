"""GPT with a memory: the numbers of forward at every place, rows of any length side by side, the texts of others."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from glassformer.errors import ShapeError
from glassformer.generate import Sampling, continue_text, decoder_for, jax_decoder
from glassformer.generate.decoder import Decoder, as_array, filled_up
from glassformer.generate.jax_decoder import JaxDecoder
from glassformer.layers import BandedAttention, BlockwiseAttention, LinearAttention, ReLU, Rotary
from glassformer.models import GPT, Llama, RecurrentLM, Text

from .theirs import TOKENISER, generated, gpt2_of_both

TEXT = Text(vocabulary=19, context=13)
SIZES: dict[str, Any] = {"text": TEXT, "width": 12, "hidden": 17, "heads": 3}
MODELS = {
    "learned": GPT(**SIZES, depth=2),
    "learned, own head": GPT(**SIZES, depth=1, tied=False, eps=1e-3, activation=ReLU(), dropout=0.5),
    "rotary": GPT(**SIZES, depth=2, rotary=Rotary()),
    "rotary, own head": GPT(**SIZES, depth=1, rotary=Rotary(base=100.0), tied=False),
    "window": GPT(**SIZES, depth=2, window=4, global_tokens=2, attend=BandedAttention(), checkpoint=True),
    "blockwise": GPT(**SIZES, depth=2, rotary=Rotary(), window=3, attend=BlockwiseAttention(block=4)),
    "linear": GPT(**SIZES, depth=2, attend=LinearAttention(block=4)),
    "llama": Llama(TEXT, 12, 17, heads=6, key_heads=2, depth=2),
    "qwen3": Llama(**SIZES, key_heads=1, head_width=6, depth=1, head_norm=True, bias="qkv", tied=False, window=4),
    "lstm": RecurrentLM(TEXT, width=11, hidden=11),
    "gru": RecurrentLM(TEXT, width=7, hidden=11, depth=1, cell="gru", tied=False, dropout=0.5),
    "rnn": RecurrentLM(TEXT, width=11, hidden=11, depth=3, cell="rnn"),
}
LENGTHS = [7, 1, 3]


def drawn(model: Any) -> Any:
    """Ones and zeros, which weights start with, hide mistakes."""
    draw = np.random.default_rng(2)
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    return jax.tree.map(lambda leaf: draw.normal(scale=0.4, size=leaf.shape).astype(np.float32), shapes)


def decoder_of(model: Any) -> tuple[Decoder, Any]:
    params = drawn(model)
    return JaxDecoder(model, params), params


def tokens_of(count: int, length: int = TEXT.context) -> np.ndarray:
    return np.random.default_rng(0).integers(TEXT.vocabulary, size=(count, length))


def all_scores(model: Any, params: Any, rows: np.ndarray) -> np.ndarray:
    """Of forward, without any memory."""
    return np.asarray(jax.jit(lambda params, ids: model.forward(params, ids)[0])(params, rows))


def assert_same(scores: np.ndarray, expected: Any) -> None:
    assert scores.dtype == np.float32
    assert np.abs(scores - expected).max() < 1e-5 * max(1, np.abs(expected).max())


@pytest.mark.parametrize("name", MODELS)
def test_every_score_is_that_of_forward(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax_decoder, "FIRST_ROOM", 4)  # states grow on the way
    model = MODELS[name]
    decoder, params = decoder_of(model)
    tokens = tokens_of(3)
    expected = all_scores(model, params, tokens)
    places = np.array(LENGTHS)
    rows, lengths = as_array([row[:length].tolist() for row, length in zip(tokens, LENGTHS, strict=True)])
    rows[np.arange(rows.shape[1]) >= lengths[:, None]] = 5  # what fills up is seen by nobody
    scores = decoder.start(rows, lengths)
    assert_same(scores, expected[np.arange(3), places - 1])
    for _ in range(TEXT.context - max(LENGTHS)):
        scores = decoder.step(tokens[np.arange(3), places])
        assert_same(scores, expected[np.arange(3), places])
        places += 1


@pytest.mark.parametrize("name", MODELS)
def test_rows_go_on_from_other_rows(name: str) -> None:
    model = MODELS[name]
    decoder, params = decoder_of(model)
    tokens = tokens_of(3)
    decoder.start(tokens[:, :4], np.array([4, 2, 3]))
    decoder.reorder(np.array([2, 0, 2, 1]))
    scores = decoder.step(np.array([8, 7, 6, 5]))
    went_on = tokens[[2, 0, 2, 1]]
    places = np.array([3, 4, 3, 2])
    went_on[np.arange(4), places] = [8, 7, 6, 5]
    assert_same(scores, all_scores(model, params, went_on)[np.arange(4), places])


def test_the_last_place_can_be_used_and_none_beyond_it() -> None:
    model = MODELS["learned"]
    decoder, params = decoder_of(model)
    full = tokens_of(2)
    assert_same(decoder.start(full, np.array([13, 12])), all_scores(model, params, full)[[0, 1], [12, 11]])
    with pytest.raises(ShapeError, match="context of 13 tokens is full"):
        decoder.step(full[:, 0])


@pytest.mark.parametrize("name", ["lstm", "blockwise", "qwen3"])
def test_a_state_or_a_window_has_no_last_place(name: str) -> None:
    """Rotary positions and a window: the cache rolls."""
    model, length = MODELS[name], 20
    decoder, params = decoder_of(model)
    tokens = tokens_of(2, 2 * TEXT.context)
    longer = replace(model, **{"text": Text(TEXT.vocabulary, 26)})
    expected = all_scores(longer, params, tokens)
    assert_same(decoder.start(tokens[:, :length], np.array([length, 1])), expected[[0, 1], [length - 1, 0]])
    for step in range(26 - length):
        scores = decoder.step(tokens[[0, 1], [length + step, 1 + step]])
        assert_same(scores, expected[[0, 1], [length + step, 1 + step]])


def test_a_short_text_in_a_long_context_takes_little_memory() -> None:
    model = Llama(Text(19, 1 << 17), 12, 17, heads=6, key_heads=2, depth=1)
    decoder = JaxDecoder(model, drawn(model))
    decoder.start(tokens_of(1, 5), np.array([5]))
    decoder.step(np.array([3]))
    assert decoder.state.blocks[0].k.shape[1] == jax_decoder.FIRST_ROOM


@pytest.mark.parametrize(
    ("ids", "lengths", "message"),
    [
        (tokens_of(2)[0], [3, 3], "expected integers"),
        (tokens_of(2), [3], "lengths of shape"),
        (tokens_of(2), [3, 0], "prompts of 0 to 3 tokens came in rows of 13, expected 1 to 13"),
        (tokens_of(2, 5), [3, 6], "prompts of 3 to 6 tokens came in rows of 5, expected 1 to 5"),
        (tokens_of(2, 15), [3, 14], "expected 1 to 13; the context is 13"),
        (tokens_of(2) / 2, [3, 4], "float64"),
    ],
)
def test_prompts_that_cannot_be_read(ids: np.ndarray, lengths: list[int], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        decoder_of(MODELS["learned"])[0].start(ids, np.array(lengths))


@pytest.mark.parametrize("name", ["learned", "lstm"])
def test_one_token_for_each_row(name: str) -> None:
    decoder, _ = decoder_of(MODELS[name])
    decoder.start(tokens_of(2), np.array([3, 4]))
    with pytest.raises(ShapeError, match="for 2 rows"):
        decoder.step(np.array([1, 2, 3]))


def test_prompts_of_many_lengths_share_a_few_programs() -> None:
    widths = [filled_up(np.ones((1, length), int), context=13).shape[1] for length in range(1, 14)]
    assert widths == [1, 2, 4, 4, 8, 8, 8, 8, 13, 13, 13, 13, 13]
    assert filled_up(np.array([[7, 8, 9]]), 100).tolist() == [[7, 8, 9, 0]]


PROMPTS = ["abc", "q", "mnop", "rrrrrrrrrr"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "settings",
    [{}, {"repetition_penalty": 1.7}, {"tie_word_embeddings": False, "n_embd": 10, "n_head": 2}],
    ids=["plain", "penalty", "own head"],
)
def test_greedy_text_is_that_of_transformers(settings: dict[str, Any], seed: int) -> None:
    settings = dict(settings)
    penalty = settings.pop("repetition_penalty", 1.0)
    theirs, model, params = gpt2_of_both(seed, **settings)
    found = continue_text(
        JaxDecoder(model, params),
        TOKENISER,
        PROMPTS,
        length=10,
        sampling=Sampling(greedy=True, repetition_penalty=penalty),
    )
    expected = [generated(theirs, TOKENISER.encode(text), repetition_penalty=penalty) for text in PROMPTS]
    assert found == [TOKENISER.decode(ids) for ids in expected]
    assert len(set(found)) == len(PROMPTS), "texts that are all alike show little"


def test_a_left_padded_batch_of_transformers_for_64_tokens() -> None:
    import torch

    prompts, new = [TOKENISER.encode(text) for text in PROMPTS], 64
    theirs, model, params = gpt2_of_both(1, n_positions=80, eos_token_id=None)
    longest, threads = max(map(len, prompts)), torch.get_num_threads()
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in prompts])
    seen = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in prompts])
    torch.set_num_threads(1)
    expected = theirs.generate(ids, attention_mask=seen, max_new_tokens=new, do_sample=False)[:, longest:].numpy()
    torch.set_num_threads(threads)
    assert all(len(set(row[-16:])) > 2 for row in expected.tolist())
    for engine in ("native", "jax"):
        decoder = decoder_for(model, params, engine)
        scores, written = decoder.start(*as_array(prompts)), []
        for _ in range(new):
            written.append(scores.argmax(axis=-1))
            scores = decoder.step(written[-1])
        np.testing.assert_array_equal(np.stack(written, axis=1), expected)
