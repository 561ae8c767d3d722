"""How each layer is written in ONNX: one entry per layer, which adds its nodes to the graph.

An entry is given the graph, the layer's node in the model's structure and the names of its input, in the form in which
the layer takes it; it returns the name of its output. Axes of batch and tokens are never written down as numbers.
"""

from functools import reduce
from typing import Any

import numpy as np

from glassformer import layers
from glassformer.errors import EngineError
from glassformer.hub.onnx_graph import Graph
from glassformer.layers.masks import Mask, as_mask
from glassformer.layers.rope_scaling import DynamicScaling, frequencies
from glassformer.models import SpanHead
from glassformer.registry import register
from glassformer.structure import Node, Value

LOWEST = float(np.finfo(np.float32).min)
SAME = 0  # in a shape: as it is in the input


@register.onnx(layers.Standardise)
def standardise(graph: Graph, node: Node, x: str) -> str:
    layer: Any = node.layer
    pixels = x if np.issubdtype(node.x.dtype, np.floating) else graph.op("Cast", x, to=1)  # TensorProto.FLOAT
    scaled = graph.op("Mul", pixels, graph.constant(layer.factor, "factor"))
    return graph.op("Sub", scaled, graph.constant(layer.mean / layer.std, "offset"), name="y")


@register.onnx(layers.StandardiseChannels)
def standardise_channels(graph: Graph, node: Node, x: str) -> str:
    layer: Any = node.layer
    mean, std = np.float64(layer.mean), np.float64(layer.std)
    pixels = x if np.issubdtype(node.x.dtype, np.floating) else graph.op("Cast", x, to=1)  # TensorProto.FLOAT
    scaled = graph.op("Mul", pixels, graph.constant(1 / (layer.divisor * std), "factor"))
    return graph.op("Sub", scaled, graph.constant(mean / std, "offset"), name="y")


@register.onnx(layers.StandardiseColumns)
def standardise_columns(graph: Graph, node: Node, x: str) -> str:
    layer: Any = node.layer
    centred = graph.op("Sub", x, graph.constant(np.float32(layer.mean), "mean")) if layer.mean else x
    return graph.op("Div", centred, graph.constant(np.float32(layer.std), "std"), name="y") if layer.std else centred


def reshape(graph: Graph, x: str, *shape: int, name: str = "y") -> str:
    return graph.op("Reshape", x, graph.constant(shape, "shape"), name=name)


@register.onnx(layers.Reshape)
def reshape_layer(graph: Graph, node: Node, x: str) -> str:
    layer: Any = node.layer
    return reshape(graph, x, SAME, *layer.shape)


@register.onnx(layers.Patches)
def patches(graph: Graph, node: Node, x: str) -> str:
    layer: Any = node.layer
    (rows, columns), size, channels = layer.grid, layer.size, layer.image[2]
    pixels = reshape(graph, x, SAME, rows, size, columns, size, channels, name="pixels")
    pixels = graph.op("Transpose", pixels, perm=(0, 1, 3, 2, 4, 5))
    return reshape(graph, pixels, SAME, layer.tokens, layer.values)


@register.onnx(layers.Dropout)
def dropout(graph: Graph, node: Node, x: str) -> str:
    return x  # it is for training


def project(graph: Graph, x: str, w: Value, b: Value | None, name: str = "y") -> str:
    """y = x @ w + b."""
    if b is None:
        return graph.op("MatMul", x, graph.named(w), name=name)
    return graph.op("Add", graph.op("MatMul", x, graph.named(w)), graph.named(b), name=name)


@register.onnx(layers.Linear)
def linear(graph: Graph, node: Node, x: str) -> str:
    return project(graph, x, node.params.w, node.params.b)


@register.onnx(layers.Embedding)
def embedding(graph: Graph, node: Node, x: str) -> str:
    return graph.op("Gather", graph.named(node.params.emb), x, name="y")


@register.onnx(layers.TiedHead)
def tied_head(graph: Graph, node: Node, x: Any) -> str:
    layer: Any = node.layer
    y = graph.op("MatMul", x.x, graph.op("Transpose", x.emb, perm=(1, 0)), name="logits")
    if layer.scale != 1:
        y = graph.op("Mul", y, graph.constant(layer.scale, "scale"))
    return y if node.params is None else graph.op("Add", y, graph.named(node.params.b), name="logits")


@register.onnx(layers.ClassToken)
def class_token(graph: Graph, node: Node, x: str) -> str:
    batch = graph.op("Shape", x, start=0, end=1)
    shape = graph.op("Concat", batch, graph.constant((1, 1), "rest"), axis=0)
    token = graph.op("Expand", graph.named(node.params.token), shape)
    return graph.op("Concat", token, x, axis=1, name="y")


