"""One layer, one file: its formula, its Params and Cache, and init / forward / backward written out.

Nothing here knows of models, data, training or files; a layer may use other layers.
"""

from glassformer.layers.attention import Attention
from glassformer.layers.banded_attention import BandedAttention
from glassformer.layers.biased_pre_norm_block import BiasedPreNormBlock
from glassformer.layers.blockwise_attention import BlockwiseAttention
from glassformer.layers.causal_self_attention import CausalSelfAttention
from glassformer.layers.checkpoint import Checkpoint
from glassformer.layers.class_token import ClassToken
from glassformer.layers.contract import Layer, as_jax
from glassformer.layers.counted_positions import CountedPositions
from glassformer.layers.distilled_head import DistilledHead
from glassformer.layers.dropout import Dropout
from glassformer.layers.embedding import Embedding
from glassformer.layers.feed_forward import FeedForward
from glassformer.layers.first_token import FirstToken
from glassformer.layers.fused_attention import FusedAttention
from glassformer.layers.gated_feed_forward import GatedFeedForward
from glassformer.layers.gelu import GELU
from glassformer.layers.gelu_tanh import GELUTanh
from glassformer.layers.grouped_query import GroupedQueryAttention
from glassformer.layers.gru import GRU
from glassformer.layers.head_norm import HeadNorm
from glassformer.layers.layer_norm import LayerNorm
from glassformer.layers.linear import Linear
from glassformer.layers.linear_attention import LinearAttention
from glassformer.layers.lora import LoRA
from glassformer.layers.lstm import LSTM
from glassformer.layers.masked_mean_pool import MaskedMeanPool
from glassformer.layers.masks import Mask
from glassformer.layers.mean_pool import MeanPool
from glassformer.layers.multi_head import MultiHeadAttention
from glassformer.layers.patches import Patches
from glassformer.layers.positions import Positions
from glassformer.layers.post_norm_block import PostNormBlock
from glassformer.layers.pre_norm import PreNorm
from glassformer.layers.pre_norm_block import PreNormBlock
from glassformer.layers.pre_norm_decoder_block import PreNormDecoderBlock
from glassformer.layers.relative_bias import RelativeBias
from glassformer.layers.relu import ReLU
from glassformer.layers.reshape import Reshape
from glassformer.layers.residual import Residual
from glassformer.layers.rms_norm import RMSNorm
from glassformer.layers.rnn import RNN
from glassformer.layers.rotary import Rotary
from glassformer.layers.scaled_rotary import ScaledRotary
from glassformer.layers.self_attention import SelfAttention
from glassformer.layers.silu import SiLU
from glassformer.layers.softmax import Softmax
from glassformer.layers.standardise import Standardise
from glassformer.layers.standardise_channels import StandardiseChannels
from glassformer.layers.standardise_columns import StandardiseColumns
from glassformer.layers.tanh import Tanh
from glassformer.layers.tied_head import TiedHead
from glassformer.layers.unit_norm import UnitNorm
from glassformer.registry import register

__all__ = [
    "GELU",
    "GRU",
    "LSTM",
    "RNN",
    "Attention",
    "BandedAttention",
    "BiasedPreNormBlock",
    "BlockwiseAttention",
    "CausalSelfAttention",
    "Checkpoint",
    "ClassToken",
    "CountedPositions",
    "DistilledHead",
    "Dropout",
    "Embedding",
    "FeedForward",
    "FirstToken",
    "FusedAttention",
    "GELUTanh",
    "GatedFeedForward",
    "GroupedQueryAttention",
    "HeadNorm",
    "Layer",
    "LayerNorm",
    "Linear",
    "LinearAttention",
    "LoRA",
    "Mask",
    "MaskedMeanPool",
    "MeanPool",
    "MultiHeadAttention",
    "Patches",
    "Positions",
    "PostNormBlock",
    "PreNorm",
    "PreNormBlock",
    "PreNormDecoderBlock",
    "RMSNorm",
    "ReLU",
    "RelativeBias",
    "Reshape",
    "Residual",
    "Rotary",
    "ScaledRotary",
    "SelfAttention",
    "SiLU",
    "Softmax",
    "Standardise",
    "StandardiseChannels",
    "StandardiseColumns",
    "Tanh",
    "TiedHead",
    "UnitNorm",
    "as_jax",
]

ATTEND = {
    "plain": Attention,
    "blockwise": BlockwiseAttention,
    "banded": BandedAttention,
    "linear": LinearAttention,
    "fused": FusedAttention,
}
for _name, _cls in ATTEND.items():
    register.part(_name)(_cls)
OTHERS = (Layer, Mask, *ATTEND.values())
for _cls in [value for value in vars().values() if isinstance(value, type) and value not in OTHERS]:
    register.layer(_cls.__module__.rpartition(".")[2].replace("_", "-"))(_cls)  # as its file is called
