"""How each layer is computed in C: one entry per layer, which writes down its forward call and returns its backward.

An entry is given the plan, the layer's node in the model's structure, and its input; it returns its output and a
function from dy to dx that writes down the backward call, as the layer's own `forward` and `backward` do. A new layer
needs its kernel in `c/` and an entry here.
"""

from dataclasses import dataclass
from typing import Any

from glassformer import layers
from glassformer.errors import EngineError
from glassformer.native.kernels import lower
from glassformer.native.plan import Backward, Buffer, Constant, Input, Plan
from glassformer.registry import register
from glassformer.structure import Node, Value

Lowered = tuple[Buffer, Backward]


@register.kernel(layers.Standardise, reads_input=True)
def standardise(plan: Plan, node: Node, x: Input | Buffer) -> Lowered:
    if isinstance(x, Buffer) or not x.is_bytes:
        raise EngineError(f"the native engine has Standardise of bytes only ({node.name})")
    layer: Any = node.layer
    y = plan.buffer(f"{node.name}.y", plan.samples, *x.shape)
    plan.call("standardise_forward", "standardise", (y,), (x,), (x.size, layer.factor, layer.mean / layer.std))
    return y, no_gradient(node)


@register.kernel(layers.StandardiseColumns)
def standardise_columns(plan: Plan, node: Node, x: Buffer) -> Lowered:
    layer: Any = node.layer
    if node.y is node.x:  # neither mean nor std
        return x, lambda dy, into: dy
    factors = Constant(f"{node.name}.factor", tuple(1 / std for std in layer.std or (1.0,) * x.width))
    offsets = Constant(f"{node.name}.offset", tuple(map(float, layer.mean or (0.0,) * x.width)))
    y = plan.buffer(f"{node.name}.y", *x.shape, over=x)
    plan.call("standardise_columns_forward", "standardise_columns", (y,), (factors, offsets, x), (x.rows, x.width))

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        dx = plan.gradient(x, over=dy)
        plan.call("standardise_columns_backward", "standardise_columns", (dx,), (factors, dy), (x.rows, x.width))
        return dx

    return y, backward


@register.kernel(layers.Reshape)
def reshape(plan: Plan, node: Node, x: Buffer) -> Lowered:
    layer: Any = node.layer
    return plan.view(x, plan.samples, *layer.shape), lambda dy, into: plan.view(dy, *x.shape)


