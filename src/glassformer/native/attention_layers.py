"""How attention is computed in C: all scores of a sample at once (images), or by rows of tiles (texts, any mask)."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from glassformer import layers
from glassformer.errors import EngineError
from glassformer.layers.masks import as_mask
from glassformer.native.kernels import lower
from glassformer.native.layers import Lowered, project
from glassformer.native.plan import Backward, Buffer, Plan
from glassformer.registry import register
from glassformer.structure import Node

ATTENTION_ROWS = 32  # tokens whose scores are there at a time: c/tiled_attention.h

# (q, k, v, z) -> (dz -> dq, dk, dv): writes down how z is computed, and returns how gradients are.
Attend = Callable[[Buffer, Buffer, Buffer, Buffer], Callable[[Buffer], tuple[Buffer, Buffer, Buffer]]]


@register.kernel(layers.SelfAttention, keywords=("mask",))
def self_attention(plan: Plan, node: Node, x: Buffer) -> Lowered:
    if plan.input.is_words or node.keywords.get("mask") is not None:
        return tiled_attention(plan, node, x, causal=False)
    B, T, H, D, scale = heads_of(node, x)
    name, sizes = node.name, (B, T, T, H, D, scale)
    if node.layer.multi_head.attend.plain.dropout:  # pyright: ignore[reportAttributeAccessIssue]
        raise EngineError(f"the native engine has no Dropout yet ({name}.drop)")

    def attend(q: Buffer, k: Buffer, v: Buffer, z: Buffer) -> Any:
        pattern = plan.buffer(f"{name}.pattern", B, H, T, f"PADDED({T})")
        work = plan.buffer(f"{name}.transposed", D, f"PADDED({T})")
        plan.call("attention_forward", "attention", (z, pattern, work), (q, k, v), sizes)

        def backward(dz: Buffer) -> tuple[Buffer, Buffer, Buffer]:
            dq, dk, dv = (plan.gradient(part) for part in (q, k, v))
            transposed = plan.buffer(f"{name}.transposed_v", D, f"PADDED({T})")
            dscores = plan.buffer(f"d{name}.scores", T, f"PADDED({T})")
            writes = (dq, dk, dv, transposed, dscores)
            plan.call("attention_backward", "attention", writes, (q, k, v, pattern, dz), sizes)
            return dq, dk, dv

        return backward

    return projected_attention(plan, node, x, attend)


def heads_of(node: Node, x: Buffer) -> tuple[int, int, int, int, float]:
    """B, T, H, D, and what scores are multiplied by."""
    heads: Any = node.layer.multi_head  # pyright: ignore[reportAttributeAccessIssue]
    if not isinstance(heads, layers.MultiHeadAttention) or heads.head_width is not None:
        raise EngineError(f"C has heads of width C / H, with keys of their own, only ({node.name})")
    scale = scale_of(heads, "C", node.name)
    B, T, C = map(int, x.shape)
    D = C // heads.heads
    return B, T, heads.heads, D, D**-0.5 if scale is None else scale


def scale_of(heads: layers.MultiHeadAttention, what: str, name: str) -> float | None:
    """Of plain attention; other ways are computed plainly where that gives the same numbers."""
    attend = heads.attend.plain
    if not isinstance(attend, layers.Attention):
        raise EngineError(f"{what} has no {attend.called} yet ({name})")
    if attend.scale is not None and attend.scale <= 0:
        raise EngineError(f"{what} has attention with a scale above 0 only ({name})")
    return attend.scale


def projected_attention(plan: Plan, node: Node, x: Buffer, attend: Attend) -> Lowered:
    """What stands around attention: queries, keys and values, and the output projection."""
    name, weights = node.name, node.params
    q, k, v, z = (plan.buffer(f"{name}.{part}", *x.shape) for part in ("q", "k", "v", "z"))
    to_q = project(plan, weights.w_q, weights.b_q, q, x)
    to_k = project(plan, weights.w_k, weights.b_k, k, x)
    to_v = project(plan, weights.w_v, weights.b_v, v, x)
    attend_backward = attend(q, k, v, z)
    y, to_y = z, None
    if weights.w_o is not None:
        y = plan.buffer(f"{name}.y", *x.shape)
        to_y = project(plan, weights.w_o, weights.b_o, y, z)

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        dq, dk, dv = attend_backward(to_y(dy, None) if to_y else dy)
        dx = to_q(dq, into)
        to_k(dk, dx)
        return to_v(dv, dx)

    return y, backward


@register.kernel(layers.CausalSelfAttention, keywords=("mask",))
def causal_self_attention(plan: Plan, node: Node, x: Buffer) -> Lowered:
    return tiled_attention(plan, node, x, causal=True)


def tiled_attention(plan: Plan, node: Node, x: Buffer, *, causal: bool) -> Lowered:
    """Queries, keys and values, with their norms and rotary positions; tiles; the output projection."""
    name, weights, heads = node.name, node.params, node.layer.multi_head  # pyright: ignore[reportAttributeAccessIssue]
    B, T, _ = map(int, x.shape)
    H, J = heads.heads, getattr(heads, "key_heads", heads.heads)
    A, E = weights.w_q.shape[1], weights.w_k.shape[1]
    D, (unseen, window) = A // H, seen_of(plan, node)
    scale = scale_of(heads, "the native engine", name)
    keys, drops = drops_of(plan, node, heads.attend.plain.dropout)
    sizes = (B, T, H, J, D, int(causal), window, D**-0.5 if scale is None else scale, *drops)
    q, to_q = projected(plan, node, "q", x, A)
    k, to_k = projected(plan, node, "k", x, E)
    v, to_v = projected(plan, node, "v", x, E)
    z, log_sum = plan.buffer(f"{name}.z", B, T, A), plan.buffer(f"{name}.log_sum", B, H, T)
    work = plan.buffer(f"{name}.work", D + ATTENTION_ROWS, f"SOURCES({T})")
    plan.call("tiled_attention_forward", "tiled_attention", (z, log_sum, work), (q, k, v, unseen, keys), sizes)
    y, to_y = z, None
    if weights.w_o is not None:
        y = plan.buffer(f"{name}.y", *x.shape)
        to_y = project(plan, weights.w_o, weights.b_o, y, z)

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        dz = to_y(dy, None) if to_y else dy
        dq, dk, dv = (plan.gradient(part) for part in (q, k, v))
        work = plan.buffer(f"d{name}.work", 2, D + ATTENTION_ROWS, f"SOURCES({T})")
        reads = (q, k, v, log_sum, dz, unseen, keys)
        plan.call("tiled_attention_backward", "tiled_attention", (dq, dk, dv, work), reads, sizes)
        dx = to_q(dq, into)
        to_k(dk, dx)
        return to_v(dv, dx)

    return y, backward


def projected(plan: Plan, node: Node, part: str, x: Buffer, width: int) -> tuple[Buffer, Backward]:
    """q, k or v of all heads, and through what stands behind it: the norm of its heads, rotary positions."""
    B, T, _ = map(int, x.shape)
    made = plan.buffer(f"{node.name}.{part}", B, T, width)
    ways = [project(plan, getattr(node.params, f"w_{part}"), getattr(node.params, f"b_{part}"), made, x)]
    inner: Any = node.parts[0]
    for step in inner.parts:
        if step.name in (f"{node.name}.norm_{part}", f"{node.name}.rotary_{part}"):
            D = step.x.shape[-1]
            heads, back = lower(plan, step, plan.view(made, B, T, width // D, D))
            made = plan.view(heads, B, T, width)
            ways.append(back)

    def backward(d: Buffer, into: Buffer | None) -> Buffer:
        for back in reversed(ways[1:]):
            d = back(d, None)
        return ways[0](d, into)

    return made, backward


@register.kernel(layers.Rotary)
@register.kernel(layers.ScaledRotary)
def rotary(plan: Plan, node: Node, x: Buffer) -> Lowered:
    layer: Any = node.layer
    if layer.by_length:
        raise EngineError(
            f"the native engine has rotary positions that do not change with the length only ({node.name})"
        )
    _, T, _, D = sizes = tuple(map(int, x.shape))
    # what becomes of (1, 0) is (cosine, sine)
    unit = jnp.concatenate([jnp.ones((1, T, 1, D // 2)), jnp.zeros((1, T, 1, D // 2))], axis=-1)
    cosine, sine = jnp.split(layer.forward(None, unit)[0], 2, axis=-1)
    table = plan.constant(f"{node.name}.cosine", cosine), plan.constant(f"{node.name}.sine", sine)
    y = plan.buffer(f"{node.name}.y", *x.shape, over=x)
    plan.call("rotary_turn", "rotary", (y,), (*table, x), (*sizes, 1.0))

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        dx = plan.gradient(x, over=dy)
        plan.call("rotary_turn", "rotary", (dx,), (*table, dy), (*sizes, -1.0))
        return dx

    return y, backward


def seen_of(plan: Plan, node: Node) -> tuple[Buffer | None, int]:
    """What the padding mask adds to scores, and how far a token sees; 0: everywhere."""
    mask = as_mask(node.keywords.get("mask"))
    if mask.global_tokens or mask.dense is not None or mask.offset is not None:
        what = "global tokens" if mask.global_tokens else "a mask of its own"
        raise EngineError(f"the native engine has no attention with {what} yet ({node.name})")
    keep: Any = mask.keep
    return None if keep is None else plan.values[keep], mask.window or 0


def drops_of(plan: Plan, node: Node, rate: float) -> tuple[Buffer | None, tuple[int, int, float]]:
    """The keys by which attention weights are dropped out: how many words they are, which of them, and the rate."""
    if not rate:
        return None, (0, 0, 0.0)
    if plan.keys is None:
        raise EngineError(f"the native engine has Dropout in models of texts only ({node.name}.drop)")
    keys = plan.keys.buffer
    return keys, (keys.width, plan.keys.layers.index(f"{node.name}.drop"), rate)