@register.onnx(layers.DistilledHead)
def distilled_head(graph: Graph, node: Node, x: str) -> str:
    answers = [
        project(graph, graph.op("Gather", x, graph.constant(place, "place"), axis=1), weights.w, weights.b)
        for place, weights in enumerate(node.params)
    ]
    return graph.op("Mul", graph.op("Add", *answers), graph.constant(0.5, "half"), name="y")


@register.onnx(layers.Positions)
def positions(graph: Graph, node: Node, x: str) -> str:
    layer: Any = node.layer
    pos = graph.constant(layer.pos, "pos") if node.params.pos is None else graph.named(node.params.pos)
    if graph.any_length or node.x.shape[1] < layer.tokens:
        zero, length = graph.constant((0,), "zero"), graph.op("Shape", x, start=1, end=2)
        pos = graph.op("Slice", pos, zero, length, zero)  # pos[:T]
    return graph.op("Add", x, pos, name="y")


@register.onnx(layers.CountedPositions)
def counted_positions(graph: Graph, node: Node, x: str) -> str:
    layer: Any = node.layer
    if node.keywords.get("keep") is None:
        raise EngineError(f"ONNX export has no counted positions without a padding mask yet ({node.name})")
    counted = graph.op("Cast", graph.named(node.keywords["keep"]), to=7)  # TensorProto.INT64
    count = graph.op("Mul", counted, graph.op("CumSum", counted, graph.constant(1, "axis")))
    places = graph.op("Add", count, graph.constant(layer.first - 1, "before"), name="places")
    return graph.op("Add", x, graph.op("Gather", graph.named(node.params.pos), places), name="y")


@register.onnx(layers.ReLU)
def relu(graph: Graph, node: Node, x: str) -> str:
    return graph.op("Relu", x, name="y")


@register.onnx(layers.Tanh)
def tanh(graph: Graph, node: Node, x: str) -> str:
    return graph.op("Tanh", x, name="y")


@register.onnx(layers.SiLU)
def silu(graph: Graph, node: Node, x: str) -> str:
    return graph.op("Mul", x, graph.op("Sigmoid", x, name="gate"), name="y")


@register.onnx(layers.GELU)
def gelu(graph: Graph, node: Node, x: str) -> str:
    return graph.op("Gelu", x, name="y")


@register.onnx(layers.GELUTanh)
def gelu_tanh(graph: Graph, node: Node, x: str) -> str:
    return graph.op("Gelu", x, name="y", approximate="tanh")


@register.onnx(layers.LayerNorm)
def layer_norm(graph: Graph, node: Node, x: str) -> str:
    layer: Any = node.layer
    return graph.op("LayerNormalization", x, *graph.named(node.params), name="y", axis=-1, epsilon=layer.eps)


@register.onnx(layers.HeadNorm)
@register.onnx(layers.RMSNorm)
def rms_norm(graph: Graph, node: Node, x: str) -> str:
    layer: Any = node.layer
    square = graph.op("ReduceMean", graph.op("Mul", x, x), graph.constant((-1,), "axes"), keepdims=1)
    rms = graph.op("Sqrt", graph.op("Add", square, graph.constant(layer.eps, "eps")), name="rms")
    return graph.op("Mul", graph.op("Div", x, rms, name="xhat"), graph.named(node.params.gain), name="y")


@register.onnx(layers.FeedForward)
def feed_forward(graph: Graph, node: Node, x: str) -> str:
    weights, (activation,) = node.params, node.parts
    hidden = graph.layer(activation, project(graph, x, weights.w_up, weights.b_up, "hidden_pre"))
    return project(graph, hidden, weights.w_down, weights.b_down)


@register.onnx(layers.GatedFeedForward)
def gated_feed_forward(graph: Graph, node: Node, x: str) -> str:
    weights, (activation,) = node.params, node.parts
    gate = graph.layer(activation, project(graph, x, weights.w_gate, weights.b_gate, "gate_pre"))
    hidden = graph.op("Mul", gate, project(graph, x, weights.w_up, weights.b_up, "up"), name="hidden")
    return project(graph, hidden, weights.w_down, weights.b_down)


@register.onnx(layers.Attention)
@register.onnx(layers.FusedAttention)
@register.onnx(layers.BlockwiseAttention)
@register.onnx(layers.BandedAttention)
def attention(graph: Graph, node: Node, x: Any) -> str:
    q, v = (graph.op("Transpose", given, perm=(0, 2, 1, 3)) for given in (x.q, x.v))
    z = attend(graph, node, q, graph.op("Transpose", x.k, perm=(0, 2, 3, 1)), v, x.bias)
    return graph.op("Transpose", z, perm=(0, 2, 1, 3), name="z")


