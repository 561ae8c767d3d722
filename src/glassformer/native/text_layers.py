"""How the layers of text models are computed in C, beside those that images have too (layers.py)."""

from typing import Any

from glassformer import layers
from glassformer.errors import EngineError
from glassformer.layers.tied_head import Inputs
from glassformer.models.bert_heads import SpanHead
from glassformer.native import attention_layers  # noqa: F401  -- registers attention
from glassformer.native.kernels import lower
from glassformer.native.layers import Lowered, apart, project
from glassformer.native.plan import HEAD_TOKENS, TABLE_PIECE, Backward, Buffer, Call, Param, Plan
from glassformer.registry import register
from glassformer.structure import Node, Value

HEAD_ROWS = 32  # tokens of a product: c/head_loss.h


@register.kernel(layers.Embedding)
def embedding(plan: Plan, node: Node, x: Buffer | Value) -> Lowered:
    layer: Any = node.layer
    table = plan.param(node.params.emb)
    y = plan.buffer(f"{node.name}.y", plan.samples, *node.y.shape[1:])
    if isinstance(x, Value):
        must_be_zeros(node, x)
        plan.call("embedding_same_forward", "embedding", (y,), (table,), (y.rows, layer.width))
    else:
        plan.call("embedding_forward", "embedding", (y,), (table, x), (y.rows, layer.vocabulary, layer.width))

    def backward(dy: Buffer, into: Any) -> None:
        d = plan.gradient(table)
        if isinstance(x, Value):
            plan.call("embedding_same_backward", "embedding", (d,), (dy,), (y.rows, layer.width))
        else:
            plan.call("embedding_backward", "embedding", (d,), (x, dy), (y.rows, layer.vocabulary, layer.width))

    return y, backward


def must_be_zeros(node: Node, ids: Value) -> None:
    """Ids that the model itself makes: all of kind 0."""
    made = ids.origin
    if made is None or made.primitive != "broadcast_in_dim" or made.read[0].literal != 0:
        raise EngineError(f"the native engine has ids that come in, and none that are computed ({node.name})")


@register.kernel(layers.CountedPositions, keywords=("keep",))
def counted_positions(plan: Plan, node: Node, x: Buffer) -> Lowered:
    layer: Any = node.layer
    pos, keep = plan.param(node.params.pos), node.keywords.get("keep")
    unseen = None if keep is None else plan.values[keep]
    sizes = (*x.shape, layer.first, 0 if unseen is None else unseen.shape[-1])
    y = plan.buffer(f"{node.name}.y", *x.shape, over=x)
    plan.call("counted_positions_forward", "positions", (y,), (pos, x, unseen), sizes)

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        plan.call("counted_positions_backward", "positions", (plan.gradient(pos),), (dy, unseen), sizes)
        return dy

    return y, backward


@register.kernel(layers.RMSNorm)
def rms_norm(plan: Plan, node: Node, x: Buffer) -> Lowered:
    layer: Any = node.layer
    gain = plan.param(node.params.gain)
    y, xhat = plan.buffer(f"{node.name}.y", *x.shape), plan.buffer(f"{node.name}.xhat", *x.shape)
    rms_inv = plan.buffer(f"{node.name}.rms_inv", x.rows)
    plan.call("rms_norm_forward", "rms_norm", (y, xhat, rms_inv), (gain, x), (x.rows, x.width, layer.eps))

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        into = apart(into, dy)
        dx = into or plan.gradient(x)
        sizes = (x.rows, x.width, int(into is not None))
        plan.call("rms_norm_backward", "rms_norm", (dx, plan.gradient(gain)), (gain, xhat, rms_inv, dy), sizes)
        return dx

    return y, backward


@register.kernel(layers.HeadNorm)
def head_norm(plan: Plan, node: Node, x: Buffer) -> Lowered:
    """Over the last axis, which is one head's."""
    return rms_norm(plan, node, x)


@register.kernel(layers.SiLU)
def silu(plan: Plan, node: Node, x: Buffer) -> Lowered:
    size = (x.rows * x.width,)
    y = plan.buffer(f"{node.name}.y", *x.shape)
    plan.call("silu_forward", "silu", (y,), (x,), size)

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        dx = plan.gradient(x, over=dy)
        plan.call("silu_backward", "silu", (dx,), (x, dy), size)
        return dx

    return y, backward


@register.kernel(layers.Tanh)
def tanh(plan: Plan, node: Node, x: Buffer) -> Lowered:
    size = (x.rows * x.width,)
    y = plan.buffer(f"{node.name}.y", *x.shape, over=x)
    plan.call("tanh_forward", "tanh", (y,), (x,), size)

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        dx = plan.gradient(x, over=dy)
        plan.call("tanh_backward", "tanh", (dx,), (y, dy), size)
        return dx

    return y, backward


