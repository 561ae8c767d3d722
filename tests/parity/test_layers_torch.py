"""Each layer that PyTorch has too: output, dx and every dparam are equal, in float64, to ten digits."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.func import functional_call

from glassformer.layers import (
    GELU,
    Attention,
    Embedding,
    FeedForward,
    GELUTanh,
    LayerNorm,
    Linear,
    MultiHeadAttention,
    Patches,
    PostNormBlock,
    PreNormBlock,
    ReLU,
    RMSNorm,
    SelfAttention,
    SiLU,
    Softmax,
    Tanh,
    attention,
    multi_head,
)
from glassformer.losses import CrossEntropy, LabelSmoothing

from .referee import disagreement

B, T, S, H, D, F_, V, K = 2, 5, 7, 3, 6, 11, 4, 9  # no two equal; T*B > V, so that an embedding is looked up twice
C = H * D
TOLERANCE = 1e-10


@pytest.fixture
def draw() -> np.random.Generator:
    return np.random.default_rng(1)


@pytest.mark.parametrize("bias", [True, False])
def test_linear(draw, bias):
    x = draw.standard_normal((B, T, C))
    assert disagreement(Linear(C, K, bias), x, lambda p, x: F.linear(x, p.w.T, p.b)) < TOLERANCE


def test_embedding(draw):
    ids = draw.integers(V, size=(B, T))
    assert disagreement(Embedding(V, C), ids, lambda p, ids: F.embedding(ids, p.emb)) < TOLERANCE


def test_layer_norm(draw):
    x = draw.standard_normal((B, T, C))
    layer = LayerNorm(C, eps=1e-3)
    assert disagreement(layer, x, lambda p, x: F.layer_norm(x, (C,), p.gain, p.bias, eps=1e-3)) < TOLERANCE


def test_rms_norm(draw):
    x = draw.standard_normal((B, T, C))
    assert disagreement(RMSNorm(C, eps=1e-3), x, lambda p, x: F.rms_norm(x, (C,), p.gain, eps=1e-3)) < TOLERANCE


@pytest.mark.parametrize(
    ("layer", "theirs"),
    [
        (ReLU(), F.relu),
        (GELU(), F.gelu),
        (GELUTanh(), lambda x: F.gelu(x, approximate="tanh")),
        (SiLU(), F.silu),
        (Tanh(), torch.tanh),
        (Softmax(), lambda x: F.softmax(x, dim=-1)),
    ],
    ids=["relu", "gelu", "gelu_tanh", "silu", "tanh", "softmax"],
)
def test_layers_without_parameters(draw, layer, theirs):
    x = 3 * draw.standard_normal((B, T, C))  # wide enough to reach the flat ends
    assert disagreement(layer, x, lambda _, x: theirs(x)) < TOLERANCE


def test_patches(draw):
    size, image = 3, (6, 15, 4)

    def theirs(_: None, x: torch.Tensor) -> torch.Tensor:
        columns = F.unfold(x.permute(0, 3, 1, 2), size, stride=size)  # (batch, channel * row * column, token)
        return columns.unflatten(1, (image[2], size * size)).permute(0, 3, 2, 1).flatten(2)

    x = draw.standard_normal((7, *image))
    assert disagreement(Patches(image, size), x, theirs) < TOLERANCE


def attention_by_torch(x: Any, **keywords: Any) -> torch.Tensor:
    q, k, v = (part.transpose(1, 2) for part in (x.q, x.k, x.v))  # heads before tokens
    return F.scaled_dot_product_attention(q, k, v, **keywords).transpose(1, 2)


def attention_inputs(draw: Any, **rest: Any) -> attention.Inputs:
    q, k, v = draw.standard_normal((B, T, H, D)), draw.standard_normal((B, S, H, D)), draw.standard_normal((B, S, H, D))
    return attention.Inputs(q=q, k=k, v=v, **rest)


@pytest.mark.parametrize("scale", [None, 0.7])
def test_attention(draw, scale):
    x = attention_inputs(draw)
    assert disagreement(Attention(scale), x, lambda _, x: attention_by_torch(x, scale=scale)) < TOLERANCE


@pytest.mark.parametrize("shape", [(B, H, T, S), (B, 1, T, S), (B, 1, 1, S)], ids=str)
def test_attention_with_mask(draw, shape):
    mask = draw.random(shape) < 0.5
    mask[0, 0, 0] = False  # a query that may look nowhere
    theirs = torch.tensor(mask)
    x = attention_inputs(draw)
    error = disagreement(Attention(), x, lambda _, x: attention_by_torch(x, attn_mask=theirs), mask=mask)
    assert error < TOLERANCE


def test_attention_causal(draw):
    mask = np.tril(np.ones((1, 1, T, S), bool))
    x = attention_inputs(draw)
    assert disagreement(Attention(), x, lambda _, x: attention_by_torch(x, is_causal=True), mask=mask) < TOLERANCE


@pytest.mark.parametrize("shape", [(B, H, T, S), (1, H, T, S), (B, 1, 1, S)], ids=str)
def test_attention_with_bias(draw, shape):
    x = attention_inputs(draw, bias=draw.standard_normal(shape))
    assert disagreement(Attention(), x, lambda _, x: attention_by_torch(x, attn_mask=x.bias)) < TOLERANCE


def heads_by_torch(p: Any) -> dict[str, torch.Tensor]:
    """Our params under the names of nn.MultiheadAttention, which keeps (out, in), and q, k, v stacked."""
    weights = {"in_proj_weight": torch.cat([p.w_q.T, p.w_k.T, p.w_v.T]), "out_proj.weight": p.w_o.T}
    if p.b_q is None:
        return weights
    return weights | {"in_proj_bias": torch.cat([p.b_q, p.b_k, p.b_v]), "out_proj.bias": p.b_o}


@pytest.mark.parametrize("bias", [True, False])
def test_self_attention(draw, bias):
    module = nn.MultiheadAttention(C, H, bias=bias, batch_first=True)
    x = draw.standard_normal((B, T, C))
    layer = SelfAttention(MultiHeadAttention(C, H, bias))
    assert disagreement(layer, x, lambda p, x: functional_call(module, heads_by_torch(p), (x, x, x))[0]) < TOLERANCE


def test_cross_attention_with_mask(draw):
    module = nn.MultiheadAttention(C, H, batch_first=True)
    mask = draw.random((B, H, T, S)) < 0.7
    forbidden = torch.tensor(~mask).flatten(0, 1)  # nn.MultiheadAttention says where not to look

    def theirs(p: Any, x: Any) -> torch.Tensor:
        inputs = (x.query, x.memory, x.memory)
        return functional_call(module, heads_by_torch(p), inputs, {"attn_mask": forbidden, "need_weights": False})[0]

    x = multi_head.Inputs(query=draw.standard_normal((B, T, C)), memory=draw.standard_normal((B, S, C)))
    assert disagreement(MultiHeadAttention(C, H), x, theirs, mask=mask) < TOLERANCE


def test_cross_attention_with_bias(draw):
    module = nn.MultiheadAttention(C, H, batch_first=True)

    def theirs(p: Any, x: Any) -> torch.Tensor:
        inputs = (x.query, x.memory, x.memory)
        return functional_call(module, heads_by_torch(p), inputs, {"attn_mask": x.bias.flatten(0, 1)})[0]

    query, memory = draw.standard_normal((B, T, C)), draw.standard_normal((B, S, C))
    x = multi_head.Inputs(query=query, memory=memory, bias=draw.standard_normal((B, H, T, S)))
    assert disagreement(MultiHeadAttention(C, H), x, theirs) < TOLERANCE


@pytest.mark.parametrize(("activation", "name"), [(ReLU(), "relu"), (GELU(), "gelu")], ids=["relu", "gelu"])
@pytest.mark.parametrize(("block", "norm_first"), [(PreNormBlock, True), (PostNormBlock, False)], ids=["pre", "post"])
def test_block(draw, block, norm_first, activation, name):
    module = nn.TransformerEncoderLayer(
        C, H, dim_feedforward=F_, dropout=0.0, activation=name, batch_first=True, norm_first=norm_first
    )

    def theirs(p: Any, x: torch.Tensor) -> torch.Tensor:
        weights = {f"self_attn.{name}": value for name, value in heads_by_torch(p.attn).items()}
        weights |= {"linear1.weight": p.ff.w_up.T, "linear1.bias": p.ff.b_up}
        weights |= {"linear2.weight": p.ff.w_down.T, "linear2.bias": p.ff.b_down}
        weights |= {"norm1.weight": p.norm1.gain, "norm1.bias": p.norm1.bias}
        weights |= {"norm2.weight": p.norm2.gain, "norm2.bias": p.norm2.bias}
        return functional_call(module, weights, (x,), strict=True)

    layer = block(LayerNorm(C), SelfAttention(MultiHeadAttention(C, H)), FeedForward(C, F_, activation))
    assert disagreement(layer, draw.standard_normal((B, T, C)), theirs) < TOLERANCE


@pytest.mark.parametrize("batch", [(T,), (B, T)], ids=["images", "tokens"])
@pytest.mark.parametrize(
    ("loss", "smoothing"), [(CrossEntropy(), 0.0), (LabelSmoothing(0.2), 0.2)], ids=["plain", "smooth"]
)
def test_losses(draw, loss, smoothing, batch):
    labels = draw.integers(K, size=batch)
    flat = torch.tensor(labels).flatten()
    x = 3 * draw.standard_normal((*batch, K))

    def theirs(_: None, x: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x.reshape(-1, K), flat, label_smoothing=smoothing)

    assert disagreement(loss, x, theirs, labels=labels) < TOLERANCE