def attend(graph: Graph, node: Any, q: str, k: str, v: str, bias: Any = None) -> str:
    """z of heads that lie in the batch; k is transposed."""
    scale = graph.constant(node.layer.plain.scale_for(node.x.q), "scale")
    scores = graph.op("Mul", graph.op("MatMul", q, k), scale, name="scores")
    if bias is not None:
        scores = graph.op("Add", scores, bias)
    mask = mask_of(graph, node, q, k)
    if mask is None:
        pattern = graph.op("Softmax", scores, name="pattern", axis=-1)
    else:  # a query that may look nowhere: zeros
        masked = graph.op("Where", mask, scores, graph.constant(LOWEST, "lowest"), name="masked")
        pattern = graph.op("Softmax", masked, axis=-1)
        pattern = graph.op("Where", mask, pattern, graph.constant(0.0, "zero"), name="pattern")
    return graph.op("MatMul", pattern, v)


def mask_of(graph: Graph, node: Any, q: str, k: str) -> str | None:
    """The whole mask of an attention, T x S of what comes: in the structure it is of the size of the example."""
    mask = as_mask(node.keywords.get("mask"))
    parts = [] if mask.dense is None else [graph.named(mask.dense)]
    if mask.keep is not None:
        keep = graph.named(mask.keep)
        axes = graph.constant((1, 2), "axes")
        parts.append(graph.once(("keep", keep), lambda: graph.op("Unsqueeze", keep, axes, name="keep")))
    if mask.by_place:
        t, s = places(graph, node.x.q.shape[1], q, -2), places(graph, node.x.k.shape[1], k, -1)
        settings = (mask.causal, mask.window, mask.global_tokens)
        parts.append(graph.once(("by place", t, s, *settings), lambda: seen_by_place(graph, mask, t, s)))
    if len(parts) < 2:
        return parts[0] if parts else None
    return graph.once(tuple(parts), lambda: reduce(lambda a, b: graph.op("And", a, b, name="mask"), parts))


def seen_by_place(graph: Graph, mask: Mask, t: str, s: str) -> str:
    """Mask.allows."""
    t, seen = graph.op("Unsqueeze", t, graph.constant((1,), "axes")), list[str]()
    if mask.window is not None:
        distance = graph.op("Abs", graph.op("Sub", t, s), name="distance")
        near = graph.op("Less", distance, graph.constant(mask.window, "window"), name="near")
        if mask.global_tokens:
            first = graph.constant(mask.global_tokens, "global_tokens")
            for place in (t, s):
                near = graph.op("Or", near, graph.op("Less", place, first), name="near")
        seen.append(near)
    if mask.causal:
        seen.append(graph.op("LessOrEqual", s, t, name="causal"))
    return seen[0] if len(seen) == 1 else graph.op("And", *seen, name="seen")


@register.onnx(layers.MultiHeadAttention)
def multi_head_attention(graph: Graph, node: Node, x: Any) -> str:
    layer: Any = node.layer
    weights, (heads,) = node.params, node.parts
    alone = layer.heads == 1 and x.bias is None and node.keywords.get("mask") is None
    if alone and isinstance(layer.attend.plain, layers.Attention):  # no axis of its own: a tenth faster
        q, k, v = projected(graph, node, x)
        joined = attend(graph, heads, q, graph.op("Transpose", k, perm=(0, 2, 1)), v)
    else:
        q, k, v = split(graph, node, x)
        z = graph.layer(heads, (q, k, v, x.bias))
        joined = reshape(graph, z, SAME, SAME, layer.joined, name="joined")
    return joined if weights.w_o is None else project(graph, joined, weights.w_o, weights.b_o)


