"""GPT-2 models of the transformers library, moved into ours: logits, loss and every gradient are equal."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5.22")  # earlier releases name some parameters otherwise
import torch
import torch.nn.functional as F  # noqa: N812
from transformers import GPT2Config, GPT2LMHeadModel

from glassformer.hub import gpt2

from .hugging_face import (
    TOLERANCES,
    disagreement,
    drawn,
    of_ours,
    of_theirs,
    ten_steps,
    ten_steps_of_ours,
    tensors_of,
)

CONFIGS: dict[str, dict[str, Any]] = {
    "as published": {"n_embd": 12, "n_head": 3},
    "own head": {"n_embd": 10, "n_head": 2, "n_inner": 7, "tie_word_embeddings": False, "layer_norm_epsilon": 1e-3},
    "exact gelu, wide heads": {"n_embd": 14, "n_head": 1, "activation_function": "gelu", "layer_norm_epsilon": 1e-7},
    "relu, one block": {"n_embd": 9, "n_head": 9, "n_layer": 1, "n_inner": 17, "activation_function": "relu"},
    "silu, own head": {"n_embd": 6, "n_head": 2, "activation_function": "silu", "tie_word_embeddings": False},
}
VOCABULARY, CONTEXT, BATCH, TOKENS = 23, 13, 3, 11
NO_DROPOUT: dict[str, Any] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
SPECIAL: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 0}


def config_for(name: str) -> GPT2Config:
    sizes: dict[str, Any] = {"vocab_size": VOCABULARY, "n_positions": CONTEXT, "n_layer": 2}
    return GPT2Config(**(sizes | NO_DROPOUT | SPECIAL | CONFIGS[name]))


@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_loss_and_gradients(name: str, precision: str, padded: bool) -> None:
    config = config_for(name)
    draw = np.random.default_rng(0)
    ids = draw.integers(VOCABULARY, size=(BATCH, TOKENS))
    keep = np.arange(TOKENS) < np.array([[TOKENS], [5], [8]]) if padded else np.ones_like(ids, bool)
    following = np.where(keep, ids, -100)[:, 1:]  # what comes next, at every place but the last
    labels = np.concatenate([following, np.full((BATCH, 1), -100)], axis=1)

    theirs = drawn(GPT2LMHeadModel(config), precision)
    logits = theirs(torch.tensor(ids), attention_mask=torch.tensor(keep).long() if padded else None).logits
    # their own loss goes through float32
    loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), torch.tensor(labels).reshape(-1))
    expected = of_theirs(theirs, logits, loss)

    with jax.enable_x64(precision == "float64"):
        model = gpt2.model_from(config.to_dict())
        params = gpt2.from_tensors(model, tensors_of(theirs))
        kept = {"keep": jnp.asarray(keep)} if padded else {}
        ours = of_ours(model, params, ids, labels, lambda tree: gpt2.to_tensors(model, tree), **kept)
    assert max(disagreement(ours, expected).values()) < TOLERANCES[precision]


def test_their_loss_is_ours() -> None:
    ids = np.random.default_rng(0).integers(VOCABULARY, size=(BATCH, TOKENS))
    theirs = drawn(GPT2LMHeadModel(config_for("as published")), "float32")
    loss = theirs(torch.tensor(ids), labels=torch.tensor(ids)).loss.item()
    model = gpt2.model_from(theirs.config.to_dict())
    labels = np.concatenate([ids[:, 1:], np.full((BATCH, 1), -100)], axis=1)
    params = gpt2.from_tensors(model, tensors_of(theirs))
    ours = of_ours(model, params, ids, labels, lambda tree: gpt2.to_tensors(model, tree))
    assert float(ours.loss) == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize("name", CONFIGS)
def test_round_trip_gives_identical_tensors(name: str) -> None:
    theirs = drawn(GPT2LMHeadModel(config_for(name)), "float32")
    model = gpt2.model_from(theirs.config.to_dict())
    tensors = gpt2.to_tensors(model, gpt2.from_tensors(model, tensors_of(theirs)))
    again = GPT2LMHeadModel(GPT2Config(**(gpt2.config_of(model) | SPECIAL)))
    missing, unexpected = again.load_state_dict(
        {key: torch.tensor(np.asarray(value)) for key, value in tensors.items()}, strict=False
    )
    assert unexpected == []
    assert missing in ([], ["lm_head.weight"])  # tied: a second name of the table
    for key, value in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[key], value), key


@pytest.mark.parametrize("name", ["as published", "own head"])
def test_ten_steps_of_adamw(name: str) -> None:
    ids = np.random.default_rng(0).integers(VOCABULARY, size=(BATCH, TOKENS))
    theirs = drawn(GPT2LMHeadModel(config_for(name)), "float32")
    model = gpt2.model_from(theirs.config.to_dict())
    params = gpt2.from_tensors(model, {key: value.copy() for key, value in tensors_of(theirs).items()})
    labels = np.concatenate([ids[:, 1:], np.full((BATCH, 1), -100)], axis=1)
    ours = ten_steps_of_ours(model, params, jnp.asarray(ids), jnp.asarray(labels))
    expected = ten_steps(theirs, lambda: theirs(torch.tensor(ids), labels=torch.tensor(ids)).loss)
    assert expected[-1] < expected[0]
    assert np.abs(ours / expected - 1).max() < 1e-4
