"""Health: each number as a plain loop finds it, alarms where something was broken on purpose, and sentences to read."""

from dataclasses import replace
from math import log
from typing import Any

import jax
import numpy as np
import pytest

from glassformer.lens.health import Finding, findings, health
from glassformer.lens.trace import Trace, trace
from glassformer.models import MLP, Images
from glassformer.names import named_leaves, with_leaves

from .small_models import CASES, MODELS, VIT, small, traced


def of(seen: Trace, measure: str) -> list[Finding]:
    return [finding for finding in health(seen) if finding.measure == measure]


def changed(seen: Trace, **values: Any) -> Trace:
    """With some values of forward replaced; `__` stands for a dot."""
    return replace(seen, values={**seen.values, **{name.replace("__", "."): one for name, one in values.items()}})


def broken(kind: str, images: int = 8, **leaves: Any) -> Trace:
    """A ViT of which some weights were replaced."""
    model, params = MODELS[kind], small(kind).params
    named = {name.replace("__", "."): value for name, value in leaves.items()}
    params = with_leaves(
        params, {name: np.broadcast_to(v, named_leaves(params)[name].shape) for name, v in named.items()}
    )
    rng = np.random.default_rng(1)
    x = rng.integers(0, 256, (images, *model.images.shape), dtype=np.uint8)
    return trace(model, params, x, labels=np.arange(images) % 3)


def test_units_that_never_fire() -> None:
    """Four of nine are held down by their bias."""
    b_up = np.where(np.arange(9) < 4, -50.0, 3.0).astype(np.float32)
    seen = broken("vit", blocks__0__ff__b_up=b_up)
    first, second = of(seen, "dead units")
    assert first == Finding(
        "dead units",
        "blocks.0.ff.hidden",
        4 / 9,
        "block 0: 44 % of feed-forward units never fire, over 48 tokens",
        True,
    )
    hidden = seen["blocks.1.ff.hidden"].reshape(-1, 9).tolist()
    silent = [unit for unit in range(9) if all(token[unit] <= 1e-4 for token in hidden)]
    assert second.value == len(silent) / 9
    assert first.text in findings(seen)


def test_few_tokens_are_no_proof() -> None:
    few = broken("vit", images=3, blocks__0__ff__b_up=np.float32(-50))
    first, _ = of(few, "dead units")
    assert first.text == "block 0: 100 % of feed-forward units never fire, over 18 tokens"
    assert not first.alarming


@pytest.mark.parametrize(("kind", "name"), [("t5", "hidden"), ("t5-gated", "gate")])
def test_tokens_that_only_fill_up_do_not_count(kind: str, name: str) -> None:
    """Unit 2 fires at a filled-up token alone; unit 3 at a real one."""
    seen = traced(kind, True)
    units = np.full((2, 6, 7), -0.1)
    units[1, 5, 2] = units[1, 3, 3] = 1.0
    fired = changed(seen, **{f"encoder__blocks__0__ff__{name}": units})
    first = of(fired, "dead units")[0]
    assert (first.name, first.value) == (f"encoder.blocks.0.ff.{name}", 6 / 7)
    assert first.text == "encoder block 0: 86 % of feed-forward units never fire, over 10 tokens"


def test_the_units_of_an_mlp() -> None:
    model = MLP(images=Images((2, 3, 1), classes=3), hidden=(5,))
    params = model.init(jax.random.key(0))
    params = with_leaves(params, {"layers.0.b": np.array([-9, -9, -9, 9, 9], np.float32)})
    images = np.random.default_rng(0).integers(0, 256, (40, 2, 3, 1), dtype=np.uint8)
    (found,) = of(trace(model, params, images), "dead units")
    assert found.text == "relu 0: 60 % of units never fire, over 40 samples"
    assert found.alarming


