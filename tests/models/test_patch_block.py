"""Patch blocks: the bare one is the patch-attention classifier, and the others do what their formulas say."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import optax
import pytest

from glassformer.errors import SettingError
from glassformer.layers import LayerNorm, Linear, PreNorm
from glassformer.layers.positions import GridSinusoidal, Sinusoidal, Start, Uniform, Zero
from glassformer.models import Images, PatchAttention, PatchBlock
from glassformer.models.patch_block import Bare, Block, Normed, NormedResidual, WithResidual
from glassformer.models.summary import summarise
from glassformer.names import named_leaves
from glassformer.train.recipe import Recipe
from glassformer.train.settings import from_plain, to_plain, with_changes

from ..programs import forward, forward_and_backward
from .curves import OPTIMISERS, batches, by_autodiff, by_backward, train

SMALL = Images(shape=(8, 12, 3), classes=5, mean=0.2, std=0.7)
MODEL = PatchBlock(SMALL, width=10, hidden=7)
PLAIN = PatchAttention(SMALL, width=10, hidden=7)
BLOCKS = [Bare(), WithResidual(), Normed(), NormedResidual()]


def images_for(model: PatchBlock, count: int = 3) -> Any:
    return np.random.default_rng(0).integers(0, 256, (count, *model.images.shape), dtype=np.uint8)


def random_params(model: PatchBlock) -> Any:
    """Norms and biases too: ones and zeros hide mistakes."""
    draw = np.random.default_rng(1)
    return jax.tree.map(lambda leaf: draw.normal(0, 0.5, leaf.shape), jax.eval_shape(model.init, jax.random.key(0)))


def weights(params: Any) -> dict[str, np.ndarray]:
    """By name, without the layers around them: `attn.inner.norm.gain` -> `attn.norm.gain`."""
    return {name.replace("inner.", ""): np.asarray(leaf) for name, leaf in named_leaves(params).items()}


@pytest.mark.parametrize("start", [Uniform(0.1), Zero(), Sinusoidal(), GridSinusoidal(2, 3)])
def test_bare_is_the_patch_attention_classifier(start: Start) -> None:
    """The same draw for a seed under the same names, the same answer, the same gradients: to the bit."""
    ours, theirs = replace(MODEL, start=start), replace(PLAIN, start=start)
    params: Any
    expected: Any
    params, expected = (model.init(jax.random.key(7)) for model in (ours, theirs))
    assert list(named_leaves(params)) == list(named_leaves(expected))
    jax.tree.map(np.testing.assert_array_equal, tuple(params), tuple(expected))

    images, dy = images_for(ours), np.random.default_rng(2).normal(size=(3, SMALL.classes)).astype(np.float32)
    logits, _, gradients = forward_and_backward(ours, params, images, dy)
    expected_logits, _, expected_gradients = forward_and_backward(theirs, expected, images, dy)
    np.testing.assert_array_equal(logits, expected_logits)
    jax.tree.map(np.testing.assert_array_equal, tuple(gradients), tuple(expected_gradients))


@pytest.mark.parametrize("settings", [{}, {"heads": 5}, {"output": True}, {"heads": 2, "output": True}])
@pytest.mark.parametrize("block", BLOCKS)
def test_a_seed_draws_the_same_weights_whatever_stands_around_them(block: Block, settings: dict[str, Any]) -> None:
    drawn = weights(replace(MODEL, block=block, **settings).init(jax.random.key(3)))
    bare = weights(PLAIN.init(jax.random.key(3)))
    for name, value in bare.items():
        np.testing.assert_array_equal(drawn.pop(name), value)
    norms = {f"{branch}.norm.{part}" for branch in ("attn", "ff") for part in ("gain", "bias")}
    more = norms if isinstance(block, Normed | NormedResidual) else set()
    assert set(drawn) == more | ({"attn.w_o", "attn.b_o"} if settings.get("output") else set())


def by_hand(model: PatchBlock, params: Any, images: np.ndarray) -> np.ndarray:
    """Logits in plain NumPy, one image, one head and one patch at a time."""
    w = weights(params)
    rows, columns, size = *model.patches.grid, model.patch_size
    pixels = (images / 255 - model.images.mean) / model.images.std
    corners = [(size * row, size * column) for row in range(rows) for column in range(columns)]

    def branch(name: str, x: np.ndarray, inner: Any) -> np.ndarray:
        h = x
        if isinstance(model.block, Normed | NormedResidual):
            spread = np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
            h = (x - x.mean(axis=-1, keepdims=True)) / spread * w[f"{name}.norm.gain"] + w[f"{name}.norm.bias"]
        return inner(h) + (x if isinstance(model.block, WithResidual | NormedResidual) else 0)

    def attn(h: np.ndarray) -> np.ndarray:
        q, k, v = (h @ w[f"attn.w_{part}"] + w[f"attn.b_{part}"] for part in "qkv")
        joined = []
        for head in np.split(np.arange(model.width), model.heads):
            powers = np.exp(q[:, head] @ k[:, head].T / np.sqrt(len(head)))
            joined.append(powers / powers.sum(axis=-1, keepdims=True) @ v[:, head])
        z = np.concatenate(joined, axis=-1)
        return z @ w["attn.w_o"] + w["attn.b_o"] if model.output else z

    def ff(h: np.ndarray) -> np.ndarray:
        return np.maximum(h @ w["ff.w_up"] + w["ff.b_up"], 0) @ w["ff.w_down"] + w["ff.b_down"]

    found = []
    for image in pixels:
        patches = np.stack([image[y : y + size, x : x + size].ravel() for y, x in corners])
        tokens = np.maximum(patches @ w["patch.w"] + w["patch.b"] + w["positions.pos"], 0)
        z = branch("ff", branch("attn", tokens, attn), ff)
        found.append(z.mean(axis=0) @ w["head.w"] + w["head.b"])
    return np.stack(found)


@pytest.mark.parametrize(("heads", "output"), [(1, False), (5, False), (1, True), (2, True)])
@pytest.mark.parametrize("block", BLOCKS)
def test_logits_are_those_by_hand(block: Block, heads: int, output: bool) -> None:
    model = replace(MODEL, block=block, heads=heads, output=output)
    with jax.enable_x64(True):
        params, images = random_params(model), images_for(model)
        logits = np.asarray(forward(model, params, images.astype(np.float64)))
    np.testing.assert_allclose(logits, by_hand(model, params, images), rtol=1e-9, atol=1e-9)


RICH = PatchBlock(block=NormedResidual(), heads=2, output=True)


@pytest.mark.parametrize("model", [PatchBlock(block=WithResidual()), RICH], ids=["residual", "all"])
def test_ten_steps_match_autodiff(model: PatchBlock) -> None:
    with jax.enable_x64(True):
        params, data = model.init(jax.random.key(0)), batches(model)
        ours, theirs = (train(way(model), OPTIMISERS["sgd"], params, *data) for way in (by_backward, by_autodiff))
    assert np.abs(ours[0] - theirs[0]).max() < 1e-10
    assert ours[0][-1] < ours[0][0]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-10), ours[1], theirs[1])


def test_one_batch_is_learned_by_heart() -> None:
    draw = np.random.default_rng(0)
    images, labels = images_for(RICH, 16), draw.integers(10, size=16)
    every_step = (np.broadcast_to(a, (200, *a.shape)) for a in (images, labels))
    losses, params = train(by_backward(RICH), optax.adamw(3e-3), RICH.init(jax.random.key(0)), *every_step)
    assert losses[0] > 2
    assert losses[-1] < 0.05
    assert np.array_equal(np.argmax(forward(RICH, params, images), axis=-1), labels)


def test_what_the_parts_cost() -> None:
    """On paper: two norms of 2 C, w_o and b_o of C^2 + C; 49 tokens, 7 x 7 patches."""
    plain = summarise(PatchAttention())
    assert summarise(PatchBlock()).total("parameters") == 3_114 == plain.total("parameters")
    assert summarise(PatchBlock(block=WithResidual(), heads=4)).total("parameters") == 3_114
    assert summarise(RICH).total("parameters") == 3_114 + 2 * 2 * 16 + 16 * 16 + 16
    assert summarise(RICH).total("forward") == plain.total("forward") + 49 * 16 * 16


def test_settings_choose_the_block_and_leave_the_rest() -> None:
    """In any order: a study changes one thing at a time."""
    changes = ["model.heads=2", "model.block=normed-residual", "model.output=true", "model.start=sinusoidal"]
    expected = PatchBlock(start=Sinusoidal(), block=NormedResidual(), heads=2, output=True)
    for order in (changes, changes[::-1]):
        recipe = with_changes(Recipe(model=PatchBlock()), order)
        assert recipe.model == expected
        assert from_plain(Recipe, to_plain(recipe)) == recipe
    assert to_plain(expected)["block"] == {"kind": "normed-residual"}
    with pytest.raises(
        SettingError, match=r"'normd' came \(did you mean 'normed'\?\), expected bare, residual, normed"
    ):
        with_changes(Recipe(model=PatchBlock()), ["model.block=normd"])


@pytest.mark.parametrize("kind", ["patch_attention", "patch_block"])
def test_positions_may_start_as_a_grid(kind: str) -> None:
    grid = {"kind": "grid-sinusoidal", "rows": 7, "columns": 7}
    model = from_plain(Recipe, {"model": {"kind": kind, "start": grid}}).model
    pos = np.asarray(model.init(jax.random.key(0)).positions.pos)
    np.testing.assert_allclose(pos[7 * 2 + 5, [0, 1, 8, 9]], [np.sin(2), np.cos(2), np.sin(5), np.cos(5)], rtol=1e-6)


def test_pre_norm_begins_with_the_weights_of_its_inner_layer() -> None:
    inner = Linear(6, 5)
    params = PreNorm(LayerNorm(6), inner).init(jax.random.key(4))
    np.testing.assert_array_equal(params.inner.w, inner.init(jax.random.key(4)).w)
