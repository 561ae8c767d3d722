"""Vision transformers of the transformers library, moved into ours: logits, loss and every gradient are equal."""

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
from safetensors.numpy import load_file
from transformers import ViTConfig, ViTForImageClassification

from glassformer.hub import vit
from glassformer.models import Images, ViT

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

pytestmark = pytest.mark.slow

CONFIGS: dict[str, dict[str, Any]] = {  # rows and columns mostly differ, so that exchanging them would show
    "as published": {"image_size": 12, "patch_size": 4, "hidden_size": 12, "num_attention_heads": 3},
    "upright, grey, one block": {
        "image_size": [12, 8],
        "patch_size": [2, 2],
        "num_channels": 1,
        "hidden_size": 10,
        "num_attention_heads": 5,
        "num_hidden_layers": 1,
        "layer_norm_eps": 1e-3,
    },
    "wide, five channels, one head": {
        "image_size": (3, 9),
        "patch_size": 3,
        "num_channels": 5,
        "hidden_size": 7,
        "num_attention_heads": 1,
        "layer_norm_eps": 0.3,
    },
}
BATCH, CLASSES = 4, 5
SIZES: dict[str, Any] = {"num_hidden_layers": 2, "intermediate_size": 17, "num_labels": CLASSES}
PREPARATION = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.25, 0.25, 0.25]}


def theirs_for(name: str, precision: str) -> Any:
    return drawn(ViTForImageClassification(ViTConfig(**(SIZES | CONFIGS[name]))), precision)


def images_and_labels(model: ViT) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    images = draw.integers(256, size=(BATCH, *model.images.shape), dtype=np.uint8)
    return images, draw.integers(CLASSES, size=BATCH)


def prepared(images: np.ndarray, precision: str) -> torch.Tensor:
    """Channels first, and spread as PREPARATION says."""
    return torch.tensor((images / 255 - 0.5) / 0.25, dtype=getattr(torch, precision)).permute(0, 3, 1, 2)


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_loss_and_gradients(name: str, precision: str) -> None:
    theirs = theirs_for(name, precision)
    model = vit.model_from(theirs.config.to_dict(), PREPARATION)
    images, labels = images_and_labels(model)
    logits = theirs(prepared(images, precision)).logits
    expected = of_theirs(theirs, logits, F.cross_entropy(logits, torch.tensor(labels)))
    with jax.enable_x64(precision == "float64"):
        params = vit.from_tensors(model, tensors_of(theirs))
        ours = of_ours(model, params, images, labels, lambda tree: vit.to_tensors(model, tree, vit.LOADED))
    assert max(disagreement(ours, expected).values()) < TOLERANCES[precision]


@pytest.mark.parametrize("name", CONFIGS)
def test_the_names_in_files_lead_to_the_same_parameters(name: str, tmp_path: Path) -> None:
    theirs = theirs_for(name, "float32")
    model = vit.model_from(theirs.config.to_dict())
    theirs.save_pretrained(tmp_path)
    written = load_file(tmp_path / "model.safetensors")
    params = vit.from_tensors(model, written)
    jax.tree.map(np.testing.assert_array_equal, params, vit.from_tensors(model, tensors_of(theirs)))
    again = vit.to_tensors(model, params)
    assert set(again) == set(written)
    for key, value in written.items():
        np.testing.assert_array_equal(again[key], value, strict=True)


@pytest.mark.parametrize("name", ["as published", "upright, grey, one block"])
def test_ten_steps_of_adamw(name: str) -> None:
    theirs = theirs_for(name, "float32")
    model = vit.model_from(theirs.config.to_dict(), PREPARATION)
    images, labels = images_and_labels(model)
    params = vit.from_tensors(model, {key: value.copy() for key, value in tensors_of(theirs).items()})
    ours = ten_steps_of_ours(model, params, jnp.asarray(images), jnp.asarray(labels))
    pixels = prepared(images, "float32")
    expected = ten_steps(theirs, lambda: F.cross_entropy(theirs(pixels).logits, torch.tensor(labels)))
    assert expected[-1] < expected[0]
    assert np.abs(ours / expected - 1).max() < 1e-4


def test_their_processor_prepares_pixels_as_ours_does() -> None:
    processor = pytest.importorskip("transformers").ViTImageProcessor
    for given in (
        {"image_mean": 0.3, "image_std": 0.2},
        {"do_normalize": False},
        {"do_rescale": False, "image_mean": 100.0, "image_std": 50.0},
        {"rescale_factor": 1 / 127.5, "image_mean": 1.0, "image_std": 1.0},
    ):
        channels = {key: [value] * 3 if key.startswith("image") else value for key, value in given.items()}
        mean, std = vit.spread(channels)
        images = np.random.default_rng(0).integers(256, size=(2, 6, 4, 3), dtype=np.uint8)
        pixels = processor(do_resize=False, **channels)(
            list(images), return_tensors="np", input_data_format="channels_last"
        )
        ours, _ = Images((6, 4, 3), mean=mean, std=std).prepare.forward(None, jnp.asarray(images))
        np.testing.assert_allclose(np.asarray(ours).transpose(0, 3, 1, 2), pixels["pixel_values"], rtol=1e-5, atol=1e-5)
