"""A stack of blocks, scanned and unrolled: the same numbers, whatever goes along with the residual stream."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest

from glassformer.check import gradient_error
from glassformer.check.draw import cast
from glassformer.errors import SettingError
from glassformer.layers import Attention, BandedAttention, BlockwiseAttention, LoRA
from glassformer.losses import CrossEntropy
from glassformer.models import BERT, GPT, T5, BERTFor, Images, Llama, Text, ViT
from glassformer.models.bert_heads import TagHead
from glassformer.models.stack import Stacked, as_stack, of_tuple, stacked, unstacked
from glassformer.models.t5 import Inputs
from glassformer.names import named_leaves, recording, visiting
from glassformer.train.gradient import loss_and_gradient

TEXT = Text(vocabulary=11, context=6)
SIZES: dict[str, Any] = {"width": 8, "hidden": 12, "heads": 2, "depth": 2}
KEEP = jnp.arange(6) < jnp.array([[6], [4]])
IDS = jax.random.randint(jax.random.key(3), (2, 6), 0, 11)


def vit(**settings: Any) -> ViT:
    return ViT(Images((6, 4, 1), classes=3), patch_size=2, **SIZES, **settings)


PIXELS = jax.random.uniform(jax.random.key(4), (2, 6, 4, 1))
QUICK = {
    "gpt": (GPT(TEXT, **SIZES, dropout=0.2, attend=Attention(dropout=0.3)), IDS, {"keep": KEEP}),
    "bert": (BERTFor(BERT(TEXT, **SIZES, dropout=0.2, checkpoint=True), TagHead(8, 11)), IDS, {"keep": KEEP}),
    "vit": (vit(dropout=0.2), PIXELS, {}),
}
CASES = QUICK | {
    "gpt (checkpoint)": (GPT(TEXT, **SIZES, dropout=0.2, checkpoint=True), IDS, {"keep": KEEP}),
    "llama": (Llama(TEXT, **SIZES, key_heads=1, head_norm=True, bias="qkv", window=3), IDS, {"keep": KEEP}),
    "gpt (blockwise, window)": (GPT(TEXT, **SIZES, attend=BlockwiseAttention(block=4), window=3), IDS, {}),
    "bert (lora)": (LoRA(BERTFor(BERT(TEXT, **SIZES, dropout=0.2), TagHead(8, 11)), rank=2), IDS, {"keep": KEEP}),
    "vit (banded, checkpoint)": (vit(attend=BandedAttention(), window=2, checkpoint=True), PIXELS, {}),
    "t5": (T5(TEXT, **SIZES, head_width=4, buckets=4, reach=8, dropout=0.2), Inputs(IDS, IDS[:, ::-1]), {"keep": KEEP}),
}
QUICK_OR_SLOW = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]


def given(name: str, dtype: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
    model, x, keywords = CASES[name]
    params = cast(jax.jit(model.init)(jax.random.key(0)), dtype)
    if isinstance(model, LoRA):  # b is zero at first
        params = jax.tree.map(lambda leaf: leaf + 0.1, params)
    labels = jnp.array([0, 2]) if name.startswith("vit") else IDS
    return model, params, cast(x, dtype), {"labels": labels, "key": jax.random.key(1), **keywords}


@partial(jax.jit, static_argnums=0)
def both(model: Any, params: Any, x: Any, keywords: dict[str, Any]) -> tuple[Any, Any]:
    return loss_and_gradient(model, CrossEntropy(), params, x, **keywords)


@pytest.mark.parametrize("name", QUICK_OR_SLOW)
def test_scanned_as_unrolled(name: str) -> None:
    with jax.enable_x64(True):
        model, params, x, keywords = given(name, jnp.float64)
        unrolled = both(model, params, x, keywords)
        loss, dparams = both(model, stacked(params), x, keywords)
        assert named_leaves(unstacked(dparams)).keys() == named_leaves(params).keys()
        assert gradient_error((loss, unstacked(dparams)), unrolled) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("name", [*QUICK, "t5"])
def test_scanned_in_bf16(name: str) -> None:
    """The gradients of weights are float32 there, too."""
    model, params, x, keywords = given(name, jnp.bfloat16)
    loss, dparams = both(model, stacked(params), x, keywords)
    assert {leaf.dtype for leaf in jax.tree.leaves(dparams)} == {jnp.dtype(jnp.float32)}
    assert gradient_error((loss, unstacked(dparams)), both(model, params, x, keywords)) < 0.02


def test_one_block_is_compiled_for_all() -> None:
    """36 blocks, scanned: less than a third of the program."""
    model = GPT(TEXT, **{**SIZES, "depth": 36})
    params = jax.eval_shape(model.init, jax.random.key(0))
    keywords = {"labels": IDS, "key": jax.random.key(1)}
    whole, small = (
        both.lower(model, form, IDS, keywords).as_text() for form in (params, jax.eval_shape(stacked, params))
    )
    assert 3 * small.count("\n") < whole.count("\n")


def test_a_visitor_sees_every_block_by_name() -> None:
    model, params, x, keywords = given("gpt", jnp.float32)
    seen: list[dict[str, Any]] = [{}, {}]
    for values, form in zip(seen, (params, stacked(params)), strict=True):
        with visiting(recording(values)):
            _, dparams = loss_and_gradient(model, CrossEntropy(), form, x, **keywords)
        assert jax.tree.structure(dparams) == jax.tree.structure(form)
    assert seen[0].keys() == seen[1].keys()
    assert "blocks.1.attn.pattern" in seen[1]


def test_stacked_and_back() -> None:
    params = GPT(TEXT, **SIZES).init(jax.random.key(0))
    nothing = jax.tree.map(lambda _: optax.MaskedNode(), params)
    state = {"params": params, "optimiser": ({"0": nothing}, jnp.zeros(()))}
    there = stacked(state)
    assert there["params"].blocks.unscoped.attn.w_q.shape == (2, 8, 8)
    assert jax.tree.structure(stacked(there)) == jax.tree.structure(there)
    back = named_leaves(unstacked(there))
    assert back.keys() == named_leaves(state).keys()
    assert all((back[name] == leaf).all() for name, leaf in named_leaves(state).items())


def test_blocks_that_differ_are_refused() -> None:
    with pytest.raises(SettingError, match=r"engine\.scan: the blocks are not alike"):
        as_stack([{"a": 1.0}, {"b": 1.0}])
    with pytest.raises(SettingError, match=r"all blocks are trained as one, and optimiser\.groups"):
        of_tuple(lambda params: ("no", "yes"))(Stacked(jnp.zeros((2, 3))))
