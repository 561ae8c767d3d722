"""RoBERTa and DistilBERT of the transformers library, each head, moved into ours: logits, loss, gradients are equal."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5.22")  # earlier releases name some parameters otherwise
import torch
import transformers
from safetensors.numpy import load_file

from glassformer.hub import distilbert, encoder, parity, roberta
from glassformer.hub.folder import read_folder, write_folder

from .hugging_face import (
    TOLERANCES,
    Outcome,
    disagreement,
    drawn,
    of_ours,
    of_theirs,
    ten_steps,
    ten_steps_of_ours,
    tensors_of,
    worst_gradient,
)

VOCABULARY, CONTEXT, BATCH, TOKENS, CLASSES = 23, 13, 3, 11, 5
KEEP = np.stack([np.arange(TOKENS) < 11, np.arange(TOKENS) < 5, np.arange(TOKENS) >= 4])  # none, right, left
ROBERTA: dict[str, dict[str, Any]] = {
    "as published": {"hidden_size": 12, "num_attention_heads": 3, "intermediate_size": 17},
    "own decoder, relu, padding 3": {
        "hidden_size": 10,
        "num_attention_heads": 5,
        "intermediate_size": 7,
        "pad_token_id": 3,
        "type_vocab_size": 3,
        "tie_word_embeddings": False,
        "hidden_act": "relu",
        "layer_norm_eps": 1e-3,
    },
}
DISTILBERT: dict[str, dict[str, Any]] = {
    "as published": {"dim": 12, "n_heads": 3, "hidden_dim": 17},
    "own decoder, relu": {"dim": 9, "n_heads": 3, "hidden_dim": 7, "tie_word_embeddings": False, "activation": "relu"},
}
SIZES: dict[str, Any] = {"vocab_size": VOCABULARY, "num_labels": CLASSES}
STILL: dict[Any, dict[str, Any]] = {
    roberta: {
        "num_hidden_layers": 2,
        "type_vocab_size": 1,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    },
    distilbert: {
        "n_layers": 2,
        "max_position_embeddings": CONTEXT,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "seq_classif_dropout": 0.0,
        "qa_dropout": 0.0,
    },
}
CASES = [
    (module, name, architecture)
    for module, configs in ((roberta, ROBERTA), (distilbert, DISTILBERT))
    for name in configs
    for architecture in module.ARCHITECTURES
]


def named(case: tuple[Any, str, str]) -> str:
    return f"{case[2]} {case[1]}"


def config_for(module: Any, name: str, architecture: str) -> Any:
    more: dict[str, Any] = {"num_labels": 2} if architecture == module.SPANS else {}
    if module is distilbert:
        return transformers.DistilBertConfig(**(SIZES | STILL[module] | DISTILBERT[name] | more))
    settings = SIZES | STILL[module] | ROBERTA[name] | more
    return transformers.RobertaConfig(**settings, max_position_embeddings=CONTEXT + settings.get("pad_token_id", 1) + 1)


def model_for(case: tuple[Any, str, str], precision: str) -> Any:
    return drawn(getattr(transformers, case[2])(config_for(*case)), precision)


def labels_for(module: Any, architecture: str, draw: np.random.Generator) -> np.ndarray:
    if architecture == module.CLASSES:
        return draw.integers(CLASSES, size=BATCH)
    if architecture == module.SPANS:
        return draw.integers(4, 5, size=(BATCH, 2))  # start and end: a place that no sequence pads
    symbols = CLASSES if architecture == module.TAGS else VOCABULARY
    return np.where(KEEP & (draw.random(KEEP.shape) < 0.6), draw.integers(symbols, size=KEEP.shape), -100)


def asked(module: Any, architecture: str, labels: np.ndarray) -> dict[str, torch.Tensor]:
    if architecture == module.SPANS:
        return {"start_positions": torch.tensor(labels[:, 0]), "end_positions": torch.tensor(labels[:, 1])}
    return {"labels": torch.tensor(labels)}


def ids_for(config: Any, draw: np.random.Generator, keep: np.ndarray = KEEP) -> np.ndarray:
    padding = config.pad_token_id or 0
    ids = draw.integers(VOCABULARY - 1, size=keep.shape)
    return np.where(keep, ids + (ids >= padding), padding)


def without_padding(module: Any, gradients: dict[str, Any], padding: int) -> dict[str, Any]:
    """Their rows of padding stand still; we let them learn, which shows where padding is part of the loss."""
    rows = ("word_embeddings.weight", *(["position_embeddings.weight"] if module is roberta else []))
    return {k: jnp.asarray(v).at[padding].set(0) if k.endswith(rows) else v for k, v in gradients.items()}


def compared(case: tuple[Any, str, str]) -> tuple[Outcome, Outcome]:
    """Ours and theirs, in float64."""
    module, _, architecture = case
    draw, theirs = np.random.default_rng(0), model_for(case, "float64")
    ids, labels = ids_for(theirs.config, draw), labels_for(module, architecture, draw)
    keep = torch.tensor(KEEP).long()
    answer = theirs(torch.tensor(ids), attention_mask=keep, **asked(module, architecture, labels))
    spans = architecture == module.SPANS
    logits = torch.stack([answer.start_logits, answer.end_logits], dim=1) if spans else answer.logits
    expected = of_theirs(theirs, logits, answer.loss)
    with jax.enable_x64(True):
        model = module.model_from(theirs.config.to_dict(), architecture)
        params = module.from_tensors(model, tensors_of(theirs), architecture)
        ours = of_ours(
            model,
            params,
            ids,
            labels,
            lambda tree: module.to_tensors(model, tree, architecture),
            keep=jnp.asarray(KEEP),
        )
        if architecture in (module.SPANS, module.CLASSES):  # the first token of a text that is padded on the left
            gradients = without_padding(module, ours.gradients, theirs.config.pad_token_id)
            ours = ours._replace(gradients=gradients)
    return ours, expected


@pytest.mark.parametrize("case", CASES, ids=named)
def test_logits_loss_and_gradients(case: tuple[Any, str, str]) -> None:
    ours, expected = compared(case)
    assert max(disagreement(ours, expected).values()) < TOLERANCES["float64"]
    assert worst_gradient(ours, expected) < TOLERANCES["float64"]


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_folder_comes_in_and_goes_out(case: tuple[Any, str, str], tmp_path: Path) -> None:
    """As transformers wrote it: every layer is close, and what goes out again are the same tensors, which it loads."""
    module, theirs = case[0], model_for(case, "float32")
    theirs.save_pretrained(tmp_path / "in")
    found = read_folder(tmp_path / "in")
    rows = parity.compare(tmp_path / "in", found)
    assert [row.name for row in rows[-1:]] == ["logits"]
    assert all(row.close for row in rows), rows
    write_folder(tmp_path / "out", found.model, found.params, classes=found.classes)
    again = read_folder(tmp_path / "out")
    assert (again.model, again.classes) == (found.model, found.classes)
    jax.tree.map(np.testing.assert_array_equal, again.params, found.params)
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("in", "out"))
    assert set(after) <= set(before)
    assert all(np.array_equal(value, before[name]) for name, value in after.items())
    copied = {*module.ENCODER.copies(found.model), *module.ENCODER.unused(found.model)}
    assert set(before) - set(after) <= copied
    loaded = type(theirs).from_pretrained(tmp_path / "out")
    for key, value in theirs.state_dict().items():
        if key not in copied or theirs.config.tie_word_embeddings:
            assert torch.equal(loaded.state_dict()[key], value), key


@pytest.mark.parametrize("module", [roberta, distilbert], ids=["roberta", "distilbert"])
def test_without_a_head(module: Any, tmp_path: Path) -> None:
    stem = module.ENCODER.stem
    theirs = model_for((module, "as published", f"{stem}Model"), "float32")
    theirs.save_pretrained(tmp_path / "in")
    found = read_folder(tmp_path / "in")
    rows = parity.compare(tmp_path / "in", found)
    assert (len(rows), all(row.close for row in rows)) == (3, True)
    write_folder(tmp_path / "out", found.model, found.params)
    jax.tree.map(np.testing.assert_array_equal, read_folder(tmp_path / "out").params, found.params)
    headed = read_folder(tmp_path / "in", architecture=stem + encoder.TAGS)
    assert any(note.startswith("new, to be trained before use: classifier.weight") for note in headed.notes)


TRAINED = [case for case in CASES if case[1] == "as published"]


def losses_of_ten_steps(case: tuple[Any, str, str]) -> tuple[np.ndarray, np.ndarray]:
    """Without padding: its rows learn here, from weight decay, too."""
    module, _, architecture = case
    draw, theirs = np.random.default_rng(0), model_for(case, "float32")
    ids, labels = ids_for(theirs.config, draw, np.ones_like(KEEP)), labels_for(module, architecture, draw)
    model = module.model_from(theirs.config.to_dict(), architecture)
    params = module.from_tensors(model, {key: value.copy() for key, value in tensors_of(theirs).items()}, architecture)
    ours = ten_steps_of_ours(model, params, jnp.asarray(ids), jnp.asarray(labels))
    return ours, ten_steps(theirs, lambda: theirs(torch.tensor(ids), **asked(module, architecture, labels)).loss)


@pytest.mark.parametrize(
    "case",
    [case if case[2] == case[0].CLASSES else pytest.param(case, marks=pytest.mark.slow) for case in TRAINED],
    ids=[named(case) for case in TRAINED],
)
def test_ten_steps_of_adamw(case: tuple[Any, str, str]) -> None:
    ours, expected = losses_of_ten_steps(case)
    assert expected[-1] < expected[0]
    assert np.abs(ours / expected - 1).max() < 1e-4
