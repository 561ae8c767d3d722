"""How each layer is computed on a device: one entry per layer, which writes down its steps.

An entry is given the program, the layer's node in the model's structure, and its input; it returns its output. A layer
without one, but with C of somebody's own for the native engine, is computed by that; any other by its parts.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax

from glassformer import layers
from glassformer.edge.steps import Adapter, Operand, Program, Row, Rows, Step, Turn, Weight, Whole
from glassformer.errors import EngineError
from glassformer.native.attention_layers import scale_of
from glassformer.native.kernels import kernel_for, lower, no_kernel
from glassformer.native.layers import PooledEarly
from glassformer.native.lower import input_of, params_of, pool_early
from glassformer.native.plan import Buffer, Constant, Input, Param, Plan
from glassformer.structure import Node, Sum, Value, structure

Entry = Callable[[Program, Node, Any], Rows]
ENTRIES: dict[type, Entry] = {}


def entry(layer: type) -> Callable[[Entry], Entry]:
    def add(function: Entry) -> Entry:
        ENTRIES[layer] = function
        return function

    return add


def program_of(model: Any, adapters: Mapping[str, Adapter] | None = None) -> Program:
    """The steps of a model; a layer that a device cannot compute is named."""
    program, graph = program_for(model, adapters or {}), structure(model)
    values: dict[Value, Any] = {graph.x: program.sample}
    walk(program, (graph,), values)
    if not isinstance(graph.y, Value) or len(graph.y.shape) != 2:
        raise EngineError(f"a device has models with one row of logits a sample, not {graph.y}")
    program.logits = values[graph.y]
    return program


def program_for(model: Any, adapters: Mapping[str, Adapter]) -> Program:
    """Without steps yet. Rows of an image are tokens, until it is cut into patches."""
    given = input_of(model)
    rows = given.shape[0] if given.is_bytes else 1
    sample = Rows("sample", rows, given.size // rows, c_type=given.c_type)
    return Program(given, params_of(model), sample, adapters=adapters)


def walk(program: Program, parts: Any, values: dict[Value, Any]) -> None:
    for part in parts:
        if isinstance(part, Sum):
            name = part.y.names[0] if part.y.names else "sum"
            values[part.y] = add(program, name, values[part.a], values[part.b])
        elif type(part.layer) in ENTRIES:
            x = jax.tree.map(lambda value: values.get(value, value), part.x)
            values[part.y] = ENTRIES[type(part.layer)](program, part, x)
        elif kernel_for(type(part.layer)):
            values[part.y] = by_native_kernel(program, part, values[part.x])
        elif part.is_composite:
            walk(program, pool_early(part.parts), values)
        else:
            raise no_kernel(part)


def by_native_kernel(program: Program, node: Node, x: Rows) -> Rows:
    """A layer with C of somebody's own (`register.kernel`): its calls, on all rows at once."""
    plan = Plan(1, program.params)
    known: dict[Buffer, Rows] = {}
    given = plan.buffer(x.name, *node.x.shape)
    known[given] = x
    result, _ = lower(plan, node, given)

    def rows_of(buffer: Buffer) -> Rows:
        if buffer not in known:
            rows = Rows(buffer.name, buffer.rows, buffer.width)
            if buffer.base is not None:
                rows.base = rows_of(buffer.base)
            known[buffer] = rows
        return known[buffer]

    def operand(used: Any) -> Operand:
        match used:
            case Buffer():
                return Whole(rows_of(used))
            case Param():
                return Weight(used.name)
            case Input():
                return Whole(program.sample)
        return used

    for call in plan.forward:
        writes = tuple(Whole(rows_of(one)) for one in call.writes if isinstance(one, Buffer))
        if len(writes) < len(call.writes):
            raise EngineError(f"{node.name}: {call.kernel} writes what is no buffer; a device cannot")
        program.steps.append(
            Step(node.name, call.kernel, call.header, 1, writes, tuple(map(operand, call.reads)), call.sizes)
        )
    program.folders += [folder for folder in plan.folders if folder not in program.folders]
    return rows_of(result)


def add(program: Program, name: str, a: Rows, b: Rows) -> Rows:
    """y = a + b, of which the result may take the first one's place."""
    y = Rows(name, a.count, a.width)
    return program.row_step(name, "residual_forward", "residual", y, (Row(a), Row(b)), a.width, in_place=True)


@entry(layers.Standardise)
def standardise(program: Program, node: Node, x: Rows) -> Rows:
    if x is not program.sample or not program.input.is_bytes:
        raise EngineError(f"a device standardises bytes of images only ({node.name})")
    y = Rows(f"{node.name}.y", x.count, x.width)
    layer: Any = node.layer
    sizes = (x.width, layer.factor, layer.mean / layer.std)
    return program.row_step(node.name, "standardise_forward", "standardise", y, (Row(x),), *sizes, cheap=True)


