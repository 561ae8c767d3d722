"""How each layer is computed in C: one entry per layer, which writes down its forward call and returns its backward.

An entry is given the plan, the layer, its dotted name and its input; it returns its output and a function from dy to dx
that writes down the backward call, as the layer's own `forward` and `backward` do. A new layer needs its kernel in `c/`
and an entry here.
"""

from collections.abc import Callable
from typing import Any

from glassformer import layers, models
from glassformer.errors import EngineError
from glassformer.native.plan import Backward, Buffer, Param, Plan, gradient, params_of

Entry = Callable[[Plan, Any, str, Buffer], tuple[Buffer, Backward]]
ENTRIES: dict[type, Entry] = {}


def entry(layer: type) -> Callable[[Entry], Entry]:
    def register(function: Entry) -> Entry:
        ENTRIES[layer] = function
        return function

    return register


def plan_for(model: models.Model, samples: int, *, rewrites: bool = True, training: bool = True) -> Plan:
    """Everything the model computes for a group of samples: from bytes to logits, and back."""
    plan = Plan(samples, params_of(model), rewrites)
    prepare = model.images.prepare
    pixels = plan.buffer("prepare.y", samples, *model.images.shape)
    scale = (model.images.pixels, prepare.factor, prepare.mean / prepare.std)
    plan.call("standardise_forward", "standardise", (pixels,), (), scale)
    logits, backward = lower(plan, model, "", pixels)
    logits.name = "logits"
    if training:
        plan.backwards = True
        backward(plan.buffer("dlogits", *logits.shape))
    return plan


