"""A Vision Transformer of the transformers library, its weights moved into ours, gives the same logits."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5.22")  # earlier releases name the parameters otherwise
import torch
from transformers import ViTConfig, ViTForImageClassification

from glassformer.layers import class_token, feed_forward, layer_norm, linear, multi_head, positions, pre_norm_block
from glassformer.models import Images, ViT, vit


@pytest.mark.parametrize("eps", [1e-5, 1e-12, 0.3])
def test_logits_match_transformers(eps):
    # rows and columns differ, so that exchanging them would show
    model = ViT(Images((12, 8, 3), classes=5), width=16, hidden=32, heads=2, depth=2, with_class_token=True, eps=eps)
    config = ViTConfig(
        image_size=(12, 8),
        patch_size=4,
        num_channels=3,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        layer_norm_eps=eps,
        hidden_act="gelu",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    config.num_labels = 5
    theirs = ViTForImageClassification(config).double().eval()
    torch.manual_seed(0)
    for weight in theirs.parameters():  # drawn anew: it starts with ones and zeros, which hide mistakes
        torch.nn.init.normal_(weight, std=0.5)
    images = np.random.default_rng(0).integers(256, size=(7, 12, 8, 3), dtype=np.uint8)
    with torch.no_grad():
        expected = theirs(torch.tensor(images / 255).permute(0, 3, 1, 2)).logits  # channels first
    with jax.enable_x64(True):
        logits, _ = model.forward(params_from(theirs.state_dict(), model.depth), jnp.asarray(images))
    assert logits.dtype == np.float64
    assert np.abs(np.asarray(logits) - expected.numpy()).max() < 1e-10


def params_from(weights: dict[str, torch.Tensor], depth: int) -> vit.Params:
    """Their weights are (out, in); their patch projection is a convolution, (out, channel, row, column)."""

    def at(name: str) -> Any:
        return jnp.asarray(weights[name].numpy())

    def dense(name: str) -> linear.Params:
        return linear.Params(w=at(f"{name}.weight").T, b=at(f"{name}.bias"))

    def norm(name: str) -> layer_norm.Params:
        return layer_norm.Params(gain=at(f"{name}.weight"), bias=at(f"{name}.bias"))

    def block(name: str) -> pre_norm_block.Params:
        q, k, v, o = (dense(f"{name}.attention.{part}_proj") for part in "qkvo")
        up, down = dense(f"{name}.mlp.fc1"), dense(f"{name}.mlp.fc2")
        return pre_norm_block.Params(
            norm1=norm(f"{name}.layernorm_before"),
            attn=multi_head.Params(w_q=q.w, w_k=k.w, w_v=v.w, w_o=o.w, b_q=q.b, b_k=k.b, b_v=v.b, b_o=o.b),
            norm2=norm(f"{name}.layernorm_after"),
            ff=feed_forward.Params(w_up=up.w, b_up=up.b, w_down=down.w, b_down=down.b),
        )

    convolution = at("vit.embeddings.patch_embeddings.projection.weight")
    return vit.Params(
        patch=linear.Params(
            w=convolution.transpose(2, 3, 1, 0).reshape(-1, len(convolution)),  # ours: row, column, channel
            b=at("vit.embeddings.patch_embeddings.projection.bias"),
        ),
        class_token=class_token.Params(token=at("vit.embeddings.cls_token")[0, 0]),
        positions=positions.Params(pos=at("vit.embeddings.position_embeddings")[0]),
        blocks=tuple(block(f"vit.layers.{i}") for i in range(depth)),
        norm=norm("vit.layernorm"),
        head=dense("classifier"),
    )
