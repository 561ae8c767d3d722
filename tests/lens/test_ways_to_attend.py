"""The lens shows a model as it is, whichever way it attends: the pattern of plain attention, or that there is none."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from glassformer import lens
from glassformer.errors import UnknownNameError
from glassformer.layers import BandedAttention, BlockwiseAttention, LinearAttention
from glassformer.lens.attention import attention_maps
from glassformer.lens.attention_kind import attention_kinds
from glassformer.lens.gradient_attention import gradient_attention
from glassformer.lens.health import seen_patterns
from glassformer.models import BERT, GPT, BERTFor, ClassHead, Text
from glassformer.names import named_leaves

WORDS = Text(vocabulary=11, context=8)
PLAIN = GPT(WORDS, width=12, hidden=10, heads=3, depth=2, window=3, global_tokens=1)
IDS: Any = np.random.default_rng(0).integers(0, 11, (1, 7)).astype(np.int32)
LABELS = np.roll(IDS, -1, axis=1)


def drawn(model: Any) -> Any:
    return jax.tree.map(lambda leaf: 5 * leaf, model.init(jax.random.key(0)))


@pytest.mark.parametrize(
    "changes",
    [
        {"attend": BlockwiseAttention(block=2)},
        {"attend": BandedAttention(), "checkpoint": True},
        {"checkpoint": True},
    ],
    ids=["blockwise", "banded, checkpoint", "checkpoint"],
)
def test_the_same_numbers_are_shown_under_the_same_names(changes: dict[str, Any]) -> None:
    model, params = replace(PLAIN, **changes), drawn(PLAIN)
    expected, seen = (lens.trace(one, params, IDS, labels=LABELS) for one in (PLAIN, model))
    assert (list(seen.values), list(seen.gradients)) == (list(expected.values), list(expected.gradients))
    for name, value in expected.values.items():
        np.testing.assert_array_equal(seen.values[name], value, err_msg=name)
    logits, cache = model.forward(params, IDS)  # of the model itself
    np.testing.assert_allclose(seen.logits, logits, atol=1e-5)
    _, gradient = model.backward(params, cache, seen.gradients["head.dlogits"])
    for name, leaf in named_leaves(gradient).items():
        np.testing.assert_allclose(seen.param_gradients[name], leaf, atol=1e-5, err_msg=name)
    assert set(attention_kinds(model).values()) == {"causal"}
    np.testing.assert_array_equal(gradient_attention(seen)["blocks.0.attn.pattern"].shape, (1, 3, 7, 7))


def test_what_a_row_may_see_is_taken_from_the_mask() -> None:
    seen = next(seen_patterns(lens.trace(PLAIN, drawn(PLAIN), IDS)))
    assert seen.visible.tolist() == [[1, 2, 3, 4, 4, 4, 4]]  # itself, two before it, and the first token


def test_a_head_on_bert_is_looked_through() -> None:
    bert = BERT(WORDS, width=12, hidden=10, heads=3, depth=1, attend=BlockwiseAttention(block=4))
    model = BERTFor(bert, ClassHead(12, 3))
    (pattern,) = attention_maps(model, drawn(model), IDS, keep=np.arange(7)[None] < 5).values()
    np.testing.assert_allclose(pattern[..., :5].sum(axis=-1), 1, atol=1e-5)
    assert not pattern[..., 5:].any()


def test_linear_attention_has_no_weights_to_show() -> None:
    model = replace(PLAIN, attend=LinearAttention(), window=None, global_tokens=0)
    params = drawn(model)
    with pytest.raises(UnknownNameError, match=r"blocks\.0\.attn: linear attention has no attention weights to show"):
        attention_maps(model, params, IDS)
    seen = lens.trace(model, params, IDS, labels=LABELS)
    assert not [name for name in seen.values if name.endswith("pattern")]
    assert seen["blocks.0.attn.total"].shape == (1, 7, 3, 1)
