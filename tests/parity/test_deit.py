"""DeiT of the transformers library, with one head and with two, moved into ours: logits, loss, gradients are equal."""

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
import transformers
from safetensors.numpy import load_file

from glassformer.hub import deit, parity, vit
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

CONFIGS: dict[str, dict[str, Any]] = {
    "square": {"image_size": 12, "patch_size": 4, "hidden_size": 12, "num_attention_heads": 3},
    "upright": {"image_size": [12, 8], "patch_size": 2, "hidden_size": 10, "num_attention_heads": 5},
}
BATCH, CLASSES = 4, 5
SIZES: dict[str, Any] = {"num_hidden_layers": 2, "intermediate_size": 17, "num_labels": CLASSES}
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
PREPARATION = {"image_mean": MEAN, "image_std": STD}


def theirs_for(name: str, architecture: str, precision: str) -> Any:
    config = transformers.DeiTConfig(**(SIZES | CONFIGS[name]))
    return drawn(getattr(transformers, architecture)(config), precision)


def with_preparation(theirs: Any, folder: Path) -> Path:
    theirs.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPARATION))
    return folder


def images_and_labels(model: Any) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    return draw.integers(256, size=(BATCH, *model.images.shape), dtype=np.uint8), draw.integers(CLASSES, size=BATCH)


def prepared(images: np.ndarray, precision: str) -> torch.Tensor:
    """Channels first, each spread as PREPARATION says."""
    pixels = (images / 255 - np.array(MEAN)) / np.array(STD)
    return torch.tensor(pixels, dtype=getattr(torch, precision)).permute(0, 3, 1, 2)


def compared(name: str, architecture: str) -> tuple[Outcome, Outcome]:
    """Ours and theirs, in float64."""
    theirs = theirs_for(name, architecture, "float64")
    model = vit.model_from(theirs.config.to_dict() | {"architectures": [architecture]}, PREPARATION)
    images, labels = images_and_labels(model)
    logits = theirs(prepared(images, "float64")).logits
    expected = of_theirs(theirs, logits, F.cross_entropy(logits, torch.tensor(labels)))
    with jax.enable_x64(True):
        params = vit.from_tensors(model, tensors_of(theirs))
        ours = of_ours(model, params, images, labels, lambda tree: vit.to_tensors(model, tree, vit.LOADED))
    return ours, expected


@pytest.mark.parametrize("architecture", deit.ARCHITECTURES)
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_loss_and_gradients(name: str, architecture: str) -> None:
    ours, expected = compared(name, architecture)
    assert max(disagreement(ours, expected).values()) < TOLERANCES["float64"]
    assert worst_gradient(ours, expected) < TOLERANCES["float64"]


@pytest.mark.parametrize("architecture", deit.ARCHITECTURES)
def test_a_folder_comes_in_and_goes_out(architecture: str, tmp_path: Path) -> None:
    theirs = theirs_for("upright", architecture, "float32")
    found = read_folder(with_preparation(theirs, tmp_path / "in"))
    assert (found.model.images.mean, found.model.images.std) == (tuple(MEAN), tuple(STD))
    rows = parity.compare(tmp_path / "in", found)
    assert (len(rows), rows[-1].name, all(row.close for row in rows)) == (4, "logits", True)
    write_folder(tmp_path / "out", found.model, found.params, classes=found.classes)
    again = read_folder(tmp_path / "out")
    assert again.model == found.model
    before, after = (load_file(tmp_path / folder / "model.safetensors") for folder in ("in", "out"))
    assert set(before) == set(after)
    assert all(np.array_equal(value, after[name]) for name, value in before.items())
    loaded = type(theirs).from_pretrained(tmp_path / "out")
    assert all(torch.equal(loaded.state_dict()[name], value) for name, value in theirs.state_dict().items())


def losses_of_ten_steps(architecture: str) -> tuple[np.ndarray, np.ndarray]:
    theirs = theirs_for("square", architecture, "float32")
    model = vit.model_from(theirs.config.to_dict() | {"architectures": [architecture]}, PREPARATION)
    images, labels = images_and_labels(model)
    params = vit.from_tensors(model, {key: value.copy() for key, value in tensors_of(theirs).items()})
    ours = ten_steps_of_ours(model, params, jnp.asarray(images), jnp.asarray(labels))
    pixels = prepared(images, "float32")
    return ours, ten_steps(theirs, lambda: F.cross_entropy(theirs(pixels).logits, torch.tensor(labels)))


@pytest.mark.parametrize("architecture", deit.ARCHITECTURES)
def test_ten_steps_of_adamw(architecture: str) -> None:
    ours, expected = losses_of_ten_steps(architecture)
    assert expected[-1] < expected[0]
    assert np.abs(ours / expected - 1).max() < 1e-4
