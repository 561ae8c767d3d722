"""The three models once more, in plain PyTorch, and how to give them a glassformer model's weights."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from glassformer.models import MLP, PatchAttention, ViT


class MLPTwin(nn.Module):
    def __init__(self, model: MLP) -> None:
        super().__init__()
        (hidden,) = model.hidden
        self.up = nn.Linear(model.images.pixels, hidden)
        self.down = nn.Linear(hidden, model.images.classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(images.flatten(1) / 255)))

    def weights(self, params: Any) -> dict[str, Any]:
        up, down = params.layers
        return linear("up", up) | linear("down", down)


class PatchAttentionTwin(nn.Module):
    def __init__(self, model: PatchAttention) -> None:
        super().__init__()
        width, hidden, self.patch_size = model.width, model.hidden, model.patch_size
        self.patch = nn.Linear(model.patches.values, width)
        self.positions = nn.Parameter(torch.empty(model.patches.tokens, width))
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.head = nn.Linear(width, model.images.classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        tokens = torch.relu(self.patch(patches(images / 255, self.patch_size)) + self.positions)
        z = F.scaled_dot_product_attention(self.q(tokens), self.k(tokens), self.v(tokens))
        z = self.down(torch.relu(self.up(z)))
        return self.head(z.mean(dim=1))

    def weights(self, params: Any) -> dict[str, Any]:
        attn, ff = params.attn, params.ff
        weights = linear("patch", params.patch) | linear("head", params.head) | {"positions": params.positions.pos}
        weights |= {"q.weight": attn.w_q.T, "k.weight": attn.w_k.T, "v.weight": attn.w_v.T}
        weights |= {"q.bias": attn.b_q, "k.bias": attn.b_k, "v.bias": attn.b_v}
        weights |= {"up.weight": ff.w_up.T, "up.bias": ff.b_up, "down.weight": ff.w_down.T, "down.bias": ff.b_down}
        return weights


class ViTTwin(nn.Module):
    def __init__(self, model: ViT) -> None:
        super().__init__()
        width, self.images, self.patch_size = model.width, model.images, model.patch_size
        self.patch = nn.Linear(model.patches.values, width)
        self.token = nn.Parameter(torch.empty(1, 1, width)) if model.with_class_token else None
        self.positions = nn.Parameter(torch.empty(model.patches.tokens + model.with_class_token, width))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, model.heads, model.hidden, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
            )
            for _ in range(model.depth)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, model.images.classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        mean, std = torch.tensor(self.images.mean), torch.tensor(self.images.std)
        tokens = self.patch(patches((images / 255 - mean) / std, self.patch_size))
        if self.token is not None:
            tokens = torch.cat([self.token.expand(len(tokens), -1, -1), tokens], dim=1)
        resid = tokens + self.positions
        for block in self.blocks:
            resid = block(resid)
        h = self.norm(resid)
        return self.head(h.mean(dim=1) if self.token is None else h[:, 0])

    def weights(self, params: Any) -> dict[str, Any]:
        weights = linear("patch", params.patch) | linear("head", params.head) | norm("norm", params.norm)
        weights |= {"positions": params.positions.pos}
        if params.class_token is not None:
            weights |= {"token": params.class_token.token[None, None]}
        for i, block in enumerate(params.blocks):
            weights |= {f"blocks.{i}.{name}": value for name, value in encoder_layer(block).items()}
        return weights


def twin_of(model: Any, params: Any) -> nn.Module:
    """The model's PyTorch twin, starting from the same parameters and of their precision."""
    twin = {MLP: MLPTwin, PatchAttention: PatchAttentionTwin, ViT: ViTTwin}[type(model)](model)
    weights = {name: torch.tensor(np.asarray(value)) for name, value in twin.weights(params).items()}
    twin.load_state_dict(weights, assign=True)
    return twin.requires_grad_()


def patches(images: torch.Tensor, size: int) -> torch.Tensor:
    """(batch, rows, columns, channels) -> (batch, tokens, values), the values in the order row, column, channel."""
    tiles = images.unfold(1, size, size).unfold(2, size, size)  # (batch, rows, columns, channels, size, size)
    return tiles.permute(0, 1, 2, 4, 5, 3).flatten(3).flatten(1, 2)


def linear(name: str, params: Any) -> dict[str, Any]:
    return {f"{name}.weight": params.w.T, f"{name}.bias": params.b}


def norm(name: str, params: Any) -> dict[str, Any]:
    return {f"{name}.weight": params.gain, f"{name}.bias": params.bias}


def encoder_layer(block: Any) -> dict[str, Any]:
    """A block's params under the names of nn.TransformerEncoderLayer, which keeps (out, in), and q, k, v stacked."""
    attn, ff = block.attn, block.ff
    weights = norm("norm1", block.norm1) | norm("norm2", block.norm2)
    weights |= {"self_attn.in_proj_weight": np.concatenate([attn.w_q.T, attn.w_k.T, attn.w_v.T])}
    weights |= {"self_attn.in_proj_bias": np.concatenate([attn.b_q, attn.b_k, attn.b_v])}
    weights |= {"self_attn.out_proj.weight": attn.w_o.T, "self_attn.out_proj.bias": attn.b_o}
    weights |= {"linear1.weight": ff.w_up.T, "linear1.bias": ff.b_up}
    weights |= {"linear2.weight": ff.w_down.T, "linear2.bias": ff.b_down}
    return weights
