"""Names and shapes there and back, and what is said of a file that does not fit. Without transformers installed."""

import jax
import numpy as np
import pytest

from glassformer.errors import CheckpointError, SettingError
from glassformer.hub import bert, gpt2
from glassformer.layers import GELUTanh, ReLU, Rotary
from glassformer.models import BERT, GPT, BERTFor, ClassHead, MaskedHead, SpanHead, TagHead, Text, next_sentence_head

WORDS = Text(vocabulary=11, context=9)
READER = BERT(WORDS, segments=3, width=6, hidden=7, heads=2, depth=2, activation=ReLU(), eps=1e-3)
GPTS = [
    GPT(WORDS, width=6, hidden=7, heads=2, depth=2),
    GPT(WORDS, width=6, hidden=7, heads=2, depth=1, tied=False, dropout=0.2),
]
BERTS = {
    bert.CLASSES: BERTFor(READER, ClassHead(6, classes=5, dropout=0.3)),
    bert.TAGS: BERTFor(READER, TagHead(6, classes=5)),
    bert.SPANS: BERTFor(READER, SpanHead(6)),
    bert.MASKED: BERTFor(READER, MaskedHead(6, 11, tied=False, eps=READER.eps, activation=READER.activation)),
    bert.NEXT: BERTFor(READER, next_sentence_head(6)),
}


def test_every_architecture_is_here() -> None:
    assert tuple(BERTS) == bert.ARCHITECTURES


def equal(one, other) -> bool:
    return jax.tree.structure(one) == jax.tree.structure(other) and all(
        np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    )


@pytest.mark.parametrize("model", GPTS, ids=["tied", "own head"])
def test_gpt_there_and_back(model: GPT) -> None:
    params = model.init(jax.random.key(0))
    tensors = gpt2.to_tensors(model, params)
    assert tensors["transformer.h.0.attn.c_attn.weight"].shape == (6, 18)
    assert ("lm_head.weight" in tensors) is not model.tied
    assert equal(gpt2.from_tensors(model, tensors), params)
    assert gpt2.model_from(gpt2.config_of(model)) == model


@pytest.mark.parametrize("architecture", BERTS)
def test_bert_there_and_back(architecture: str) -> None:
    model = BERTS[architecture]
    params = model.init(jax.random.key(0))
    tensors = bert.to_tensors(model, params, architecture)
    assert tensors["bert.encoder.layer.0.intermediate.dense.weight"].shape == (7, 6)
    assert equal(bert.from_tensors(model, tensors, architecture), params)
    assert bert.model_from(bert.config_of(model, architecture)) == model


def test_published_files_of_gpt2_lack_the_prefix_and_carry_masks() -> None:
    model = GPTS[0]
    params = model.init(jax.random.key(0))
    tensors = {name.removeprefix("transformer."): value for name, value in gpt2.to_tensors(model, params).items()}
    tensors["h.0.attn.bias"] = np.ones((1, 1, 9, 9))
    assert equal(gpt2.from_tensors(model, tensors), params)


def test_a_tensor_that_is_missing_left_over_or_of_another_shape_is_named() -> None:
    model = GPTS[0]
    tensors = gpt2.to_tensors(model, model.init(jax.random.key(0)))
    short = {name: value for name, value in tensors.items() if name != "transformer.h.1.ln_1.bias"}
    with pytest.raises(CheckpointError, match=r"'transformer.h.1.ln_1.bias' is missing \(did you mean"):
        gpt2.from_tensors(model, short)
    with pytest.raises(CheckpointError, match=r"'transformer.h.2.ln_1.bias' has no place in GPT \(did you mean"):
        gpt2.from_tensors(model, tensors | {"transformer.h.2.ln_1.bias": np.ones(6)})
    with pytest.raises(CheckpointError, match=r"'transformer.wpe.weight' has shape \(8, 6\), .* say \(9, 6\)"):
        gpt2.from_tensors(model, tensors | {"transformer.wpe.weight": np.ones((8, 6))})


def test_settings_that_are_not_written_out_are_refused() -> None:
    config = gpt2.config_of(GPTS[0])
    with pytest.raises(
        SettingError, match=r"activation_function: 'gelu_mew' came \(did you mean 'gelu_new'\?\), known"
    ):
        gpt2.model_from(config | {"activation_function": "gelu_mew"})
    with pytest.raises(SettingError, match="scale_attn_weights: False came, only True is supported"):
        gpt2.model_from(config | {"scale_attn_weights": False})
    with pytest.raises(SettingError, match="rotary positions has no place"):
        gpt2.config_of(GPT(WORDS, width=6, hidden=7, heads=2, rotary=Rotary()))
    with pytest.raises(SettingError, match=r"architecture: 'BertForMasked' came \(did you mean 'BertForMaskedLM'\?\)"):
        bert.model_from(bert.config_of(BERTS[bert.SPANS]), "BertForMasked")


def test_the_words_for_an_activation() -> None:
    assert gpt2.config_of(GPTS[0])["activation_function"] == "gelu_new"
    assert (
        gpt2.model_from(gpt2.config_of(GPTS[0]) | {"activation_function": "gelu_pytorch_tanh"}).activation == GELUTanh()
    )