@entry(layers.Patches)
def patches(program: Program, node: Node, x: Rows) -> Rows:
    """Patch t, cut out of the bytes and brought to the range of the model at once."""
    layer: Any = node.layer
    before = program.steps[-1] if program.steps else None
    if before is None or before.kernel != "standardise_forward" or before.writes != (Row(x),):
        raise EngineError(f"a device cuts patches of standardised images only ({node.name})")
    program.steps.pop()
    _, factor, offset = before.sizes
    _, columns, channels = layer.image
    y = Rows(f"{node.name}.y", layer.tokens, layer.values)
    reads = (Whole(program.sample), Turn())
    return program.row_step(
        node.name, "patch_forward", "patch", y, reads, columns, channels, layer.size, factor, offset
    )


@entry(layers.StandardiseColumns)
def standardise_columns(program: Program, node: Node, x: Rows) -> Rows:
    layer: Any = node.layer
    if node.y is node.x:  # neither mean nor std
        return x
    factors = Constant(f"{node.name}.factor", tuple(1 / std for std in layer.std or (1.0,) * x.width))
    offsets = Constant(f"{node.name}.offset", tuple(map(float, layer.mean or (0.0,) * x.width)))
    y = Rows(f"{node.name}.y", x.count, x.width)
    reads = (factors, offsets, Row(x))
    return program.row_step(
        node.name, "standardise_columns_forward", "standardise_columns", y, reads, 1, x.width, in_place=True
    )


