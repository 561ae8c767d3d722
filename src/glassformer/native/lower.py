"""From a model's structure to a plan: a layer that has C is taken whole, any other by its parts.

Backward is the same list of steps from the bottom, gradients added up where a value was read twice.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, cast

import jax
import numpy as np

from glassformer.errors import EngineError
from glassformer.layers import Embedding, Layer, LoRA, MeanPool
from glassformer.layers.contract import param_shapes
from glassformer.names import named_leaves
from glassformer.native import text_layers  # noqa: F401  -- registers what text models are made of
from glassformer.native.kernels import kernel_for, lower, no_kernel
from glassformer.native.layers import PooledEarly, add, commutes
from glassformer.native.plan import Adapter, Backward, Buffer, Input, Param, Plan
from glassformer.native.tokens import graph_of, reads_tokens, take_in
from glassformer.structure import Node, Sum, Value, structure

Part = Node | Sum
Step = tuple[Node, Backward] | tuple[Sum, None]


def plan_for(
    model: Any,
    samples: int,
    *,
    rewrites: bool = True,
    training: bool = True,
    tokens: int | None = None,
    padded: bool = False,
    frozen: frozenset[str] = frozenset(),
    adapter: LoRA | None = None,
) -> Plan:
    """Everything the model computes for a group of samples: from what comes in to logits, and back.

    `rewrites` are exact (docs/native.md); without them, the calls are those of the Python model. Texts are of so many
    `tokens`, or of the whole context, and may be `padded`. Weights that are `frozen` have no gradient. An `adapter` has
    the model inside, and weights beside its own.
    """
    beside = None if adapter is None else Adapter(frozenset(adapter.names), adapter.rank, adapter.scale)
    params = params_of(adapter or model)
    if reads_tokens(model):
        graph, words = graph_of(model, tokens, padded=padded)
        steps = list(steps_of((graph,), rewrites=rewrites))
        plan = Plan(samples, params, words.input, title_of(graph), frozen, beside)
        take_in(plan, graph, words)
    else:
        given, graph = input_of(model), structure(model)
        steps = list(steps_of((graph,), rewrites=rewrites))
        plan = Plan(samples, params, given, title_of(graph), frozen, beside)
        plan.values[graph.x] = taken_in(plan)
    values, plan.output = plan.values, graph.y if training else None
    done = [forward(plan, step, values) for step in steps]
    must_read_all(plan)
    if not isinstance(graph.y, Value) or len(graph.y.shape) < 2:
        raise EngineError(f"the native engine has models with rows of logits, not {graph.y}")
    plan.logits = cast(Buffer, values[graph.y])
    plan.logits.name = "logits"
    if training:
        plan.backwards = True
        plan.dlogits = plan.gradient(plan.logits)
        backward(plan, done, {graph.y: plan.dlogits}, values)
    plan.close()
    return plan


def must_read_all(plan: Plan) -> None:
    """Of the thin matrices: beside a table of symbols, say, they would be left out."""
    read = {used.name for call in plan.forward for used in call.reads if isinstance(used, Param)}
    left = [name for name in sorted(plan.adapter.names if plan.adapter else ()) if f"a.{name}" not in read]
    if left:
        raise EngineError(f"the native engine has LoRA of matrices that are multiplied with, and {left[0]} is another")


def steps_of(parts: Iterable[Part], *, rewrites: bool) -> Iterator[Part]:
    for part in parts:
        if isinstance(part, Sum) or kernel_for(type(part.layer)):
            yield part
        elif part.is_composite:
            yield from steps_of(pool_early(part.parts) if rewrites else part.parts, rewrites=rewrites)
        else:
            raise no_kernel(part)


def pool_early(parts: tuple[Part, ...]) -> list[Part]:
    """Let a mean pool and the layer before it be computed together, where nobody else reads what it pools."""
    readers = Counter(value for part in parts for value in read_by(part))
    makers = {part.y: part for part in parts if isinstance(part, Node) and isinstance(part.y, Value)}
    found = list(parts)
    for part in parts:
        if isinstance(part, Sum) or type(part.layer) is not MeanPool or jax.tree.leaves(part.keywords):
            continue
        maker = makers.get(part.x)
        if maker is not None and commutes(maker.layer) and readers[maker.y] == 1:
            both = replace(
                part, layer=cast(Layer, PooledEarly()), params=maker.params, x=maker.x, parts=(maker, part), glue=()
            )
            found[found.index(part)] = both
            found.remove(maker)
    return found


def read_by(part: Part) -> list[Value]:
    return [part.a, part.b] if isinstance(part, Sum) else jax.tree.leaves((part.x, part.keywords))


def forward(plan: Plan, part: Part, values: dict[Value, Any]) -> Step:
    if isinstance(part, Sum):
        a, b = values[part.a], values[part.b]
        name = part.y.names[0] if part.y.names else "sum"
        values[part.y] = add(plan, plan.buffer(name, *a.shape, over=a), a, b)
        return part, None
    if not isinstance(part.y, Value):
        raise EngineError(f"the native engine has layers with one result only, and {part.name} has several")
    x = jax.tree.map(lambda value: values[value] if value in values else plan.operand(value), part.x)
    values[part.y], backward = lower(plan, part, x)
    return part, backward


def backward(plan: Plan, steps: list[Step], gradients: dict[Value, Buffer], values: dict[Value, Any]) -> None:
    """The calls of the backward pass. `gradients` are those that nobody has used yet; in the beginning, the logits'."""
    trained = trained_by(plan, [part for part, _ in steps])

    def arrived(value: Value, dx: Buffer) -> None:
        if value not in trained:
            return
        known = gradients.get(value)
        gradients[value] = dx if known is None else add(plan, plan.gradient(values[value], over=known), known, dx)

    def free(value: Value) -> Buffer | None:
        """A gradient to which may be added: it is not that of another value, too."""
        known = gradients.get(value)
        others = [buffer.root for other, buffer in gradients.items() if other is not value]
        return None if known is None or known.root in others else known

    for step in reversed(steps):
        if step[0].y not in trained or step[0].y not in gradients:
            continue
        dy = gradients.pop(step[0].y)
        if step[1] is None:
            arrived(step[0].a, dy)
            arrived(step[0].b, dy)
            continue
        part, way_back = step
        read, form = jax.tree.flatten(part.x)
        into = [free(value) for value in read]
        found = form.flatten_up_to(way_back(dy, form.unflatten(into)))
        for value, begun, dx in zip(read, into, found, strict=True):
            if begun is None or dx is not begun:
                arrived(value, dx)