@pytest.mark.parametrize(("kind", "padded"), CASES)
def test_entropy_and_saturation_row_by_row(kind: str, padded: bool) -> None:
    seen, found = traced(kind, padded), iter(health(traced(kind, padded)))
    lengths = {"source": [6, 4] if padded else [6, 6], "target": [5, 5]}
    entropies, shares = [], []
    for name, pattern in small(kind, padded).by_hand().patterns.items():
        causal = "gpt" in kind or (name.startswith("decoder.") and "cross" not in name)
        rows_of = "target" if name.startswith("decoder.") else "source"
        sources_of = "target" if name.startswith("decoder.") and causal else "source"
        for head in range(pattern.shape[1]):
            relative, saturated = [], []
            for b, rows in enumerate(pattern[:, head]):
                sources = pattern.shape[-1] if "vit" in kind else lengths[sources_of][b]
                for t, row in enumerate(rows[: pattern.shape[2] if "vit" in kind else lengths[rows_of][b]]):
                    n = min(t + 1, sources) if causal else sources
                    if n > 1:
                        relative.append(-sum(p * log(p) for p in row if p > 0) / log(n))
                        saturated.append(max(row) > 0.99)
            entropies.append(sum(relative) / len(relative))
            shares.append(sum(saturated) / len(saturated))
    assert [one.value for one in of(seen, "entropy")] == pytest.approx(entropies, abs=1e-4)
    assert [one.value for one in of(seen, "saturation")] == pytest.approx(shares, abs=1e-6)
    assert next(found).text


def test_a_head_that_looks_at_everything_alike() -> None:
    found = of(broken("vit", blocks__1__attn__w_q=np.float32(0), blocks__1__attn__b_q=np.float32(0)), "entropy")
    assert [one.alarming for one in found] == [False, False, True, True]
    assert found[3].text == (
        "block 1, head 1: the entropy of its attention is 100 % of the largest there is: it looks at everything alike, "
        "and only averages"
    )


def test_a_head_that_is_saturated() -> None:
    w_q = 1000 * small("vit").w["blocks.0.attn.w_q"].astype(np.float32)
    found = of(broken("vit", blocks__0__attn__w_q=w_q), "saturation")
    assert [one.alarming for one in found] == [True, True, False, False]
    assert found[0].text.startswith("block 0, head 0: ")
    assert found[0].text.endswith(
        "of its rows put more than 99 % on one token: saturated, hardly a gradient passes its softmax"
    )


@pytest.mark.parametrize("kind", ["vit", "vit-class", "gpt", "bert-masked"])
def test_positions_beside_tokens(kind: str) -> None:
    one = small(kind)
    written, w = one.by_hand().written, one.w
    if kind == "bert-masked":
        tokens, pos = w["bert.embed.emb"][one.x] + w["bert.segment.emb"][0], w["bert.positions.pos"][:6]
    else:
        names = ("class_token.token", "patch.y", "embed.y")
        tokens, pos = sum(written[name] for name in names if name in written), written["positions.pos"][0]
    expected = np.sqrt((np.broadcast_to(pos, np.shape(tokens)) ** 2).sum()) / np.sqrt((np.asarray(tokens) ** 2).sum())
    (found,) = of(traced(kind), "positions")
    assert found.value == pytest.approx(expected, rel=1e-4)
    assert found.text == f"positions: {expected:.2g} times as strong as the tokens they are added to"


@pytest.mark.parametrize(
    ("size", "end"),
    [(1e4, "what the tokens are is hardly heard"), (1e-4, "where the tokens stand is hardly heard")],
)
def test_positions_that_drown_or_are_drowned(size: float, end: str) -> None:
    seen = traced("gpt")
    added = np.float32(size) * np.ones_like(seen["embed.y"])
    (found,) = of(changed(seen, positions__y=seen["embed.y"] + added), "positions")
    assert found.alarming
    assert found.text.endswith(end)


