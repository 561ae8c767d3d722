"""What trace, attend and view show of Llama's family, RoBERTa, DistilBERT and DeiT, beside the same in plain NumPy."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from glassformer.errors import SettingError
from glassformer.layers import ReLU, ScaledRotary
from glassformer.layers.rope_scaling import LinearScaling, YarnScaling
from glassformer.lens.attention import attention_maps, panel, panels, rollout_panel, tokens_in_front
from glassformer.lens.payload import payload
from glassformer.lens.trace import trace
from glassformer.lens.trace_input import image_input
from glassformer.models import BERT, Images, Llama, Text, ViT
from glassformer.models.llama import Params
from glassformer.predict.run import Run
from glassformer.train.recipe import Recipe

TOKENS, HEADS, KEY_HEADS, D, EPS, WINDOW = 7, 6, 2, 4, 1e-5, 3
WORDS = Text(vocabulary=11, context=9)
SIZES: dict[str, Any] = {"width": 10, "hidden": 7, "heads": HEADS, "key_heads": KEY_HEADS, "head_width": D, "depth": 1}
LLAMA = Llama(WORDS, **SIZES, tied=False)
FAMILY = {
    "llama": LLAMA,
    "mistral": replace(LLAMA, window=WINDOW),
    "qwen2": replace(LLAMA, bias="qkv", rotary=ScaledRotary(LinearScaling(2.5), base=50.0)),
    "qwen3": replace(LLAMA, head_norm=True, rotary=ScaledRotary(YarnScaling(4.0, context=6, truncate=False))),
}
READER = BERT(WORDS, width=12, hidden=10, heads=3, depth=1)
IMAGES = Images((8, 12, 3), classes=5, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))
DEIT = ViT(IMAGES, patch_size=4, width=8, hidden=9, heads=2, depth=2, with_class_token=True, distillation="head")
IDS = np.random.default_rng(0).integers(0, 11, (1, TOKENS)).astype(np.int32)
IMAGE = np.random.default_rng(0).integers(0, 256, IMAGES.shape, dtype=np.uint8)


def drawn(model: Any) -> Any:
    """Large enough for attention weights that differ."""
    rng = np.random.default_rng(1)
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    return jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(np.float32), shapes)


def frequencies(model: Llama) -> np.ndarray:
    """Of the two pairs of a head, by the published formulas."""
    plain = np.array([model.rotary.base ** (-2 * i / D) for i in range(D // 2)])
    match model.rotary:
        case ScaledRotary(LinearScaling(factor)):
            return plain / factor
        case ScaledRotary(YarnScaling(factor, context)):
            turns = context * plain / (2 * np.pi)
            first, last = (D * np.log(context / (n * 2 * np.pi)) / (2 * np.log(model.rotary.base)) for n in (32.0, 1.0))
            assert turns[0] < 1  # even the fastest wave does not fit: all are lowered
            ramp = np.clip((np.arange(D // 2) - max(first, 0)) / (min(last, D - 1) - max(first, 0)), 0, 1)
            return plain * (1 - ramp + ramp / factor)
    return plain


def turned(model: Llama, x: np.ndarray) -> np.ndarray:
    """Each pair of each head at each place, one after the other."""
    y, scale = np.zeros_like(x), getattr(model.rotary, "scale", 1.0)
    for place in range(x.shape[1]):
        for i, frequency in enumerate(frequencies(model)):
            cos, sin = np.cos(place * frequency), np.sin(place * frequency)
            a, b = x[:, place, :, i], x[:, place, :, i + D // 2]
            y[:, place, :, i], y[:, place, :, i + D // 2] = scale * (a * cos - b * sin), scale * (a * sin + b * cos)
    return y


def normed(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + EPS) * gain


@pytest.mark.parametrize("name", FAMILY)
def test_q_and_k_are_shown_before_and_after_their_rotation(name: str) -> None:
    model, params = FAMILY[name], drawn(FAMILY[name])
    shown = trace(model, params, IDS, labels=IDS)
    w: Params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
    attn, seen = w.blocks[0].attn, {key: np.asarray(value, np.float64) for key, value in shown.values.items()}
    h: Any = normed(np.asarray(w.embed.emb)[IDS], np.asarray(w.blocks[0].norm1.gain))
    for part, heads in (("q", HEADS), ("k", KEY_HEADS)):
        bias, norm = getattr(attn, f"b_{part}"), getattr(attn, f"norm_{part}")
        x = h @ getattr(attn, f"w_{part}") + (0 if bias is None else bias)
        x = x.reshape(1, TOKENS, heads, D)
        x = x if norm is None else normed(x, norm.gain)
        y = turned(model, x)
        before, after = (f"blocks.0.attn.rotary_{part}.{value}" for value in "xy")
        np.testing.assert_allclose(seen[before], x, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(seen[after], y, rtol=1e-4, atol=1e-5)
        assert np.abs(seen[before] - seen[after])[:, 1:].max() > 0.1  # place 0 is turned by nothing
        named = "blocks.0.attn.q" if part == "q" else "blocks.0.attn.k_shared"
        np.testing.assert_array_equal(seen[named], seen[after])
    assert "blocks.0.attn.rotary_q.dx" in shown.gradients
    assert "blocks.0.attn.rotary_k.dy" in shown.gradients


@pytest.mark.parametrize("name", FAMILY)
def test_attention_maps_have_every_head_of_q_and_end_at_the_window(name: str) -> None:
    model, params = FAMILY[name], drawn(FAMILY[name])
    seen = {key: np.asarray(value, np.float64) for key, value in trace(model, params, IDS).values.items()}
    q, k = seen["blocks.0.attn.q"][0], seen["blocks.0.attn.k_shared"][0]
    (pattern,) = attention_maps(model, params, IDS).values()
    assert pattern.shape == (1, HEADS, TOKENS, TOKENS)
    expected = np.zeros((HEADS, TOKENS, TOKENS))
    for head in range(HEADS):
        for t in range(TOKENS):
            sees = range(0 if model.window is None else max(0, t - WINDOW + 1), t + 1)
            scores = np.array([q[t, head] @ k[s, head // (HEADS // KEY_HEADS)] / np.sqrt(D) for s in sees])
            weights = np.exp(scores - scores.max())
            expected[head, t, list(sees)] = weights / weights.sum()
    np.testing.assert_allclose(pattern[0], expected, atol=1e-5)
    assert (pattern[0][expected == 0] == 0).all()  # exactly: outside the window, and what is yet to come
    assert len({tuple(np.round(head[-1], 4)) for head in pattern[0]}) == HEADS  # those that share keys differ too


def test_positions_of_a_roberta_are_counted_and_a_distilbert_has_no_segments() -> None:
    keep = np.array([[False, False, True, True, True, True, False]])
    roberta = replace(READER, first_position=2)
    params = drawn(roberta)
    seen = trace(roberta, params, IDS, keep=keep).values
    assert np.asarray(seen["positions.places"]).tolist() == [[1, 1, 2, 3, 4, 5, 1]]
    rows = params.positions.pos[[1, 1, 2, 3, 4, 5, 1]]
    given = params.embed.emb[IDS[0]] + params.segment.emb[0]
    np.testing.assert_allclose(np.asarray(seen["positions.y"])[0], given + rows, rtol=1e-4, atol=1e-5)

    distilbert = replace(READER, segments=0, pooler=ReLU())
    shown = trace(distilbert, drawn(distilbert), IDS, keep=keep)
    assert not [name for name in (*shown.values, *shown.params) if "segment" in name]
    assert [name for name in trace(READER, drawn(READER), IDS).values if "segment" in name]


def test_both_tokens_of_a_deit_are_named() -> None:
    params = drawn(DEIT)
    shown = trace(DEIT, params, IMAGE[None], labels=[3])
    patches, both = np.asarray(shown["patch.y"]), np.asarray(shown["class_token.y"])
    np.testing.assert_array_equal(both[0, 0], params.class_token.token)
    np.testing.assert_array_equal(both[0, 1], params.distillation_token.token)
    np.testing.assert_array_equal(both[:, 2:], patches)
    assert tokens_in_front(DEIT) == ("class", "distillation")
    assert tokens_in_front(replace(DEIT, distillation="none")) == ("class",)
    assert tokens_in_front(ViT(IMAGES)) == ()

    given = image_input(as_run(DEIT, params), "an image", IMAGE)
    assert given.tokens[:4] == ("class", "distillation", "0,0", "0,1")
    page = payload(trace(DEIT, params, given.x, labels=given.labels), given)
    assert page["input"]["first"] == 2
    assert page["input"]["front"] == ["class", "distillation"]
    assert len(page["sequences"]["tokens"]) == page["tensors"]["blocks.0.attn.pattern"]["shape"][-1] == 8


def test_attention_of_a_deit_is_that_of_both_tokens_and_the_patches() -> None:
    params = drawn(DEIT)
    maps = attention_maps(DEIT, params, IMAGE[None])
    (pattern, _) = maps.values()
    for query, row in (("class", 0), ("distillation", 1), ((1, 2), 7)):
        one = panels(DEIT, maps, query)[0][1]  # pyright: ignore[reportArgumentType]
        received = pattern[0, 1, row]
        assert one.in_front == {"class": received[0], "distillation": received[1]}
        np.testing.assert_array_equal(one.shares.ravel(), received[2:])
    mean = panel(DEIT, "x", "", 0, pattern[0, 0], "mean")
    np.testing.assert_allclose(mean.shares.ravel(), pattern[0, 0, 2:, 2:].mean(axis=0), rtol=1e-5)
    for one in (mean, rollout_panel(DEIT, maps)):
        assert one.shares.sum() + sum(one.in_front.values()) == pytest.approx(1, abs=1e-5)
    with pytest.raises(SettingError, match="this model has no distillation token"):
        panels(replace(DEIT, distillation="none"), {"x": pattern[:, :, 1:, 1:]}, "distillation")


def as_run(model: Any, params: Any) -> Run:
    return Run(path=None, recipe=Recipe(model=model), params=params, classes=tuple("abcde"))  # pyright: ignore
