"""Attention maps are the model's own, rollout is its formula, and panels lay them over the right patches."""

import dataclasses
import importlib
import io
import pkgutil
from typing import Any

import jax
import numpy as np
import pytest
from PIL import Image

from glassformer import lens
from glassformer.data import load as load_data
from glassformer.errors import SettingError, ShapeError, UnknownNameError
from glassformer.lens.attention import attention_maps, panel, panels, picture, rollout, rollout_panel
from glassformer.models import MLP, Images, Network, PatchAttention, PatchBlock, ViT
from glassformer.models.patch_block import NormedResidual
from glassformer.names import named_leaves

from .small_models import small

SMALL = Images(shape=(8, 12, 1), classes=3)  # 2 x 3 patches: rows and columns cannot be mixed up
VIT = ViT(images=SMALL, width=8, hidden=8, heads=2, depth=3)
WITH_CLASS = dataclasses.replace(VIT, with_class_token=True)


def drawn(model: Network, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Random params, large enough that attention is far from even, and three random images."""
    params = jax.tree.map(lambda leaf: 3 * leaf, model.init(jax.random.key(seed)))
    images = np.random.default_rng(seed).integers(0, 256, (3, *model.example(1).shape[1:]), dtype=np.uint8)
    return params, images


@pytest.mark.parametrize(
    ("model", "names", "shape"),
    [
        (VIT, [f"blocks.{i}.attn.pattern" for i in range(3)], (3, 2, 6, 6)),
        (WITH_CLASS, [f"blocks.{i}.attn.pattern" for i in range(3)], (3, 2, 7, 7)),
        (PatchAttention(images=SMALL), ["attn.pattern"], (3, 1, 6, 6)),
        (PatchBlock(images=SMALL, heads=4), ["attn.pattern"], (3, 4, 6, 6)),
        (PatchBlock(images=SMALL, block=NormedResidual()), ["attn.inner.inner.pattern"], (3, 1, 6, 6)),
    ],
)
def test_maps_are_those_of_the_forward_and_their_rows_add_up_to_one(
    model: Network, names: list[str], shape: tuple[int, ...]
) -> None:
    params, images = drawn(model)
    maps = attention_maps(model, params, images)
    assert list(maps) == names
    for pattern in maps.values():
        assert pattern.shape == shape
        assert (pattern >= 0).all()
        np.testing.assert_allclose(pattern.sum(axis=-1), 1, atol=1e-5)
        assert pattern.std() > 0.01
    _, cache = model.forward(params, images)
    np.testing.assert_array_equal(maps[names[0]], named_leaves(cache)[names[0]])


def test_a_model_without_attention_is_refused() -> None:
    model = MLP(images=SMALL, hidden=(4,))
    with pytest.raises(
        UnknownNameError,
        match=r"MLP has no attention: .* are patch_attention, vit, patch_block, tiny_iris, gpt, llama, bert and t5",
    ):
        attention_maps(model, *drawn(model))


@pytest.mark.parametrize(
    ("kind", "padded"), [("gpt", True), ("gpt-rotary", False), ("bert-masked", True), ("t5", True)]
)
def test_maps_of_text_models_are_those_by_hand(kind: str, padded: bool) -> None:
    """Self, causal and cross, with tokens that only fill up and without: the patterns of plain NumPy."""
    one = small(kind, padded)
    maps, expected = attention_maps(one.model, one.params, one.x, **one.keywords), one.by_hand().patterns
    assert list(maps) == list(expected)
    for name, pattern in expected.items():
        np.testing.assert_allclose(maps[name], pattern, atol=2e-5)


@pytest.mark.parametrize("name", ["decoder.blocks.0.cross.pattern", "decoder.blocks.0.attn.pattern"])
def test_rollout_is_of_one_stack(name: str) -> None:
    square = np.full((1, 1, 3, 3), 1 / 3)
    with pytest.raises(
        ShapeError, match=r"maps of 2 stacks came .* rolled\(\) of glassformer\.lens\.attention_rollout"
    ):
        rollout({"encoder.blocks.0.attn.pattern": square, name: square})


@pytest.mark.parametrize("model", [VIT, WITH_CLASS])
def test_rollout_equals_a_loop_over_all_paths(model: ViT) -> None:
    """Written out without matrices: the weight of every path of tokens through the blocks, added up."""
    params, images = drawn(model)
    maps = attention_maps(model, params, images)
    product = rollout(maps)
    tokens = product.shape[-1]
    first, second, third = (np.asarray(pattern, np.float64) for pattern in maps.values())

    def step(pattern: np.ndarray, image: int, to: int, source: int) -> float:
        heads = [pattern[image, head, to, source] for head in range(model.heads)]
        return (sum(heads) / len(heads) + (to == source)) / 2

    for image, end, start in [(0, 0, 0), (1, 2, 5), (2, 4, 1), (2, tokens - 1, 0)]:
        paths = sum(
            step(third, image, end, b) * step(second, image, b, a) * step(first, image, a, start)
            for a in range(tokens)
            for b in range(tokens)
        )
        assert product[image, end, start] == pytest.approx(paths, abs=1e-6)
    np.testing.assert_allclose(product.sum(axis=-1), 1, atol=1e-6)


def test_no_module_of_the_lens_hides_a_function() -> None:
    """`lens.rollout(maps)` as the docs write it: every public name is a function or a class, whatever is imported."""
    for module in pkgutil.iter_modules(lens.__path__, "glassformer.lens."):
        if not module.ispkg:
            importlib.import_module(module.name)
    assert [name for name in lens.__all__ if not callable(getattr(lens, name))] == []
    assert lens.rollout is rollout


def test_rollout_of_nothing_is_refused() -> None:
    with pytest.raises(ShapeError, match="expected those of at least one block"):
        rollout({})


def test_a_panel_shows_what_the_query_looks_at() -> None:
    pattern = np.full((6, 6), 0.1)
    pattern[4] = 0.0
    pattern[4, 2] = 1.0  # token 4, the patch (1, 1), looks at token 2, the patch (0, 2)
    shares = panel(VIT, "x", "", 0, pattern, (1, 1)).shares
    assert shares.shape == (2, 3)
    assert np.argwhere(shares).tolist() == [[0, 2]]
    assert panel(VIT, "x", "", 0, pattern, "mean").shares[0, 2] == pytest.approx((5 * 0.1 + 1) / 6)


def test_the_class_token_is_split_off() -> None:
    pattern = np.zeros((7, 7))
    pattern[0, 3] = 0.75  # the class token looks at token 3, the patch (0, 2), and at itself
    pattern[0, 0] = 0.25
    pattern[1:, 6] = 1.0  # every patch looks at the last one
    asked = panel(WITH_CLASS, "x", "", 0, pattern, "class")
    assert np.argwhere(asked.shares).tolist() == [[0, 2]]
    assert asked.in_front == {"class": 0.25}
    mean = panel(WITH_CLASS, "x", "", 0, pattern, "mean")
    assert mean.shares[1, 2] == 1.0, "the class token is not among the patches that ask"
    assert mean.in_front == {"class": 0.0}
    assert panel(WITH_CLASS, "x", "", 0, pattern, (0, 0)).shares[1, 2] == 1.0


def test_a_query_outside_the_image_is_refused() -> None:
    maps = attention_maps(VIT, *drawn(VIT))
    with pytest.raises(SettingError, match="query: patch 2,0 came, expected rows 0-1, columns 0-2"):
        panels(VIT, maps, (2, 0))
    with pytest.raises(SettingError, match="this model has no class token"):
        panels(VIT, maps, "class")


def test_panels_stand_in_blocks_and_heads_and_add_up_to_one() -> None:
    maps = attention_maps(WITH_CLASS, *drawn(WITH_CLASS))
    blocks = panels(WITH_CLASS, maps, (1, 2))
    assert [[(one.name, one.head) for one in row] for row in blocks] == [
        [(f"blocks.{b}.attn.pattern", h) for h in range(2)] for b in range(3)
    ]
    for one in [*blocks[0], *blocks[2], rollout_panel(WITH_CLASS, maps)]:
        assert one.shares.sum() + sum(one.in_front.values()) == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(blocks[1][1].shares.ravel(), maps["blocks.1.attn.pattern"][0, 1, 6, 1:])


@pytest.mark.parametrize("shape", [(8, 12, 1), (8, 12, 3)])
def test_a_picture_is_drawn_for_every_kind_of_image(shape: tuple[int, int, int]) -> None:
    model = dataclasses.replace(WITH_CLASS, images=Images(shape=shape), depth=2)
    params, images = drawn(model)
    maps = attention_maps(model, params, images)
    png = picture(images[0], panels(model, maps, (0, 1)), rollout_panel(model, maps, (0, 1)), (0, 1), "a title")
    assert Image.open(io.BytesIO(png)).format == "PNG"


def test_the_brightest_colour_is_where_the_attention_is() -> None:
    """Read off the drawn pixels: all attention on one patch gives yellow there, and only there."""
    pattern = np.zeros((1, 1, 49, 49))
    pattern[..., 10] = 1.0  # row 1, column 3
    image = load_data("mnist-mini").test.images[0]
    png = picture(image, panels(ViT(), {"blocks.0.attn.pattern": pattern}))
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)
    purple = np.abs(pixels - (68, 1, 84)).max(axis=-1) < 8
    rows, columns = np.flatnonzero(purple.sum(axis=1) > 100), np.flatnonzero(purple.sum(axis=0) > 100)
    (top, bottom), (left, right) = (rows[0], rows[-1]), (columns[0], columns[-1])  # of the panel, not the scale beside
    yellow = np.argwhere(np.abs(pixels[:, : right + 1] - (253, 231, 37)).max(axis=-1) < 8)
    y, x = (yellow.mean(axis=0) - (top, left)) / (bottom - top, right - left)
    assert y == pytest.approx(1.5 / 7, abs=0.02)
    assert x == pytest.approx(3.5 / 7, abs=0.02)
    assert len(yellow) == pytest.approx((bottom - top) * (right - left) / 49, rel=0.15)