@pytest.mark.parametrize("kind", ["gpt-rotary", "t5"])
def test_positions_that_are_not_added(kind: str) -> None:
    assert of(traced(kind), "positions") == []


@pytest.mark.parametrize("kind", MODELS)
def test_gradients_beside_weights(kind: str) -> None:
    one, seen = small(kind), traced(kind)
    matrices = {name: leaf for name, leaf in one.w.items() if leaf.ndim == 2}
    found = {finding.name: finding.value for finding in of(seen, "gradient/weight")}
    assert list(found) == list(matrices)
    for name, leaf in matrices.items():
        d = np.asarray(seen.param_gradients[name], np.float64)
        assert found[name] == pytest.approx((d**2).sum() ** 0.5 / (leaf**2).sum() ** 0.5, rel=1e-5)


@pytest.mark.parametrize(
    ("factor", "end"),
    [
        (0, "its gradient is zero: it does not learn from this"),
        (1e-5, "the median of all matrices: it hardly learns beside the rest"),
        (1e5, "the median of all matrices: it learns much faster than the rest"),
    ],
)
def test_a_matrix_that_learns_unlike_the_rest(factor: float, end: str) -> None:
    seen, name = traced("vit"), "blocks.0.attn.w_v"
    d = seen.param_gradients[name] * factor
    found = of(replace(seen, param_gradients={**seen.param_gradients, name: d}), "gradient/weight")
    assert [(one.name, one.text.endswith(end)) for one in found if one.alarming] == [(name, True)]


@pytest.mark.parametrize(
    ("kind", "blocks"),
    [("vit", [""]), ("gpt", [""]), ("bert-class", ["bert."]), ("t5", ["encoder.", "decoder."])],
)
def test_the_gradient_across_blocks(kind: str, blocks: list[str]) -> None:
    seen = traced(kind)
    found = of(seen, "across blocks")
    for one, where in zip(found, blocks, strict=True):
        names = ("x", "norm2.dy") if where == "bert." else ("resid_pre", "dresid_post")
        first, last = seen[f"{where}blocks.0.d{names[0]}"], seen[f"{where}blocks.1.{names[1]}"]
        assert one.value == pytest.approx(np.sqrt((first**2).sum()) / np.sqrt((last**2).sum()), rel=1e-5)
        assert not one.alarming


@pytest.mark.parametrize(("factor", "word"), [(1e-4, "it vanishes"), (1e4, "it explodes")])
def test_a_gradient_that_vanishes_or_explodes(factor: float, word: str) -> None:
    """Between what leaves block 1 and what leaves block 0."""
    seen = traced("gpt")
    d = {**seen.gradients, "blocks.0.dresid_pre": factor * seen["blocks.1.dresid_pre"]}
    (found,) = of(replace(seen, gradients=d), "across blocks")
    assert found.alarming
    assert f": {word}, most of all in block 0 (" in found.text
    assert found.text.startswith("blocks, gradient from the last block back to the first: ")


def test_values_that_are_not_finite() -> None:
    w_v = np.array(small("vit").w["blocks.1.attn.w_v"], np.float32)
    w_v[0, 0] = np.nan
    seen = broken("vit", blocks__1__attn__w_v=w_v)
    found = health(seen)
    assert {one.measure for one in found} == {"not finite"}
    assert found[0].name == "blocks.1.attn.v"
    assert found[0].text.startswith("blocks.1.attn.v (forward): 12 % of its values are not finite, and ")
    assert [one.name for one in found if "(parameters)" in one.text] == ["blocks.1.attn.w_v"]
    assert findings(seen) == [one.text for one in found]


def test_without_gradients_there_is_still_the_forward() -> None:
    measures = {one.measure for one in health(replace(traced("gpt"), gradients={}, param_gradients={}))}
    assert measures == {"positions", "dead units", "entropy", "saturation"}


def test_a_healthy_model_has_no_findings() -> None:
    assert findings(broken("vit")) == []
    assert VIT.depth == 2
