"""Gradient x attention: its gradients are those of finite differences by hand, its rollout every path, added up."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from glassformer.errors import ShapeError, UnknownNameError
from glassformer.lens.attention_rollout import rolled
from glassformer.lens.gradient_attention import averaged, gradient_attention, gradient_rollout
from glassformer.lens.trace import trace

from .small_models import CASES, MODELS, Small, score_weights, small, traced

STEP = 1e-5


def slope(one: Small, name: str, entry: tuple[int, int, int], score: Any) -> np.ndarray:
    """Of the score of each sample, when one number of an attention pattern changes and nothing before it."""

    def moved(by: float) -> np.ndarray:
        def look(seen: str, pattern: np.ndarray) -> np.ndarray:
            if seen != name:
                return pattern
            pattern = pattern.copy()
            pattern[:, *entry] += by
            return pattern

        return score(one.by_hand(look).logits)

    return (moved(STEP) - moved(-STEP)) / (2 * STEP)


def expected(one: Small, score: Any) -> dict[str, np.ndarray]:
    found = {}
    for name, pattern in one.by_hand().patterns.items():
        found[name] = np.zeros_like(pattern)
        for entry in np.ndindex(*pattern.shape[1:]):
            if pattern[:, *entry].any():
                product = pattern[:, *entry] * slope(one, name, entry, score)
                found[name][:, *entry] = np.where(product > 0, product, 0)
    return found


# Of texts, those without padding are slow: what is padded has all that they have.
MARKED = [
    pytest.param(*case, marks=pytest.mark.slow if (case[0], True) in CASES and not case[1] else ()) for case in CASES
]


@pytest.mark.parametrize(("kind", "padded"), MARKED)
def test_each_head_equals_finite_differences(kind: str, padded: bool) -> None:
    one, weights = small(kind, padded), score_weights(kind, padded)
    found = gradient_attention(traced(kind, padded))
    wanted = expected(one, lambda logits: (logits * weights).reshape(len(logits), -1).sum(axis=1))
    assert list(found) == list(wanted)
    for name, relevance in wanted.items():
        assert relevance.max() > 0.01
        np.testing.assert_allclose(found[name], relevance, atol=2e-4 * max(1, relevance.max()))


def test_with_labels_it_speaks_for_the_label() -> None:
    one, labels = small("vit"), np.array([2, 0, 1])
    found = gradient_attention(trace(one.model, one.params, one.x, labels=labels))

    def log_p(logits: np.ndarray) -> np.ndarray:
        own = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        return own[np.arange(3), labels] / 3  # the loss is the mean of the batch

    for name, relevance in expected(one, log_p).items():
        np.testing.assert_allclose(found[name], relevance, atol=1e-5)
        assert relevance.max() > 1e-3


@pytest.mark.parametrize("kind", MODELS)
def test_the_mean_over_heads(kind: str) -> None:
    found = gradient_attention(traced(kind))
    for name, mean in averaged(found).items():
        heads = found[name].astype(np.float64)
        np.testing.assert_allclose(mean, sum(heads[:, h] for h in range(heads.shape[1])) / heads.shape[1], rtol=1e-9)


@pytest.mark.parametrize("kind", ["vit", "gpt", "bert-masked"])
def test_rollout_adds_up_every_path(kind: str) -> None:
    """From token `end` of the last block to input token `start`: every block is passed by, or looked through."""
    seen = traced(kind)
    first, second = (one[1] for one in averaged(gradient_attention(seen)).values())
    (product,) = gradient_rollout(seen).values()
    tokens = len(first)
    for end, start in [(0, 0), (5, 2), (3, 5), (4, 4)]:
        past_both = float(end == start)
        through_one = first[end, start] + second[end, start]
        through_both = sum(second[end, middle] * first[middle, start] for middle in range(tokens))
        assert product[1, end, start] == pytest.approx(past_both + through_one + through_both, rel=1e-6)


@pytest.mark.parametrize("s", [1.0, 0.5])
def test_rollout_of_an_encoder_and_a_decoder(s: float) -> None:
    """Asked from the top: where does what stands at token t after so many steps come from?"""
    seen = traced("t5")
    maps = averaged(gradient_attention(seen))
    steps = [(name, one[0]) for name, one in maps.items()]
    encoder, decoder = [s for s in steps if s[0].startswith("enc")], [s for s in steps if s[0].startswith("dec")]

    @cache
    def memory(step: int, token: int, origin: int) -> float:
        if step < 0:
            return float(token == origin)
        a = encoder[step][1]
        looked = sum(a[token, other] * memory(step - 1, other, origin) for other in range(a.shape[1]))
        return s * (memory(step - 1, token, origin) + looked)

    @cache
    def written(step: int, token: int, origin: tuple[str, int]) -> float:
        if step < 0:
            return float(("target", token) == origin)
        name, a = decoder[step]
        side, number = origin
        looked = 0.0
        if "cross" not in name:
            looked = sum(a[token, other] * written(step - 1, other, origin) for other in range(a.shape[1]))
        elif side == "source":
            looked = sum(a[token, other] * memory(len(encoder) - 1, other, number) for other in range(a.shape[1]))
        return s * (written(step - 1, token, origin) + looked)

    found = rolled(seen.model, maps, s)
    assert {kind: one.shape for kind, one in found.items()} == {
        "self": (2, 6, 6),
        "causal": (2, 5, 5),
        "cross": (2, 5, 6),
    }
    last = len(decoder) - 1
    wanted = {
        "self": np.array([[memory(len(encoder) - 1, t, o) for o in range(6)] for t in range(6)]),
        "causal": np.array([[written(last, t, ("target", o)) for o in range(5)] for t in range(5)]),
        "cross": np.array([[written(last, t, ("source", o)) for o in range(6)] for t in range(5)]),
    }
    for kind, one in wanted.items():
        np.testing.assert_allclose(found[kind][0], one, rtol=1e-9)  # pyright: ignore[reportArgumentType]
    if s == 1:
        np.testing.assert_allclose(gradient_rollout(seen)["cross"], found["cross"])


def test_rows_of_a_rollout_of_attention_add_up_to_one() -> None:
    seen = traced("t5", True)
    maps = {name: seen[name].mean(axis=1) for name in seen.values if name.endswith("pattern")}
    found = rolled(seen.model, maps, 0.5)
    np.testing.assert_allclose(found["self"].sum(axis=-1), 1, atol=1e-6)
    np.testing.assert_allclose(found["causal"].sum(axis=-1) + found["cross"].sum(axis=-1), 1, atol=1e-6)
    assert found["cross"].sum() > 1
    assert not found["cross"][1, :, 4:].any(), "nothing comes from what only fills up"


def test_what_is_missing_is_said() -> None:
    seen = traced("vit")
    with pytest.raises(UnknownNameError, match="the trace has no gradients; make it with labels=…, or with dy=…"):
        gradient_attention(replace(seen, gradients={}))
    with pytest.raises(UnknownNameError, match="the trace of ViT has no value called 'pattern'"):
        gradient_attention(seen.match("*.z"))
    with pytest.raises(ShapeError, match="no attention maps came"):
        rolled(None, {}, 1)
