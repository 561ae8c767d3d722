"""Choosing a token: each filter against that of the transformers library, draws against their probabilities."""

from typing import Any

import numpy as np
import pytest

from glassformer.errors import CheckpointError, SettingError
from glassformer.generate.sampling import Sampling, biased, drawn, min_p, penalised, top_k, top_p

from .theirs import transformers

SCORES = np.random.default_rng(0).normal(scale=3, size=(5, 40))
SCORES[1, 7:30] = 1.25  # many alike
SCORES[2, ::3] = -np.inf
SCORES[3] = np.round(SCORES[3])
WRITTEN = np.random.default_rng(1).integers(40, size=(5, 12))


def generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def theirs(name: str, *settings: Any) -> np.ndarray:
    """float64, so that nothing hangs on the last digit."""
    processor = getattr(transformers().generation.logits_process, name)(*settings)
    import torch

    return processor(torch.tensor(WRITTEN), torch.tensor(SCORES)).numpy()


@pytest.mark.parametrize("k", [1, 2, 9, 39, 40, 41, 1000])
def test_top_k_is_that_of_transformers(k: int) -> None:
    ours = [top_k(row, k) for row in SCORES]
    assert np.array_equal(ours, theirs("TopKLogitsWarper", k))


@pytest.mark.parametrize("p", [1e-6, 0.1, 0.5, 0.9, 0.999999])
def test_top_p_is_that_of_transformers(p: float) -> None:
    chosen = [0, 2, 4]  # where several scores are equal, any of them may go
    ours = np.array([top_p(row, p) for row in SCORES])
    expected = theirs("TopPLogitsWarper", p)
    assert np.array_equal(ours[chosen], expected[chosen])
    assert np.array_equal(np.sort(ours), np.sort(expected))


@pytest.mark.parametrize("p", [1e-6, 0.01, 0.3, 1.0])
def test_min_p_is_that_of_transformers(p: float) -> None:
    ours = [min_p(row, p) for row in SCORES]
    assert np.array_equal(ours, theirs("MinPLogitsWarper", p))


def test_the_bias_of_tokens_is_that_of_transformers() -> None:
    bias = {3: -2.5, 0: 7.0, 39: -np.inf}
    ours = [biased(row, bias) for row in SCORES]
    assert np.array_equal(
        ours, theirs("SequenceBiasLogitsProcessor", [[[token], value] for token, value in bias.items()])
    )


@pytest.mark.parametrize("penalty", [0.3, 1.0, 1.2, 5.0])
def test_the_repetition_penalty_is_that_of_transformers(penalty: float) -> None:
    ours = [penalised(row, ids, penalty) for row, ids in zip(SCORES, WRITTEN.tolist(), strict=True)]
    assert np.allclose(ours, theirs("RepetitionPenaltyLogitsProcessor", penalty), rtol=1e-12)
    assert np.array_equal(penalised(SCORES[0], [], penalty), SCORES[0])


def test_all_together_in_the_order_of_transformers() -> None:
    settings = {"temperature": 1.5, "top_k": 20, "top_p": 0.95, "min_p": 0.1, "repetition_penalty": 1.5}
    bias = {int(token): value for token, value in zip(SCORES[4].argsort()[::-3], [-3.0, 2.0, 1.5, -0.5], strict=False)}
    library = transformers()
    import torch

    config = library.GenerationConfig(
        do_sample=True, sequence_bias=[[[token], value] for token, value in bias.items()], **settings
    )
    model = library.GPT2LMHeadModel(library.GPT2Config(vocab_size=40, n_embd=4, n_head=1, n_layer=1))
    processors = model._get_logits_processor(generation_config=config, input_ids_seq_length=12)
    assert len(processors) == 6
    expected = processors(torch.tensor(WRITTEN), torch.tensor(SCORES)).numpy()
    sampling = Sampling(**settings, logit_bias=bias)
    for row in (0, 2, 4):
        ours = sampling.shaped(SCORES[row], WRITTEN[row].tolist())
        assert np.array_equal(ours > -np.inf, expected[row] > -np.inf)
        kept = ours > -np.inf
        assert 1 < kept.sum() < 20
        assert np.allclose(ours[kept], expected[row][kept], rtol=1e-12)


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    scores = np.log([0.5, 0.125, 0.0625, 0.3125, 1e-30]) + 3
    scores[4] = -np.inf
    generator = np.random.default_rng(0)
    counts = np.bincount([drawn(scores, generator) for _ in range(20_000)], minlength=5) / 20_000
    assert counts == pytest.approx([0.5, 0.125, 0.0625, 0.3125, 0], abs=0.015)
    assert counts[4] == 0


@pytest.mark.parametrize(("draw", "token"), [(0.0, 1), (0.2499, 1), (0.25, 3), (0.9999, 3), (1 - 2**-53, 3)])
def test_a_draw_falls_into_the_share_of_one_token(draw: float, token: int) -> None:
    class Fixed:
        def random(self) -> float:
            return draw

    fixed: Any = Fixed()
    assert drawn(np.array([-np.inf, 0, -np.inf, np.log(3), -np.inf]), fixed) == token


def test_greedy_takes_the_best_and_minds_penalty_and_bias_only() -> None:
    scores = np.array([[1.0, 3.0, 2.5], [-1.0, -2.0, -3.0]], np.float32)
    greedy = Sampling(greedy=True, temperature=9, top_k=1, top_p=0.01, min_p=0.9)
    assert [greedy.choose(row, [], generator(0)) for row in scores] == [1, 0]
    shy = Sampling(greedy=True, repetition_penalty=1.5)
    assert [shy.choose(*row, generator(0)) for row in zip(scores, [[1, 1], [2]], strict=True)] == [2, 0]
    led = Sampling(greedy=True, logit_bias={1: -1.0, 2: 1.5})
    assert [led.choose(row, [], generator(0)) for row in scores] == [2, 0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0}, "temperature is 0, expected a number above 0, such as 0.8; .* use greedy"),
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": float("inf")}, "temperature is inf"),
        ({"top_p": 0.0}, "top_p is 0.0, expected a share above 0 and up to 1"),
        ({"top_p": 1.01}, "top_p is 1.01"),
        ({"top_p": float("nan")}, "top_p is nan"),
        ({"min_p": -0.1}, "min_p is -0.1, expected a share from 0 to 1"),
        ({"min_p": 1.1}, "min_p is 1.1"),
        ({"min_p": float("nan")}, "min_p is nan"),
        ({"top_k": -1}, "top_k is -1, expected 0 or more"),
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0, expected a number above 0"),
        ({"repetition_penalty": float("nan")}, "repetition_penalty is nan"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Sampling(**settings)


def test_scores_that_are_no_numbers() -> None:
    with pytest.raises(CheckpointError, match="not numbers"):
        Sampling().choose(np.array([0.0, np.nan]), [], generator(0))