@register.kernel(layers.GatedFeedForward)
def gated_feed_forward(plan: Plan, node: Node, x: Buffer) -> Lowered:
    name, weights = node.name, node.params
    (activation,) = node.parts
    shape = (*x.shape[:-1], weights.w_up.shape[1])
    gate_pre, up, hidden = (plan.buffer(f"{name}.{part}", *shape) for part in ("gate_pre", "up", "hidden"))
    to_gate = project(plan, weights.w_gate, weights.b_gate, gate_pre, x)
    gate, to_gate_pre = lower(plan, activation, gate_pre)  # pyright: ignore[reportArgumentType]
    to_up = project(plan, weights.w_up, weights.b_up, up, x)
    size = (hidden.rows * hidden.width,)
    plan.call("gated_forward", "gated", (hidden,), (gate, up), size)
    y = plan.buffer(f"{name}.y", *x.shape)
    down = project(plan, weights.w_down, weights.b_down, y, hidden)

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        dhidden = down(dy, None)
        dgate, dup = plan.gradient(gate), plan.gradient(up, over=dhidden)
        plan.call("gated_backward", "gated", (dgate, dup), (gate, up, dhidden), size)
        dx = to_up(dup, into)
        return to_gate(to_gate_pre(dgate, None), dx)

    return y, backward


@register.kernel(layers.TiedHead)
def tied_head(plan: Plan, node: Node, x: Inputs) -> Lowered:
    layer: Any = node.layer
    if layer.scale != 1:
        raise EngineError(f"the native engine has no TiedHead with a scale yet ({node.name})")
    given: Any = x.x
    table: Any = x.emb
    bias = plan.param(None if node.params is None else node.params.b)
    sizes = (given.rows, given.width, layer.vocabulary)
    logits = plan.buffer(f"{node.name}.logits", *given.shape[:-1], layer.vocabulary)
    if node.y is plan.output and plan.is_large_table(table.name):
        return logits, head_and_loss(plan, node.name, table, bias, given, sizes)
    work = plan.buffer(f"{node.name}.work", given.width, "SOURCES(1)")
    plan.call("tied_head_forward", "tied_head", (logits, work), (table, bias, given), sizes)

    def backward(dy: Buffer, into: Any) -> Inputs:
        dx = plan.gradient(given)
        plan.call("tied_head_backward_x", "tied_head", (dx,), (table, dy), sizes)
        writes = (plan.gradient(table), plan.gradient(bias))
        plan.call("tied_head_backward_emb", "tied_head", writes, (given, dy), sizes)
        return Inputs(x=dx, emb=None)  # pyright: ignore[reportArgumentType]  -- added where the table's gradient lies

    return logits, backward


def head_and_loss(
    plan: Plan, name: str, table: Param, bias: Param | None, x: Buffer, sizes: tuple[int, int, int]
) -> Backward:
    """By pieces of the vocabulary: the logits are no place in memory."""
    filled = -(-x.rows // HEAD_ROWS) * HEAD_ROWS
    tokens, facts = plan.buffer(f"{name}.tokens", filled, x.width), plan.buffer(f"{name}.facts", 4, filled)

    def backward(dy: Buffer, into: Any) -> Inputs:
        dx, work = plan.gradient(x), plan.buffer(f"{name}.work", head_work(x.width))
        plan.loss = Call("head_loss", "head_loss", (dx, tokens, facts, work), (table, bias, x), sizes)
        writes = (plan.gradient(table), plan.gradient(bias))
        plan.call("head_loss_backward", "head_loss", writes, (table, bias, tokens, facts), sizes)
        return Inputs(x=dx, emb=None)  # pyright: ignore[reportArgumentType]  -- added where the table's gradient lies

    return backward


def head_work(width: int) -> int:
    """Floats: a piece of the table transposed, logits, the tokens' gradients, what is known of them, a sum of rows."""
    return (width + HEAD_ROWS) * TABLE_PIECE + HEAD_TOKENS * (width + 4) + width


@register.kernel(SpanHead)
def span_head(plan: Plan, node: Node, x: Buffer) -> Lowered:
    (score,) = node.parts
    scores, to_x = lower(plan, score, x)  # pyright: ignore[reportArgumentType]
    B, T, K = map(int, scores.shape)
    y = plan.buffer(f"{node.name}.spans", B, K, T)
    plan.call("tokens_last", "span_head", (y,), (scores,), (B, T, K))

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        dscores = plan.gradient(scores)
        plan.call("tokens_last", "span_head", (dscores,), (dy,), (B, K, T))
        return to_x(dscores, into)

    return y, backward