@register.kernel(layers.Dropout)
def dropout(plan: Plan, node: Node, x: Buffer) -> Lowered:
    layer: Any = node.layer
    if not layer.rate:
        return x, lambda dy, into: dy
    if plan.keys is None:
        raise EngineError(f"the native engine has Dropout in models of texts only ({node.name})")
    keys, number, words = plan.keys.buffer, plan.keys.layers.index(node.name), plan.keys.buffer.width
    sizes = (plan.samples, x.rows // plan.samples * x.width, words, number, layer.rate)
    y = plan.buffer(f"{node.name}.y", *x.shape, over=x)
    plan.call("dropout_apply", "dropout", (y,), (keys, x), sizes)

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        dx = plan.gradient(x)  # not in place: in a residual, dy is the stream's gradient too
        plan.call("dropout_apply", "dropout", (dx,), (keys, dy), sizes)
        return dx

    return y, backward


def project(plan: Plan, w: Value, b: Value | None, y: Buffer, x: Buffer) -> Backward:
    """y = x @ w + b."""
    weight, bias = plan.param(w), plan.param(b)
    sizes = (x.rows, *w.shape)
    plan.call("linear_forward", "linear", (y,), (weight, bias, x), sizes)
    thin = project_beside(plan, w, y, x)

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        into = apart(into, dy)
        dx = into or plan.gradient(x)
        reads = (plan.transpose_of(weight), dy)
        plan.call("linear_backward_x", "linear", (dx,), reads, (*sizes, int(into is not None)))
        plan.call("linear_backward_w", "linear", (plan.gradient(weight), plan.gradient(bias)), (x, dy), sizes)
        return thin(dy, dx)

    return backward


def project_beside(plan: Plan, w: Value, y: Buffer, x: Buffer) -> Backward:
    """y += scale * x @ a @ b, where thin matrices are trained beside w."""
    beside, (I, O), N = plan.beside(w), w.shape, x.rows  # noqa: E741  -- axis letters
    if beside is None or plan.adapter is None:
        return lambda dy, into: into
    (a, b), R, scale = beside, plan.adapter.rank, plan.adapter.scale
    hidden = plan.buffer(f"{a.name}.hidden", N, R)
    plan.call("lora_thin", "lora", (hidden,), (a, x), (N, I, R, scale))
    plan.call("lora_add", "lora", (y,), (b, hidden), (N, R, O))

    def backward(dy: Buffer, into: Buffer) -> Buffer:
        dhidden = plan.gradient(hidden)
        plan.call("lora_thin", "lora", (dhidden,), (plan.transpose_of(b), dy), (N, O, R, scale))
        plan.call("linear_backward_w", "linear", (plan.gradient(b), None), (hidden, dy), (N, R, O))
        plan.call("linear_backward_w", "linear", (plan.gradient(a), None), (x, dhidden), (N, I, R))
        plan.call("lora_add", "lora", (into,), (plan.transpose_of(a), dhidden), (N, R, I))
        return into

    return backward


def apart(into: Buffer | None, dy: Buffer) -> Buffer | None:
    """For kernels that still read dy when they have begun to write dx."""
    return None if into is None or into.root is dy.root else into


@register.kernel(layers.Linear)
def linear(plan: Plan, node: Node, x: Buffer) -> Lowered:
    y = plan.buffer(f"{node.name}.y", *x.shape[:-1], node.y.shape[-1])
    return y, project(plan, node.params.w, node.params.b, y, x)


@register.kernel(layers.Patches)
def patches(plan: Plan, node: Node, x: Buffer) -> Lowered:
    layer: Any = node.layer
    y = plan.buffer(f"{node.name}.y", plan.samples, layer.tokens, layer.values)
    plan.call("patches_forward", "patches", (y,), (x,), (plan.samples, *layer.image, layer.size))
    return y, no_gradient(node)


def no_gradient(node: Node) -> Backward:
    """Nobody asks for the gradient of the pixels; of what weights have made, they would."""

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        raise EngineError(f"the native engine has no backward of {type(node.layer).__name__} yet ({node.name})")

    return backward


@register.kernel(layers.ClassToken)
def class_token(plan: Plan, node: Node, x: Buffer) -> Lowered:
    B, T, C = x.shape
    token = plan.param(node.params.token)
    y = plan.buffer(f"{node.name}.y", B, int(T) + 1, C)
    plan.call("class_token_forward", "class_token", (y,), (token, x), x.shape)

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        dx = plan.gradient(x)
        plan.call("class_token_backward", "class_token", (dx, plan.gradient(token)), (dy,), x.shape)
        return dx

    return y, backward


@register.kernel(layers.Positions)
def positions(plan: Plan, node: Node, x: Buffer) -> Lowered:
    pos = plan.param(None if node.params is None else node.params.pos)
    if pos is None or plan.params[pos.name][0] < int(x.shape[1]):
        raise EngineError(f"the native engine has trained positions only ({node.name})")
    y = plan.buffer(f"{node.name}.y", *x.shape, over=x)
    plan.call("positions_forward", "positions", (y,), (pos, x), x.shape)

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        plan.call("positions_backward", "positions", (plan.gradient(pos),), (dy,), x.shape)
        return dy

    return y, backward


@register.kernel(layers.ReLU)
def relu(plan: Plan, node: Node, x: Buffer) -> Lowered:
    size = (x.rows * x.width,)
    y = plan.buffer(f"{node.name}.y", *x.shape, over=x)
    plan.call("relu_forward", "relu", (y,), (x,), size)

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        dx = plan.gradient(x, over=dy)
        plan.call("relu_backward", "relu", (dx,), (y, dy), size)  # y, not x: so y may take its place
        return dx

    return y, backward


@register.kernel(layers.GELU)
def gelu(plan: Plan, node: Node, x: Buffer) -> Lowered:
    size = (x.rows * x.width,)
    y = plan.buffer(f"{node.name}.y", *x.shape)
    plan.call("gelu_forward", "gelu", (y,), (x,), size)

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        dx = plan.gradient(x, over=dy)
        plan.call("gelu_backward", "gelu", (dx,), (x, dy), size)
        return dx

    return y, backward


@register.kernel(layers.GELUTanh)
def gelu_tanh(plan: Plan, node: Node, x: Buffer) -> Lowered:
    size = (x.rows * x.width,)
    y, gate = plan.buffer(f"{node.name}.y", *x.shape), plan.buffer(f"{node.name}.gate", *x.shape)
    plan.call("gelu_tanh_forward", "gelu_tanh", (y, gate), (x,), size)

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        dx = plan.gradient(x, over=dy)
        plan.call("gelu_tanh_backward", "gelu_tanh", (dx,), (gate, x, dy), size)
        return dx

    return y, backward


@register.kernel(layers.LayerNorm)
def layer_norm(plan: Plan, node: Node, x: Buffer) -> Lowered:
    layer: Any = node.layer
    gain, bias = plan.param(node.params.gain), plan.param(node.params.bias)
    y, xhat = plan.buffer(f"{node.name}.y", *x.shape), plan.buffer(f"{node.name}.xhat", *x.shape)
    std_inv = plan.buffer(f"{node.name}.std_inv", x.rows)
    plan.call("layer_norm_forward", "layer_norm", (y, xhat, std_inv), (gain, bias, x), (x.rows, layer.width, layer.eps))

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        into = apart(into, dy)
        dx = into or plan.gradient(x)
        writes = (dx, plan.gradient(gain), plan.gradient(bias))
        sizes = (x.rows, layer.width, int(into is not None))
        plan.call("layer_norm_backward", "layer_norm", writes, (gain, xhat, std_inv, dy), sizes)
        return dx

    return y, backward


@register.kernel(layers.FeedForward)
def feed_forward(plan: Plan, node: Node, x: Buffer) -> Lowered:
    hidden, to_hidden = feed_forward_up(plan, node, x)
    y = plan.buffer(f"{node.name}.y", *x.shape)
    down = project(plan, node.params.w_down, node.params.b_down, y, hidden)
    return y, lambda dy, into: to_hidden(down(dy, None), into)


def feed_forward_up(plan: Plan, node: Node, x: Buffer) -> Lowered:
    (activation,) = node.parts
    hidden_pre = plan.buffer(f"{node.name}.hidden_pre", *x.shape[:-1], node.params.w_up.shape[1])
    up = project(plan, node.params.w_up, node.params.b_up, hidden_pre, x)
    hidden, to_pre = lower(plan, activation, hidden_pre)  # pyright: ignore[reportArgumentType]
    return hidden, lambda dy, into: up(to_pre(dy, None), into)


@register.kernel(layers.MeanPool)
def mean_pool(plan: Plan, node: Node, x: Buffer) -> Lowered:
    return pool(plan, "mean_pool", node.name, x)


@register.kernel(layers.FirstToken)
def first_token(plan: Plan, node: Node, x: Buffer) -> Lowered:
    return pool(plan, "first_token", node.name, x)


def pool(plan: Plan, kernel: str, name: str, x: Buffer) -> Lowered:
    B, _, C = x.shape
    y = plan.buffer(f"{name}.y", B, C)
    plan.call(f"{kernel}_forward", kernel, (y,), (x,), x.shape)

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        dx = plan.gradient(x)
        plan.call(f"{kernel}_backward", kernel, (dx,), (dy,), x.shape)
        return dx

    return y, backward


def add(plan: Plan, y: Buffer, a: Buffer, b: Buffer) -> Buffer:
    """y = a + b."""
    plan.call("residual_forward", "residual", (y,), (a, b), (y.rows * y.width,))
    return y


@dataclass(frozen=True)
class PooledEarly:
    """Stands in a plan's graph for a layer and the mean pool behind it (`lower.py`): its parts are these two."""


def commutes(layer: Any) -> bool:
    """Whether the mean over tokens may be taken inside it: through sums, and before a last linear layer."""
    if isinstance(layer, layers.PreNorm | layers.Residual):
        return commutes(layer.inner)
    return isinstance(layer, layers.FeedForward)


@register.kernel(PooledEarly)
def pooled_early(plan: Plan, node: Node, x: Buffer) -> Lowered:
    inner, mean = node.parts
    return pooled(plan, inner, mean.name, x)  # pyright: ignore[reportArgumentType, reportAttributeAccessIssue]


def pooled(plan: Plan, node: Node, pool_name: str, x: Buffer) -> Lowered:
    """The mean commutes with sums and with linear layers: pool what comes before them, then add or project one token
    instead of all."""
    if isinstance(node.layer, layers.Residual):
        inner = node.parts[0]
        mean, past = pool(plan, "mean_pool", f"{node.name}.mean", x)
        change, to_x = pooled(plan, inner, pool_name, x)  # pyright: ignore[reportArgumentType]
        y = add(plan, plan.buffer(f"{node.name}.y", *mean.shape), mean, change)
        return y, lambda dy, into: to_x(dy, past(dy, None))
    if isinstance(node.layer, layers.PreNorm):
        norm, inner = node.parts
        h, to_x = lower(plan, norm, x)  # pyright: ignore[reportArgumentType]
        y, to_h = pooled(plan, inner, pool_name, h)  # pyright: ignore[reportArgumentType]
        return y, lambda dy, into: to_x(to_h(dy, None), into)
    hidden, up = feed_forward_up(plan, node, x)
    mean, unpool = pool(plan, "mean_pool", pool_name, hidden)
    y = plan.buffer(f"{node.name}.y", plan.samples, node.y.shape[-1])
    down = project(plan, node.params.w_down, node.params.b_down, y, mean)
    return y, lambda dy, into: up(unpool(down(dy, None), None), into)