@register.onnx(layers.GroupedQueryAttention)
def grouped_query_attention(graph: Graph, node: Node, x: Any) -> str:
    layer: Any = node.layer
    weights, (*before, heads) = node.params, node.parts
    q, k, v = split(graph, node, x)
    for of_q, of_k in zip(before[::2], before[1::2], strict=True):  # norms, rotary positions
        q, k = graph.layer(of_q, q), graph.layer(of_k, k)
    if layer.heads > layer.key_heads:
        of_group = graph.constant(np.repeat(np.arange(layer.key_heads), layer.heads // layer.key_heads), "of_group")
        k, v = (graph.op("Gather", shared, of_group, axis=2) for shared in (k, v))
    z = graph.layer(heads, (q, k, v, x.bias))
    return project(
        graph, reshape(graph, z, SAME, SAME, layer.heads * layer.per_head, name="joined"), weights.w_o, weights.b_o
    )


def projected(graph: Graph, node: Node, x: Any) -> list[str]:
    """q, k and v, the heads side by side."""
    weights = node.params
    return [
        project(graph, x.query, weights.w_q, weights.b_q, "q"),
        project(graph, x.memory, weights.w_k, weights.b_k, "k"),
        project(graph, x.memory, weights.w_v, weights.b_v, "v"),
    ]


def split(graph: Graph, node: Node, x: Any) -> list[str]:
    """q, k and v, each (B, T, heads, D)."""
    D = node.parts[-1].y.shape[-1]
    return [reshape(graph, given, SAME, SAME, -1, D, name="heads") for given in projected(graph, node, x)]


def places(graph: Graph, tokens: int, x: str, axis: int = 1) -> str:
    """0 … T-1, once for all layers that read sequences of this length."""

    def make() -> str:
        length = graph.op("Gather", graph.op("Shape", x), graph.constant(axis, "axis"), name="tokens")
        return graph.op("Range", graph.constant(0, "first"), length, graph.constant(1, "one"), name="places")

    return graph.once(("places", tokens), make)


@register.onnx(layers.Rotary)
def rotary(graph: Graph, node: Node, x: str) -> str:
    layer: Any = node.layer
    return rotated(graph, node, x, frequencies(layer.base, node.x.shape[-1], np.float32))


@register.onnx(layers.ScaledRotary)
def scaled_rotary(graph: Graph, node: Node, x: str) -> str:
    layer: Any = node.layer
    if isinstance(layer.scaling, DynamicScaling):
        raise EngineError(f"ONNX export has no rotary positions that depend on the length of a text yet ({node.name})")
    pairs = layer.scaling.frequencies(layer.base, node.x.shape[-1], None, np.float32)
    y = rotated(graph, node, x, pairs)
    return y if layer.scale == 1 else graph.op("Mul", y, graph.constant(layer.scale, "scale"), name="y")


def rotated(graph: Graph, node: Node, x: str, pairs: Any) -> str:
    if node.keywords.get("offset") is not None:
        raise EngineError(f"ONNX export has no rotary positions with an offset yet ({node.name})")
    place = places(graph, node.x.shape[1], x)
    pairs = np.asarray(pairs)

    def angle() -> str:
        frequency = graph.constant(pairs, "frequency")
        column = graph.op("Unsqueeze", graph.op("Cast", place, to=1), graph.constant((1, 2), "axes"))
        return graph.op("Mul", column, frequency, name="angle")

    angles = graph.once(("angle", place, *pairs.tolist()), angle)
    cos, sin = (graph.once((wave, angles), lambda wave=wave: graph.op(wave, angles)) for wave in ("Cos", "Sin"))
    a, b = graph.op("Split", x, name="half", outputs=2, axis=-1, num_outputs=2)
    first = graph.op("Sub", graph.op("Mul", a, cos), graph.op("Mul", b, sin))
    second = graph.op("Add", graph.op("Mul", b, cos), graph.op("Mul", a, sin))
    return graph.op("Concat", first, second, axis=-1, name="y")


@register.onnx(layers.MeanPool)
def mean_pool(graph: Graph, node: Node, x: str) -> str:
    return graph.op("ReduceMean", x, graph.constant((1,), "axes"), name="y", keepdims=0)


@register.onnx(layers.FirstToken)
def first_token(graph: Graph, node: Node, x: str) -> str:
    return graph.op("Gather", x, graph.constant(0, "first"), name="y", axis=1)


@register.onnx(SpanHead)
def span_head(graph: Graph, node: Node, x: str) -> str:
    (score,) = node.parts
    return graph.op("Transpose", graph.layer(score, x), name="spans", perm=(0, 2, 1))


@register.onnx(layers.MaskedMeanPool)
def masked_mean_pool(graph: Graph, node: Node, x: str) -> str:
    if node.keywords.get("keep") is None:
        return mean_pool(graph, node, x)
    counts = graph.op("Cast", graph.named(node.keywords["keep"]), to=1)  # TensorProto.FLOAT
    axis = graph.constant((1,), "axes")
    total = graph.op("Max", graph.op("ReduceSum", counts, axis, keepdims=1), graph.constant(1.0, "one"))
    share = graph.op("Unsqueeze", graph.op("Div", counts, total, name="share"), axis)
    return graph.op("Squeeze", graph.op("MatMul", share, x), axis, name="y")


@register.onnx(layers.UnitNorm)
def unit_norm(graph: Graph, node: Node, x: str) -> str:
    layer: Any = node.layer
    squares = graph.op("ReduceSum", graph.op("Mul", x, x), graph.constant((-1,), "axes"), keepdims=1)
    length = graph.op("Sqrt", graph.op("Add", squares, graph.constant(layer.eps, "eps")))
    return graph.op("Div", x, length, name="y")
