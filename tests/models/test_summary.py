"""The cost table against figures worked out on paper."""

import re

import jax
import jax.numpy as jnp
import pytest

from glassformer.errors import ShapeError
from glassformer.layers import MultiHeadAttention, SelfAttention
from glassformer.models import MLP, MODELS, Images, Network, PatchAttention, ViT
from glassformer.models.summary import Summary, summarise

from ..programs import forward


def parts(summary: Summary, column: str) -> dict[str, int]:
    return {part.name: getattr(part, column) for part in summary.parts if getattr(part, column)}


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (PatchAttention(), 3_114),
        (PatchAttention(width=64, hidden=128), 33_930),
        (ViT(width=16, hidden=32, heads=1), 3_482),
        (MLP(), 784 * 512 + 512 + 512 * 10 + 10),
    ],
)
def test_parameter_counts(model: Network, count: int) -> None:
    assert summarise(model).total("parameters") == count
    params = jax.eval_shape(model.init, jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == count


def test_multiply_adds_of_the_patch_attention_classifier() -> None:
    """tokens 12,544; projections 37,632 + scores 38,416 + values 38,416; feed-forward 50,176; classifier 160."""
    summary = summarise(PatchAttention())
    forward = {"patch": 12_544, "attn": 37_632 + 38_416 + 38_416, "ff": 50_176, "head": 160}
    assert parts(summary, "forward") == forward
    assert parts(summary, "backward") == {name: 2 * amount for name, amount in forward.items()}
    assert summary.total("forward") == 177_344


def test_bytes_kept_for_a_batch_of_32() -> None:
    """Every buffer of the forward pass that backward reads; the tokens are kept once though two layers read them."""
    floats = 32 * 49
    kept = {
        "patch": 4 * floats * 16,
        "relu": 4 * floats * 16,
        "attn": 4 * floats * (3 * 16 + 49 + 16),  # q, k, v; pattern; z
        "ff": 4 * floats * 32,
        "head": 4 * 32 * 16,
    }
    assert parts(summarise(PatchAttention(), 32), "kept") == kept


def test_costs_scale_with_the_batch_where_they_should() -> None:
    one, many = summarise(ViT(), 1), summarise(ViT(), 32)
    for column in ("parameters", "forward", "backward"):
        assert parts(one, column) == parts(many, column)
    assert many.total("kept") == 32 * one.total("kept")


@pytest.mark.parametrize(("width", "heads", "tokens"), [(8, 2, 4), (64, 4, 49)])
def test_multi_head_attention_costs_what_the_formulas_say(width: int, heads: int, tokens: int) -> None:
    layer = SelfAttention(MultiHeadAttention(width, heads))
    params = jax.eval_shape(layer.init, jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == 4 * width**2 + 4 * width
    _, cache = jax.eval_shape(layer.forward, params, jnp.zeros((3, tokens, width)))
    assert cache.unscoped.pattern.size == 3 * heads * tokens**2


def test_table_is_readable_and_adds_up() -> None:
    text = str(PatchAttention())
    assert re.search(r"^attn +1x49x16 +816 +114,464 +228,928 +22,148$", text, re.MULTILINE)
    assert text.splitlines()[-2].split() == ["total", "3,114", "177,344", "354,688", "34,756"]


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_table(name: str) -> None:
    assert "total" in str(MODELS[name]())


def test_any_image_and_patch_size() -> None:
    model = ViT(Images(shape=(32, 48, 3), classes=7), patch_size=8, with_class_token=True)
    params = model.init(jax.random.key(0))
    logits, _ = jax.jit(model.forward)(params, jnp.zeros((2, 32, 48, 3), jnp.uint8))
    assert logits.shape == (2, 7)
    pos = params.positions.pos
    assert pos is not None
    assert pos.shape == (1 + 4 * 6, 64)


@pytest.mark.parametrize("model", [MLP(), PatchAttention(), ViT()], ids=lambda model: type(model).__name__)
def test_a_batch_of_the_wrong_shape_is_refused_with_the_way_out(model) -> None:
    with pytest.raises(ShapeError, match=r"came, expected \(batch, 28, 28, 1\): .* images\[\.\.\., None\]"):
        model.forward(model.init(jax.random.key(0)), jnp.zeros((2, 28, 28)))


def test_dropout_is_active_with_a_key_and_only_then() -> None:
    model = ViT(width=8, hidden=12, heads=2, dropout=0.5)
    params, x = model.init(jax.random.key(0)), jnp.full((1, 28, 28, 1), 100, jnp.uint8)
    evaluated, again = (forward(model, params, x) for _ in range(2))
    assert jnp.array_equal(evaluated, again)
    one, same, other = (forward(model, params, x, key=jax.random.key(seed)) for seed in (1, 1, 2))
    assert jnp.array_equal(one, same)
    assert not jnp.allclose(one, other)
    assert not jnp.allclose(one, evaluated)
