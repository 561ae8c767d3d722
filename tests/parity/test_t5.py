"""T5 models of the transformers library, moved into ours: logits, loss and every gradient are equal."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5.22")  # earlier releases name some parameters otherwise
import torch
import torch.nn.functional as F  # noqa: N812
from safetensors.numpy import save_file
from transformers import T5Config, T5ForConditionalGeneration

from glassformer.hub import t5
from glassformer.models.t5 import Inputs

from .hugging_face import (
    Outcome,
    answer_and_gradients,
    disagreement,
    drawn,
    of_theirs,
    ten_steps,
    ten_steps_of_ours,
    tensors_of,
)

TOLERANCES = {"float64": 1e-5, "float32": 1e-4}  # their norm runs in float32 either way

V1_1: dict[str, Any] = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
CONFIGS: dict[str, dict[str, Any]] = {
    "v1.0": {"d_model": 12, "num_heads": 3, "d_kv": 4},
    "v1.0, one block before three": {"d_model": 7, "num_heads": 2, "d_kv": 5, "num_layers": 1, "num_decoder_layers": 3},
    "v1.0, gated silu": {"d_model": 9, "num_heads": 1, "d_kv": 3, "feed_forward_proj": "gated-silu"},
    "v1.1": {"d_model": 10, "num_heads": 5, "d_kv": 3, **V1_1},
    "v1.1, eps, few buckets": {
        "d_model": 6,
        "num_heads": 3,
        "d_kv": 7,
        "layer_norm_epsilon": 1e-3,
        "relative_attention_num_buckets": 4,
        "relative_attention_max_distance": 5,
        **V1_1,
    },
}
VOCABULARY, BATCH, SOURCE, TARGET = 23, 3, 13, 11
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_ff": 17,
    "num_layers": 2,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 10,
    "dropout_rate": 0.0,
}


def theirs_for(name: str, precision: str) -> Any:
    settings = SIZES | CONFIGS[name]
    theirs = T5ForConditionalGeneration(T5Config(**settings))
    if not settings.get("tie_word_embeddings", True):  # as loaded from a file of v1.1; without one, theirs ties it
        theirs.lm_head.weight = torch.nn.Parameter(torch.empty(VOCABULARY, settings["d_model"]))
    return drawn(theirs, precision)


def of_ours(model: Any, params: Any, x: Inputs, labels: Any, **keywords: Any) -> Outcome:
    logits, loss, _, dparams = answer_and_gradients(model, params, x, jnp.asarray(labels), **keywords)
    assert jax.tree.structure(dparams) == jax.tree.structure(params)
    return Outcome(logits, loss, t5.to_tensors(model, dparams))


@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_loss_and_gradients(name: str, precision: str, padded: bool) -> None:
    draw = np.random.default_rng(0)
    source = draw.integers(VOCABULARY, size=(BATCH, SOURCE))
    target, labels = draw.integers(VOCABULARY, size=(2, BATCH, TARGET))
    keep = np.arange(SOURCE) < np.array([[SOURCE], [5], [8]])
    if padded:
        labels = np.where(np.arange(TARGET) < np.array([[4], [TARGET], [7]]), labels, -100)

    theirs = theirs_for(name, precision)
    mask = torch.tensor(keep).long() if padded else None
    logits = theirs(torch.tensor(source), attention_mask=mask, decoder_input_ids=torch.tensor(target)).logits
    loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), torch.tensor(labels).reshape(-1))
    expected = of_theirs(theirs, logits, loss)

    with jax.enable_x64(precision == "float64"):
        model = t5.model_from(theirs.config.to_dict())
        params = t5.from_tensors(model, tensors_of(theirs))
        kept = {"keep": jnp.asarray(keep)} if padded else {}
        ours = of_ours(model, params, Inputs(jnp.asarray(source), jnp.asarray(target)), labels, **kept)
    assert max(disagreement(ours, expected).values()) < TOLERANCES[precision]


@pytest.mark.parametrize("name", CONFIGS)
def test_exported_files_load_with_identical_tensors(name: str, tmp_path: Path) -> None:
    theirs = theirs_for(name, "float32")
    model = t5.model_from(theirs.config.to_dict())
    config = t5.config_of(model)
    assert t5.model_from(config) == model
    tensors = t5.to_tensors(model, t5.from_tensors(model, tensors_of(theirs)))
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file({key: np.array(value, order="C") for key, value in tensors.items()}, tmp_path / "model.safetensors")
    again = T5ForConditionalGeneration.from_pretrained(tmp_path)
    assert again.config.scale_decoder_outputs == model.tied
    assert set(again.state_dict()) == set(theirs.state_dict())
    for key, value in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[key], value), key


@pytest.mark.parametrize("name", ["v1.0", "v1.1"])
def test_ten_steps_of_adamw(name: str) -> None:
    draw = np.random.default_rng(0)
    source = draw.integers(VOCABULARY, size=(BATCH, SOURCE))
    target, labels = draw.integers(VOCABULARY, size=(2, BATCH, TARGET))
    theirs = theirs_for(name, "float32")
    model = t5.model_from(theirs.config.to_dict())
    params = t5.from_tensors(model, {key: value.copy() for key, value in tensors_of(theirs).items()})
    ours = ten_steps_of_ours(model, params, Inputs(jnp.asarray(source), jnp.asarray(target)), jnp.asarray(labels))
    given = {"decoder_input_ids": torch.tensor(target), "labels": torch.tensor(labels)}
    expected = ten_steps(theirs, lambda: theirs(torch.tensor(source), **given).loss)
    assert expected[-1] < expected[0]
    assert np.abs(ours / expected - 1).max() < 1e-4
