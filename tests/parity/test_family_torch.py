"""The layers of the transformer family beside PyTorch and transformers, in float64: outputs and every gradient."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("torch")
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.func import functional_call

from glassformer.layers import (
    FeedForward,
    GatedFeedForward,
    GELUTanh,
    GroupedQueryAttention,
    LayerNorm,
    Mask,
    MultiHeadAttention,
    PreNormDecoderBlock,
    RelativeBias,
    Rotary,
    SiLU,
    multi_head,
    pre_norm_decoder_block,
    relative_bias,
)

from .referee import disagreement
from .test_layers_torch import heads_by_torch

B, T, S, H, J, D, F_ = 2, 5, 7, 6, 3, 4, 11
C = H * D
TOLERANCE = 1e-10


@pytest.fixture
def draw() -> np.random.Generator:
    return np.random.default_rng(1)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("activation", "theirs"),
    [(SiLU(), F.silu), (GELUTanh(), lambda x: F.gelu(x, approximate="tanh"))],
    ids=["silu", "gelu_tanh"],
)
def test_gated_feed_forward(draw, activation, theirs, bias):
    def gated(p: Any, x: torch.Tensor) -> torch.Tensor:
        def linear(x, w, b):
            return F.linear(x, w.T, b)

        return linear(theirs(linear(x, p.w_gate, p.b_gate)) * linear(x, p.w_up, p.b_up), p.w_down, p.b_down)

    x = draw.standard_normal((B, T, C))
    assert disagreement(GatedFeedForward(C, F_, activation, bias), x, gated) < TOLERANCE


def test_decoder_block(draw):
    module = nn.TransformerDecoderLayer(
        C, H, dim_feedforward=F_, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    seen = draw.random((B, S)) < 0.7
    hidden = torch.zeros(B, S, dtype=torch.float64).masked_fill(torch.tensor(~seen), -torch.inf)
    future = nn.Transformer.generate_square_subsequent_mask(T, dtype=torch.float64)

    def theirs(p: Any, x: Any) -> torch.Tensor:
        weights = {f"self_attn.{name}": value for name, value in heads_by_torch(p.attn).items()}
        weights |= {f"multihead_attn.{name}": value for name, value in heads_by_torch(p.cross).items()}
        weights |= {"linear1.weight": p.ff.w_up.T, "linear1.bias": p.ff.b_up}
        weights |= {"linear2.weight": p.ff.w_down.T, "linear2.bias": p.ff.b_down}
        for name in ("norm1", "norm2", "norm3"):
            norm = getattr(p, name)
            weights |= {f"{name}.weight": norm.gain, f"{name}.bias": norm.bias}
        added = {"tgt_mask": future + x.bias[0, 0], "memory_key_padding_mask": hidden}
        return functional_call(module, weights, (x.x, x.memory), added, strict=True)

    layer = PreNormDecoderBlock(LayerNorm(C), MultiHeadAttention(C, H), MultiHeadAttention(C, H), FeedForward(C, F_))
    x = pre_norm_decoder_block.Inputs(
        draw.standard_normal((B, T, C)), draw.standard_normal((B, S, C)), draw.standard_normal((1, 1, T, T))
    )
    assert disagreement(layer, x, theirs, memory_mask=Mask(keep=seen)) < TOLERANCE


@pytest.mark.parametrize("key_heads", [1, J, H])
def test_grouped_query_attention(draw, key_heads):
    def theirs(p: Any, x: Any) -> torch.Tensor:
        def heads(x, w, b):
            return F.linear(x, w.T, b).unflatten(-1, (-1, D)).transpose(1, 2)

        q, k, v = (
            heads(*part) for part in ((x.query, p.w_q, p.b_q), (x.memory, p.w_k, p.b_k), (x.memory, p.w_v, p.b_v))
        )
        z = F.scaled_dot_product_attention(q, k, v, attn_mask=x.bias, enable_gqa=True)
        return F.linear(z.transpose(1, 2).flatten(2), p.w_o.T, p.b_o)

    x = multi_head.Inputs(
        draw.standard_normal((B, T, C)), draw.standard_normal((B, S, C)), draw.standard_normal((B, H, T, S))
    )
    assert disagreement(GroupedQueryAttention(C, H, key_heads, bias=True), x, theirs) < TOLERANCE


def test_rotary_positions_are_those_of_llama(draw):
    modeling = pytest.importorskip("transformers.models.llama.modeling_llama")
    place = torch.arange(T, dtype=torch.float64)[:, None] + 9
    angle = place / 10000.0 ** (torch.arange(0, D, 2, dtype=torch.float64) / D)
    angle = torch.cat([angle, angle], dim=-1)[None]

    def theirs(_: None, x: torch.Tensor) -> torch.Tensor:
        return modeling.apply_rotary_pos_emb(x, x, angle.cos(), angle.sin(), unsqueeze_dim=2)[0]

    x = draw.standard_normal((B, T, H, D))
    assert disagreement(Rotary(), x, theirs, offset=jnp.array([9])) < TOLERANCE


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "reach"), [(32, 128), (8, 20), (64, 512), (10, 37)])
def test_buckets_are_those_of_t5(bidirectional, buckets, reach):
    modeling = pytest.importorskip("transformers.models.t5.modeling_t5")
    ahead = np.arange(-3 * reach, 3 * reach)
    theirs = modeling.T5Attention._relative_position_bucket(
        torch.tensor(ahead), bidirectional=bidirectional, num_buckets=buckets, max_distance=reach
    )
    ours = RelativeBias(1, buckets, reach, bidirectional).bucket_of(jnp.asarray(ahead))
    assert np.array_equal(np.asarray(ours), theirs.numpy())


@pytest.mark.parametrize("bidirectional", [True, False])
def test_relative_bias_is_that_of_t5(bidirectional):
    transformers = pytest.importorskip("transformers")
    modeling = pytest.importorskip("transformers.models.t5.modeling_t5")
    config = transformers.T5Config(
        d_model=C, num_heads=H, d_kv=D, relative_attention_num_buckets=8, relative_attention_max_distance=20
    )
    config.is_decoder = not bidirectional
    theirs = modeling.T5Attention(config, has_relative_attention_bias=True, layer_idx=0).double()
    expected = theirs.compute_bias(T, 31)
    dy = np.random.default_rng(0).standard_normal(expected.shape)
    expected.backward(torch.tensor(dy))
    with jax.enable_x64(True):
        layer = RelativeBias(H, 8, 20, bidirectional)
        params = relative_bias.Params(table=jnp.asarray(theirs.relative_attention_bias.weight.detach().numpy()))
        bias, cache = layer.forward(params, relative_bias.Inputs(jnp.arange(T), jnp.arange(31)))
        _, dparams = layer.backward(params, cache, jnp.asarray(dy))
    assert np.array_equal(np.asarray(bias), expected.detach().numpy())
    gradient = theirs.relative_attention_bias.weight.grad
    assert gradient is not None
    assert np.abs(np.asarray(dparams.table) - gradient.numpy()).max() < TOLERANCE
