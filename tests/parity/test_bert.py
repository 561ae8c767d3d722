"""BERT models of the transformers library, each head, moved into ours: logits, loss and every gradient are equal."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5.22")  # earlier releases name some parameters otherwise
import torch
import transformers

from glassformer.hub import bert

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
    "as published": {"hidden_size": 12, "num_attention_heads": 3, "intermediate_size": 17},
    "own decoder, three segments": {
        "hidden_size": 10,
        "num_attention_heads": 5,
        "intermediate_size": 7,
        "num_hidden_layers": 1,
        "type_vocab_size": 3,
        "tie_word_embeddings": False,
        "layer_norm_eps": 1e-3,
    },
    "gelu by tanh, one head": {
        "hidden_size": 14,
        "num_attention_heads": 1,
        "intermediate_size": 9,
        "hidden_act": "gelu_new",
        "layer_norm_eps": 1e-6,
    },
    "relu": {"hidden_size": 9, "num_attention_heads": 3, "intermediate_size": 6, "hidden_act": "relu"},
}
VOCABULARY, CONTEXT, BATCH, TOKENS, CLASSES = 23, 13, 3, 11, 5
KEEP = np.arange(TOKENS) < np.array([[TOKENS], [5], [8]])
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "max_position_embeddings": CONTEXT,
    "num_hidden_layers": 2,
    "num_labels": CLASSES,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def model_for(name: str, architecture: str, precision: str) -> Any:
    # their row of the padding symbol stands still; we let it learn, which only shows where padding is part of the loss
    spans: dict[str, Any] = {"pad_token_id": None, "num_labels": 2} if architecture == bert.SPANS else {}
    config = transformers.BertConfig(**(SIZES | CONFIGS[name] | spans))
    return drawn(getattr(transformers, architecture)(config), precision)


def labels_for(architecture: str, draw: np.random.Generator) -> np.ndarray:
    if architecture == bert.CLASSES:
        return draw.integers(CLASSES, size=BATCH)
    if architecture == bert.NEXT:
        return draw.integers(2, size=BATCH)
    if architecture == bert.SPANS:
        return draw.integers(5, size=(BATCH, 2))  # start and end
    symbols = CLASSES if architecture == bert.TAGS else VOCABULARY
    return np.where(KEEP & (draw.random(KEEP.shape) < 0.6), draw.integers(symbols, size=KEEP.shape), -100)


def asked(architecture: str, labels: np.ndarray) -> dict[str, torch.Tensor]:
    if architecture == bert.SPANS:
        return {"start_positions": torch.tensor(labels[:, 0]), "end_positions": torch.tensor(labels[:, 1])}
    return {"labels": torch.tensor(labels)}


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("architecture", bert.ARCHITECTURES)
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_loss_and_gradients(name: str, architecture: str, precision: str) -> None:
    draw = np.random.default_rng(0)
    theirs = model_for(name, architecture, precision)
    ids = np.where(KEEP, draw.integers(1, VOCABULARY, size=(BATCH, TOKENS)), 0)
    segments = draw.integers(theirs.config.type_vocab_size, size=ids.shape)
    labels = labels_for(architecture, draw)

    answer = theirs(
        torch.tensor(ids),
        token_type_ids=torch.tensor(segments),
        attention_mask=torch.tensor(KEEP).long(),
        **asked(architecture, labels),
    )
    spans = architecture == bert.SPANS
    logits = torch.stack([answer.start_logits, answer.end_logits], dim=1) if spans else answer.logits
    expected = of_theirs(theirs, logits, answer.loss)

    with jax.enable_x64(precision == "float64"):
        model = bert.model_from(theirs.config.to_dict(), architecture)
        params = bert.from_tensors(model, tensors_of(theirs), architecture)
        ours = of_ours(
            model,
            params,
            ids,
            labels,
            lambda tree: bert.to_tensors(model, tree, architecture),
            segments=jnp.asarray(segments),
            keep=jnp.asarray(KEEP),
        )
    assert max(disagreement(ours, expected).values()) < TOLERANCES[precision]


def test_without_segments_and_padding() -> None:
    theirs = model_for("as published", bert.CLASSES, "float64")
    ids = np.random.default_rng(0).integers(VOCABULARY, size=(BATCH, TOKENS))
    with torch.no_grad():
        expected = theirs(torch.tensor(ids)).logits.numpy()
    with jax.enable_x64(True):
        model = bert.model_from(theirs.config.to_dict(), bert.CLASSES)
        logits, _ = model.forward(bert.from_tensors(model, tensors_of(theirs)), jnp.asarray(ids))
    assert np.abs(np.asarray(logits) - expected).max() < 1e-10


@pytest.mark.parametrize("architecture", bert.ARCHITECTURES)
@pytest.mark.parametrize("name", CONFIGS)
def test_round_trip_gives_identical_tensors(name: str, architecture: str) -> None:
    theirs = model_for(name, architecture, "float32")
    model = bert.model_from(theirs.config.to_dict(), architecture)
    params = bert.from_tensors(model, tensors_of(theirs), architecture)
    tensors = bert.to_tensors(model, params, architecture)
    config = transformers.BertConfig(**bert.config_of(model, architecture))
    again = getattr(transformers, architecture)(config)
    missing, unexpected = again.load_state_dict(
        {key: torch.tensor(np.asarray(value)) for key, value in tensors.items()}, strict=False
    )
    assert unexpected == []
    assert all(key.startswith("cls.predictions") for key in missing)  # second names, and a bias that is not used
    for key, value in theirs.state_dict().items():
        if key not in missing or theirs.config.tie_word_embeddings:
            assert torch.equal(again.state_dict()[key], value), key


@pytest.mark.parametrize("architecture", bert.ARCHITECTURES)
def test_ten_steps_of_adamw(architecture: str) -> None:
    draw = np.random.default_rng(0)
    theirs = model_for("as published", architecture, "float32")
    ids, labels = draw.integers(1, VOCABULARY, size=(BATCH, TOKENS)), labels_for(architecture, draw)
    model = bert.model_from(theirs.config.to_dict(), architecture)
    tensors = {key: value.copy() for key, value in tensors_of(theirs).items()}
    params = bert.from_tensors(model, tensors, architecture)
    ours = ten_steps_of_ours(model, params, jnp.asarray(ids), jnp.asarray(labels))
    expected = ten_steps(theirs, lambda: theirs(torch.tensor(ids), **asked(architecture, labels)).loss)
    assert expected[-1] < expected[0]
    assert np.abs(ours / expected - 1).max() < 1e-4