def lower(plan: Plan, layer: Any, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    """Write down what a layer computes."""
    if type(layer) not in ENTRIES:
        raise EngineError(f"the native engine has no {type(layer).__name__} yet ({name})")
    return ENTRIES[type(layer)](plan, layer, name, x)


def project(plan: Plan, w: str, b: str, y: Buffer, x: Buffer) -> Backward:
    """y = x @ w + b, by the names of the weights."""
    weight, bias = Param(w), plan.param(b)
    inputs, outputs = plan.params[w]
    sizes = (x.rows, inputs, outputs)
    plan.call("linear_forward", "linear", (y,), (weight, bias, x), sizes)

    def backward(dy: Buffer, into: Buffer | None = None, *, wanted: bool = True) -> Buffer:
        dx = into or plan.buffer(f"d{x.name}", *x.shape)
        if wanted:
            reads = (plan.transpose_of(weight), dy)
            plan.call("linear_backward_x", "linear", (dx,), reads, (*sizes, int(into is not None)))
        plan.call("linear_backward_w", "linear", (gradient(weight), gradient(bias)), (x, dy), sizes)
        return dx

    return backward


@entry(layers.Linear)
def linear(plan: Plan, layer: layers.Linear, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    y = plan.buffer(f"{name}.y", *x.shape[:-1], layer.outputs)
    return y, project(plan, f"{name}.w", f"{name}.b", y, x)


@entry(layers.Patches)
def patches(plan: Plan, layer: layers.Patches, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    y = plan.buffer(f"{name}.y", plan.samples, layer.tokens, layer.values)
    plan.call("patches_forward", "patches", (y,), (x,), (plan.samples, *layer.image, layer.size))
    return y, first_layer


@entry(layers.ClassToken)
def class_token(plan: Plan, layer: layers.ClassToken, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    B, T, C = x.shape
    token = Param(f"{name}.token")
    y = plan.buffer(f"{name}.y", B, int(T) + 1, C)
    plan.call("class_token_forward", "class_token", (y,), (token, x), x.shape)

    def backward(dy: Buffer) -> Buffer:
        dx = plan.buffer(f"d{x.name}", *x.shape)
        plan.call("class_token_backward", "class_token", (dx, gradient(token)), (dy,), x.shape)
        return dx

    return y, backward


@entry(layers.Positions)
def positions(plan: Plan, layer: layers.Positions, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    pos = plan.param(f"{name}.pos")
    if pos is None or plan.params[pos.name][0] != x.shape[1]:
        raise EngineError(f"the native engine has trained positions of the sequence's own length only ({name})")
    plan.call("positions_forward", "positions", (x,), (pos, x), x.shape)  # in place: nothing needs x again

    def backward(dy: Buffer) -> Buffer:
        plan.call("positions_backward", "positions", (gradient(pos),), (dy,), x.shape)
        return dy

    return x, backward


@entry(layers.ReLU)
def relu(plan: Plan, layer: layers.ReLU, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    size = (x.rows * int(x.shape[-1]),)
    plan.call("relu_forward", "relu", (x,), (x,), size)  # in place: the gradient needs only y

    def backward(dy: Buffer) -> Buffer:
        plan.call("relu_backward", "relu", (dy,), (x, dy), size)
        return dy

    return x, backward


@entry(layers.GELU)
def gelu(plan: Plan, layer: layers.GELU, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    size = (x.rows * int(x.shape[-1]),)
    y = plan.buffer(f"{name}.y", *x.shape)
    plan.call("gelu_forward", "gelu", (y,), (x,), size)

    def backward(dy: Buffer) -> Buffer:
        plan.call("gelu_backward", "gelu", (dy,), (x, dy), size)
        return dy

    return y, backward


@entry(layers.GELUTanh)
def gelu_tanh(plan: Plan, layer: layers.GELUTanh, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    size = (x.rows * int(x.shape[-1]),)
    y, gate = plan.buffer(f"{name}.y", *x.shape), plan.buffer(f"{name}.gate", *x.shape)
    plan.call("gelu_tanh_forward", "gelu_tanh", (y, gate), (x,), size)

    def backward(dy: Buffer) -> Buffer:
        plan.call("gelu_tanh_backward", "gelu_tanh", (dy,), (gate, x, dy), size)
        return dy

    return y, backward


@entry(layers.LayerNorm)
def layer_norm(plan: Plan, layer: layers.LayerNorm, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    gain, bias = Param(f"{name}.gain"), Param(f"{name}.bias")
    y, xhat = plan.buffer(f"{name}.y", *x.shape), plan.buffer(f"{name}.xhat", *x.shape)
    std_inv = plan.buffer(f"{name}.std_inv", x.rows)
    plan.call("layer_norm_forward", "layer_norm", (y, xhat, std_inv), (gain, bias, x), (x.rows, layer.width, layer.eps))

    def backward(dy: Buffer, into: Buffer | None = None) -> Buffer:
        """With `into`, dx is added to it: the gradient that went past on the stream."""
        dx = into or plan.buffer(f"d{x.name}", *x.shape)
        writes = (dx, gradient(gain), gradient(bias))
        sizes = (x.rows, layer.width, int(into is not None))
        plan.call("layer_norm_backward", "layer_norm", writes, (gain, xhat, std_inv, dy), sizes)
        return dx

    return y, backward


@entry(layers.SelfAttention)
def self_attention(plan: Plan, layer: layers.SelfAttention, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    heads = layer.multi_head
    B, T, _ = x.shape
    if not isinstance(heads, layers.MultiHeadAttention) or heads.head_width is not None:
        raise EngineError(f"the native engine has heads of width C / H, with keys of their own, only ({name})")
    D = heads.width // heads.heads
    if heads.scale is not None and heads.scale <= 0:
        raise EngineError(f"the native engine has attention with a scale above 0 only ({name})")
    sizes = (B, T, T, heads.heads, D, D**-0.5 if heads.scale is None else heads.scale)
    q, k, v, z = (plan.buffer(f"{name}.{part}", *x.shape) for part in ("q", "k", "v", "z"))
    pattern = plan.buffer(f"{name}.pattern", B, heads.heads, T, f"PADDED({T})")
    work = plan.buffer(f"{name}.transposed", D, f"PADDED({T})")
    to_q, to_k, to_v = (
        project(plan, f"{name}.w_{part}", f"{name}.b_{part}", y, x) for part, y in (("q", q), ("k", k), ("v", v))
    )
    plan.call("attention_forward", "attention", (z, pattern, work), (q, k, v), sizes)
    y, to_y = z, None
    if heads.output:
        y = plan.buffer(f"{name}.y", *x.shape)
        to_y = project(plan, f"{name}.w_o", f"{name}.b_o", y, z)

    def backward(dy: Buffer, into: Buffer | None = None) -> Buffer:
        dz = to_y(dy) if to_y else dy
        dq, dk, dv = (plan.buffer(f"d{part.name}", *x.shape) for part in (q, k, v))
        transposed = plan.buffer(f"{name}.transposed_v", D, f"PADDED({T})")
        dscores = plan.buffer(f"d{name}.scores", T, f"PADDED({T})")
        plan.call("attention_backward", "attention", (dq, dk, dv, transposed, dscores), (q, k, v, pattern, dz), sizes)
        dx = to_q(dq, into=into)
        to_k(dk, into=dx)
        return to_v(dv, into=dx)

    return y, backward


@entry(layers.FeedForward)
def feed_forward(plan: Plan, layer: layers.FeedForward, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    hidden, to_hidden = feed_forward_up(plan, layer, name, x)
    y = plan.buffer(f"{name}.y", *x.shape)
    down = project(plan, f"{name}.w_down", f"{name}.b_down", y, hidden)
    return y, lambda dy, into=None: to_hidden(down(dy), into=into)


def feed_forward_up(plan: Plan, layer: layers.FeedForward, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    hidden_pre = plan.buffer(f"{name}.hidden_pre", *x.shape[:-1], layer.hidden)
    up = project(plan, f"{name}.w_up", f"{name}.b_up", hidden_pre, x)
    hidden, activation = lower(plan, layer.activation, f"{name}.activation", hidden_pre)
    return hidden, lambda dy, into=None: up(activation(dy), into=into)


@entry(layers.PreNormBlock)
def pre_norm_block(plan: Plan, layer: layers.PreNormBlock, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    if layer.dropout.rate:
        raise EngineError(f"the native engine has no Dropout yet ({name})")
    size = (x.rows * int(x.shape[-1]),)
    h, norm1 = lower(plan, layer.norm, f"{name}.norm1", x)
    a, attn = lower(plan, layer.attn, f"{name}.attn", h)
    plan.call("residual_forward", "residual", (x,), (x, a), size)  # in place: the norms keep what they need of x
    h, norm2 = lower(plan, layer.norm, f"{name}.norm2", x)
    f, ff = lower(plan, layer.ff, f"{name}.ff", h)
    plan.call("residual_forward", "residual", (x,), (x, f), size)

    def backward(dy: Buffer) -> Buffer:
        norm2(ff(dy), into=dy)
        return norm1(attn(dy), into=dy)

    return x, backward


@entry(layers.PreNorm)
def pre_norm(plan: Plan, layer: layers.PreNorm, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    h, norm = lower(plan, layer.norm, f"{name}.norm", x)
    y, inner = lower(plan, layer.inner, f"{name}.inner", h)
    return y, lambda dy, into=None: norm(inner(dy), into=into)


@entry(layers.Residual)
def residual(plan: Plan, layer: layers.Residual, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    if not isinstance(layer.inner, layers.SelfAttention | layers.FeedForward | layers.PreNorm):
        raise EngineError(f"the native engine has no residual around {type(layer.inner).__name__} yet ({name})")
    change, inner = lower(plan, layer.inner, f"{name}.inner", x)
    y = plan.buffer(f"{name}.y", *x.shape)
    plan.call("residual_forward", "residual", (y,), (x, change), (x.rows * int(x.shape[-1]),))
    return y, lambda dy: inner(dy, into=dy)  # dy went past: what the layer finds is added to it


@entry(layers.MeanPool)
def mean_pool(plan: Plan, layer: layers.MeanPool, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    return pool(plan, "mean_pool", name, x)


@entry(layers.FirstToken)
def first_token(plan: Plan, layer: layers.FirstToken, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    return pool(plan, "first_token", name, x)


def pool(plan: Plan, kernel: str, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    B, _, C = x.shape
    y = plan.buffer(f"{name}.y", B, C)
    plan.call(f"{kernel}_forward", kernel, (y,), (x,), x.shape)

    def backward(dy: Buffer) -> Buffer:
        dx = plan.buffer(f"d{x.name}", *x.shape)
        plan.call(f"{kernel}_backward", kernel, (dx,), (dy,), x.shape)
        return dx

    return y, backward


@entry(models.PatchAttention)
@entry(models.PatchBlock)
def patch_attention(
    plan: Plan, model: models.PatchAttention | models.PatchBlock, name: str, x: Buffer
) -> tuple[Buffer, Backward]:
    x, _ = lower(plan, model.patches, "patches", x)
    x, patch = lower(plan, model.patch, "patch", x)
    x, positions = lower(plan, model.positions, "positions", x)
    x, relu = lower(plan, layers.ReLU(), "relu", x)
    x, attn = lower(plan, model.attn, "attn", x)
    x, ff = (pooled if plan.rewrites else then_pool)(plan, model.ff, "ff", x)
    logits, head = lower(plan, model.head, "head", x)
    return logits, lambda dy: patch(positions(relu(attn(ff(head(dy))))), wanted=False)


def then_pool(plan: Plan, layer: Any, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    x, backward = lower(plan, layer, name, x)
    y, pool = lower(plan, layers.MeanPool(), "pool", x)
    return y, lambda dy: backward(pool(dy))


def pooled(plan: Plan, layer: Any, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    """The mean commutes with sums and with linear layers: pool what comes before them, then add or project one token
    instead of all."""
    match layer:
        case layers.FeedForward():
            hidden, up = feed_forward_up(plan, layer, name, x)
            mean, pool = lower(plan, layers.MeanPool(), "pool", hidden)
            y = plan.buffer(f"{name}.y", plan.samples, layer.width)
            down = project(plan, f"{name}.w_down", f"{name}.b_down", y, mean)
            return y, lambda dy, into=None: up(pool(down(dy)), into=into)
        case layers.PreNorm():
            h, norm = lower(plan, layer.norm, f"{name}.norm", x)
            y, inner = pooled(plan, layer.inner, f"{name}.inner", h)
            return y, lambda dy, into=None: norm(inner(dy), into=into)
        case layers.Residual():
            mean, past = lower(plan, layers.MeanPool(), f"{name}.mean", x)
            change, inner = pooled(plan, layer.inner, f"{name}.inner", x)
            y = plan.buffer(f"{name}.y", *mean.shape)
            plan.call("residual_forward", "residual", (y,), (mean, change), (y.rows * int(y.shape[-1]),))
            return y, lambda dy: inner(dy, into=past(dy))
    raise EngineError(f"the native engine has no pooled {type(layer).__name__} yet ({name})")


@entry(models.ViT)
def vit(plan: Plan, model: models.ViT, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    backwards = []
    x, _ = lower(plan, model.patches, "patches", x)
    x, patch = lower(plan, model.patch, "patch", x)
    if model.with_class_token:
        x, class_token = lower(plan, model.class_token, "class_token", x)
        backwards.append(class_token)
    x, positions = lower(plan, model.positions, "positions", x)
    backwards.append(positions)
    for i in range(model.depth):
        x, block = lower(plan, model.block, f"blocks.{i}", x)
        backwards.append(block)
    x, norm = lower(plan, model.norm, "norm", x)
    x, pool = lower(plan, model.pool, "pool", x)
    logits, head = lower(plan, model.head, "head", x)

    def backward(dy: Buffer) -> Buffer:
        dx = norm(pool(head(dy)))
        for step in reversed(backwards):
            dx = step(dx)
        return patch(dx, wanted=False)

    return logits, backward


@entry(models.MLP)
def mlp(plan: Plan, model: models.MLP, name: str, x: Buffer) -> tuple[Buffer, Backward]:
    backwards: list[Backward] = []
    x.shape = (plan.samples, model.images.pixels)
    for i, layer in enumerate(model.layers):
        if i > 0:
            x, relu = lower(plan, layers.ReLU(), f"relu.{i - 1}", x)
            backwards.append(relu)
        x, linear = lower(plan, layer, f"layers.{i}", x)
        backwards.append(linear)

    def backward(dy: Buffer) -> Buffer:
        for step in reversed(backwards[1:]):
            dy = step(dy)
        return backwards[0](dy, wanted=False)

    return x, backward


def first_layer(dy: Buffer) -> Buffer:
    """Nobody asks for the gradient of the pixels."""
    raise AssertionError("the gradient of the pixels is not computed")
