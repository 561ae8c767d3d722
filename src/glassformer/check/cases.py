"""An example of every layer, loss and model: odd sizes, no two axes alike, optional parts both present and absent."""

from glassformer.check.draw import Case
from glassformer.layers import (
    GELU,
    GRU,
    LSTM,
    RNN,
    Attention,
    CausalSelfAttention,
    Chain,
    ClassToken,
    Dropout,
    Embedding,
    FeedForward,
    FirstToken,
    GELUTanh,
    LayerNorm,
    Linear,
    MeanPool,
    MultiHeadAttention,
    Patches,
    Positions,
    PostNormBlock,
    PreNormBlock,
    ReLU,
    Residual,
    RMSNorm,
    SelfAttention,
    Sigmoid,
    SiLU,
    Softmax,
    Standardise,
    Tanh,
)
from glassformer.layers.positions import GridSinusoidal, Sinusoidal, Uniform, Xavier, Zero
from glassformer.losses import CrossEntropy, LabelSmoothing
from glassformer.models import MLP, Images, PatchAttention, ViT

NORM, HEADS, FEED = LayerNorm(6), SelfAttention(MultiHeadAttention(6, heads=3)), FeedForward(6, 7)
PICTURES = Images(shape=(8, 12, 3), classes=5, mean=0.2, std=0.7)

LAYERS = [
    Case("standardise", Standardise(mean=0.2, std=0.7), spread=100.0),
    Case("linear", Linear(5, 3)),
    Case("linear (no bias)", Linear(5, 3, bias=False)),
    Case("embedding", Embedding(vocabulary=11, width=6)),
    Case("patches", Patches(image=(8, 12, 3), size=4), shape=(2, 8, 12, 3)),
    Case("class token", ClassToken(6)),
    Case("positions (uniform)", Positions(5, 6, Uniform(0.5)), shape=(2, 5, 6)),
    Case("positions (zero)", Positions(5, 6, Zero()), shape=(2, 5, 6)),
    Case("positions (Xavier)", Positions(5, 6, Xavier()), shape=(2, 5, 6)),
    Case("positions (sinusoidal, shorter sequence)", Positions(7, 6, Sinusoidal()), shape=(2, 5, 6)),
    Case("positions (grid, fixed)", Positions(7, 4, GridSinusoidal(2, 3), trained=False), shape=(2, 7, 4)),
    Case("relu", ReLU()),
    Case("gelu", GELU()),
    Case("gelu (tanh)", GELUTanh()),
    Case("silu", SiLU()),
    Case("tanh", Tanh()),
    Case("sigmoid", Sigmoid()),
    Case("softmax", Softmax()),
    Case("layer norm", LayerNorm(6)),
    Case("rms norm", RMSNorm(6)),
    Case("dropout (training)", Dropout(0.3), given=("key",)),
    Case("dropout (evaluation)", Dropout(0.3)),
    Case("attention", Attention()),
    Case("attention (mask, bias, scale)", Attention(scale=0.7), given=("mask", "bias")),
    Case("multi-head attention", MultiHeadAttention(6, heads=2)),
    Case("multi-head attention (mask, bias)", MultiHeadAttention(6, heads=3), given=("mask", "bias")),
    Case("multi-head attention (no biases, no w_o)", MultiHeadAttention(6, heads=2, bias=False, output=False)),
    Case("self-attention", HEADS),
    Case("self-attention (mask)", HEADS, given=("mask",)),
    Case("causal self-attention", CausalSelfAttention(HEADS.multi_head)),
    Case("causal self-attention (mask)", CausalSelfAttention(HEADS.multi_head), given=("mask",)),
    Case("feed-forward", FEED),
    Case("feed-forward (relu, no bias)", FeedForward(6, 7, ReLU(), bias=False)),
    Case("pre-norm block", PreNormBlock(NORM, HEADS, FEED)),
    Case("pre-norm block (mask, dropout)", PreNormBlock(NORM, HEADS, FEED, Dropout(0.2)), given=("mask", "key")),
    Case("pre-norm block (rms norm)", PreNormBlock(RMSNorm(6), HEADS, FEED)),
    Case("post-norm block", PostNormBlock(NORM, HEADS, FEED)),
    Case("post-norm block (mask, dropout)", PostNormBlock(NORM, HEADS, FEED, Dropout(0.2)), given=("mask", "key")),
    Case("mean pool", MeanPool()),
    Case("first token", FirstToken()),
    Case("chain", Chain((Linear(5, 3), Dropout(0.2), Tanh(), Linear(3, 7))), shape=(2, 5), given=("key",)),
    Case("residual", Residual(Chain((Linear(5, 5), Tanh()))), shape=(2, 3, 5)),
    Case("rnn", RNN(5, 3)),
    Case("rnn (no bias)", RNN(5, 3, bias=False)),
    Case("lstm", LSTM(5, 3)),
    Case("lstm (no bias)", LSTM(5, 3, bias=False)),
    Case("gru", GRU(5, 4)),
    Case("gru (no bias)", GRU(5, 4, bias=False)),
]

LOSSES = [
    Case("cross-entropy", CrossEntropy()),
    Case("cross-entropy (weights)", CrossEntropy(), given=("weights",)),
    Case("label smoothing", LabelSmoothing(0.2)),
    Case("label smoothing (weights)", LabelSmoothing(0.2), given=("weights",)),
]

MODELS = [
    Case("mlp", MLP(PICTURES, hidden=(7, 6)), shape=(2, 8, 12, 3), spread=200.0),
    Case("patch_attention", PatchAttention(PICTURES, width=10, hidden=7), shape=(2, 8, 12, 3), spread=200.0),
    Case("vit", ViT(PICTURES, width=10, hidden=7, heads=2, depth=2), shape=(2, 8, 12, 3), spread=200.0),
    Case(
        "vit (class token, dropout)",
        ViT(PICTURES, width=10, hidden=7, heads=2, depth=1, with_class_token=True, dropout=0.2),
        shape=(2, 8, 12, 3),
        given=("key",),
        spread=200.0,
    ),
]

CASES = {case.name: case for case in (*LAYERS, *LOSSES, *MODELS)}
