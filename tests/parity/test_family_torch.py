"""The layers of the transformer family beside PyTorch and transformers, in float64: outputs and every gradient."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("torch")
import torch
import torch.nn.functional as F  # noqa: N812

from glassformer.layers import (
    GatedFeedForward,
    GELUTanh,
    GroupedQueryAttention,
    RelativeBias,
    Rotary,
    SiLU,
    multi_head,
    relative_bias,
)

from .referee import disagreement

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