@entry(layers.Reshape)
def reshape(program: Program, node: Node, x: Rows) -> Rows:
    layer: Any = node.layer
    (*_, width) = layer.shape
    return Rows(f"{node.name}.y", x.size // width, width, base=x)


@entry(layers.Dropout)
def dropout(program: Program, node: Node, x: Rows) -> Rows:
    return x


def project(program: Program, layer: str, name: str, w: Value, b: Value | None, x: Rows, **more: Any) -> Rows:
    """y = x @ w + b; of a matrix that is tuned by lora, y = x @ w + b + scale * (x @ a) @ b."""
    width_in, width_out = w.shape
    y = Rows(name, x.count, width_out)
    reads = (program.weight(w), program.weight(b), Row(x))
    program.row_step(
        layer, "linear_forward", "linear", y, reads, 1, width_in, width_out, multiply_adds=width_in * width_out, **more
    )
    if adapter := program.adapters.get(w.param):
        thin = (Weight(f"a.{w.param}"), Weight(f"b.{w.param}"), Row(x))
        cost = adapter.rank * (width_in + width_out)
        program.row_step(layer, "lora_row", "lora", y, thin, width_in, width_out, *adapter, multiply_adds=cost)
    return y


@entry(layers.Linear)
def linear(program: Program, node: Node, x: Rows) -> Rows:
    return project(program, node.name, f"{node.name}.y", node.params.w, node.params.b, x)


@entry(layers.ClassToken)
def class_token(program: Program, node: Node, x: Rows) -> Rows:
    """What comes lies behind the token from the beginning."""
    if x.base is not None:
        raise EngineError(f"a device has a class token in front of tokens that a layer has made ({node.name})")
    y = Rows(f"{node.name}.y", x.count + 1, x.width)
    x.base, x.skip = y, x.width
    reads = (program.weight(node.params.token),)
    program.steps.append(Step(node.name, "copy_forward", "copy", 1, (Whole(y),), reads, (x.width,)))
    return y


@entry(layers.FirstToken)
def first_token(program: Program, node: Node, x: Rows) -> Rows:
    return Rows(f"{node.name}.y", 1, x.width, base=x)


@entry(layers.Positions)
def positions(program: Program, node: Node, x: Rows) -> Rows:
    pos = program.weight(None if node.params is None else node.params.pos)
    if pos is None or program.params[pos.name][0] != x.count:
        raise EngineError(f"a device has trained positions of the sequence's own length only ({node.name})")
    y = Rows(f"{node.name}.y", x.count, x.width)
    reads = (Row(x), Weight(pos.name, by_row=x.width))
    return program.row_step(node.name, "residual_forward", "residual", y, reads, x.width, in_place=True)


@entry(layers.ReLU)
def relu(program: Program, node: Node, x: Rows) -> Rows:
    return elementwise(program, node, "relu", x)


@entry(layers.GELU)
def gelu(program: Program, node: Node, x: Rows) -> Rows:
    return elementwise(program, node, "gelu", x)


@entry(layers.GELUTanh)
def gelu_tanh(program: Program, node: Node, x: Rows) -> Rows:
    y, gate = (Rows(f"{node.name}.{name}", x.count, x.width) for name in ("y", "gate"))
    step = Step(node.name, "gelu_tanh_forward", "gelu_tanh", x.count, (Row(y), Row(gate)), (Row(x),), (x.width,))
    program.steps.append(step)
    return y


def elementwise(program: Program, node: Node, kernel: str, x: Rows) -> Rows:
    y = Rows(f"{node.name}.y", x.count, x.width)
    return program.row_step(node.name, f"{kernel}_forward", kernel, y, (Row(x),), x.width, in_place=True)


@entry(layers.LayerNorm)
def layer_norm(program: Program, node: Node, x: Rows) -> Rows:
    layer: Any = node.layer
    y = Rows(f"{node.name}.y", x.count, x.width)
    reads = (program.weight(node.params.gain), program.weight(node.params.bias), Row(x))
    return program.row_step(
        node.name, "layer_norm_row", "layer_norm", y, reads, x.width, layer.eps, in_place=True, cheap=True
    )


@entry(layers.SelfAttention)
def self_attention(program: Program, node: Node, x: Rows) -> Rows:
    """Keys and values of all tokens first; then one query after the other."""
    name, weights, heads = node.name, node.params, node.layer.multi_head  # pyright: ignore[reportAttributeAccessIssue]
    if (
        not isinstance(heads, layers.MultiHeadAttention)
        or heads.head_width is not None
        or any(value is not None for value in node.keywords.values())
    ):
        raise EngineError(f"a device has heads of width C / H, with keys of their own, unmasked, only ({name})")
    scale = scale_of(heads, "a device", name)
    T, C, H = x.count, x.width, heads.heads
    D = C // H
    k = project(program, name, f"{name}.k", weights.w_k, weights.b_k, x)
    v = project(program, name, f"{name}.v", weights.w_v, weights.b_v, x)
    columns = Rows(f"{name}.k_columns", C, T)  # so that the scores of many tokens are summed up side by side
    reads = (Row(k), Turn())
    program.steps.append(Step(name, "column_forward", "attention", T, (Whole(columns),), reads, (T, C)))
    q = project(program, name, f"{name}.q", weights.w_q, weights.b_q, x, after=(columns, v))
    z, pattern = Rows(f"{name}.z", T, C), Rows(f"{name}.pattern", T, T)
    sizes = (T, H, D, D**-0.5 if scale is None else scale)
    program.steps.append(
        Step(
            name,
            "attend_row",
            "attention",
            T,
            (Row(z), Row(pattern)),
            (Row(q), Whole(columns), Whole(v)),
            sizes,
            2 * T * C,
        )
    )
    if not heads.output:
        return z
    return project(program, name, f"{name}.y", weights.w_o, weights.b_o, z)


@entry(layers.FeedForward)
def feed_forward(program: Program, node: Node, x: Rows) -> Rows:
    hidden = feed_forward_up(program, node, x)
    return project(program, node.name, f"{node.name}.y", node.params.w_down, node.params.b_down, hidden)


def feed_forward_up(program: Program, node: Node, x: Rows) -> Rows:
    (activation,) = node.parts
    hidden_pre = project(program, node.name, f"{node.name}.hidden_pre", node.params.w_up, node.params.b_up, x)
    values = {activation.x: hidden_pre}  # pyright: ignore[reportAttributeAccessIssue]
    walk(program, (activation,), values)
    return values[activation.y]


@entry(layers.MeanPool)
def mean_pool(program: Program, node: Node, x: Rows) -> Rows:
    return pool(program, node.name, x)


def pool(program: Program, name: str, x: Rows) -> Rows:
    """Rows are added up as they come."""
    y = Rows(f"{name}.y", 1, x.width)
    reads = (Row(x), Turn())
    program.steps.append(Step(name, "mean_pool_row", "mean_pool_row", x.count, (Whole(y),), reads, (x.count, x.width)))
    return y


@entry(PooledEarly)
def pooled_early(program: Program, node: Node, x: Rows) -> Rows:
    inner, mean = node.parts
    return pooled(program, inner, mean.name, x)  # pyright: ignore[reportAttributeAccessIssue]


def pooled(program: Program, node: Any, pool_name: str, x: Rows) -> Rows:
    """The mean commutes with sums and with linear layers: pool what comes before them, then project one row."""
    if isinstance(node.layer, layers.Residual):
        mean = pool(program, f"{node.name}.mean", x)
        return add(program, f"{node.name}.y", mean, pooled(program, node.parts[0], pool_name, x))
    if isinstance(node.layer, layers.PreNorm):
        norm, inner = node.parts
        values = {norm.x: x}
        walk(program, (norm,), values)
        return pooled(program, inner, pool_name, values[norm.y])
    mean = pool(program, pool_name, feed_forward_up(program, node, x))
    return project(program, node.name, f"{node.name}.y", node.params.w_down, node.params.b_down, mean)