def trained_by(plan: Plan, parts: list[Part]) -> set[Value]:
    """Values that depend on a weight that is trained: those that have a gradient."""
    trained: set[Value] = set()
    for part in parts:
        weights = [] if isinstance(part, Sum) else jax.tree.leaves((part.params, part.x))
        if any(map(plan.learns, weights)) or trained.intersection(read_by(part)):
            trained.add(part.y)
    return trained


def params_of(model: Any) -> dict[str, tuple[int, ...]]:
    tree = param_shapes(model)
    return {name: leaf.shape for name, leaf in named_leaves(tree).items()}


def input_of(model: Any) -> Input:
    """One sample of the model's input: asked of the model itself, before its structure is."""
    x = model.example(1)
    if not isinstance(x, jax.ShapeDtypeStruct) or not (x.dtype == np.uint8 or np.issubdtype(x.dtype, np.floating)):
        name, reads = type(model).__name__, model.input.reads
        embed = structure(model).first(Embedding)
        missing = f": no Embedding yet ({embed.name})" if embed else ""
        raise EngineError(f"the native engine reads images and rows of numbers, and {name} reads {reads}{missing}")
    return Input(x.shape[1:], is_bytes=x.dtype == np.uint8)


def taken_in(plan: Plan) -> Input | Buffer:
    """Bytes are read where they are; floats of samples that lie apart are put side by side."""
    if plan.input.is_bytes:
        return plan.input
    x = plan.buffer("x", plan.samples, *plan.input.shape)
    plan.call("copy_forward", "copy", (x,), (plan.input,), (plan.input.size,))
    return x


def title_of(graph: Node) -> str:
    shape, kind = "x".join(map(str, graph.x.shape[1:])), type(graph.layer).__name__
    if np.issubdtype(graph.x.dtype, np.integer) and len(graph.x.shape) == 2:
        return f"{kind} for texts of {shape} tokens"
    return f"{kind} for {'images' if len(graph.x.shape) == 4 else 'rows'} of {shape}"
