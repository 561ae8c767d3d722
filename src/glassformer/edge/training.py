"""Learning on a device: what is trained, what it is computed from, and the written-out backward, for one sample.

Layers before the first trained weight run as in prediction, token by token (layers.py). From there on every value that
backward reads is kept, and calls are made layer by layer: the native engine's plan, with kernels that need no
transposed weights. A gradient is summed up over a batch; or, with SGD, goes into the weights at once: backward is
linear in what comes in, so the gradient of the logits times minus the learning rate makes every kernel add the update.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, ClassVar, Literal

import jax

from glassformer import layers
from glassformer.edge.amalgamate import folder
from glassformer.edge.layers import program_for, walk
from glassformer.edge.plan import Layout, layout_of
from glassformer.edge.steps import Adapter, Rows
from glassformer.errors import EngineError
from glassformer.layers.contract import is_bias
from glassformer.native.attention_layers import heads_of, projected_attention
from glassformer.native.build import kernels
from glassformer.native.layers import Lowered
from glassformer.native.lower import backward, forward, input_of, params_of, read_by, steps_of, title_of
from glassformer.native.plan import Buffer, Call, Param, Plan, place
from glassformer.structure import Node, Sum, Value, structure
from glassformer.train.tune import LowRank, head_names

Tune = Literal["full", "head", "bias", "lora"]


@dataclass
class DevicePlan(Plan):
    """One sample, weights read as they lie, and gradients of some weights only."""

    trained: frozenset[str] = frozenset()
    adapters: Mapping[str, Adapter] = field(default_factory=dict)
    cached: dict[str, tuple[Any, Any]] = field(default_factory=dict)  # x and h of each adapted matrix
    last: tuple[str, Any] = ("", None)  # the matrix whose dx was written down last, and that
    entries: ClassVar[dict[type, Any]] = {}

    def is_trained(self, name: str) -> bool:
        return name in self.trained or name in self.adapters

    def gradient(self, x: Any, over: Buffer | None = None) -> Any:
        """None where a matrix is adapted: it stays."""
        return None if isinstance(x, Param) and x.name in self.adapters else super().gradient(x, over)  # pyright: ignore

    def transpose_of(self, weight: Param) -> Param:
        return weight

    def is_large(self, call: Any) -> bool:
        return False

    def call(self, kernel: str, header: str, writes: tuple, reads: tuple, sizes: tuple) -> None:
        if kernel == "linear_backward_w" and writes[0] is None:  # of a bias alone: what came in need not be kept
            reads = (None, *reads[1:])
        if None in writes and not any((own / f"{header}.h").is_file() for own in (folder(), kernels())):
            raise EngineError(
                f"{kernel} of {header}.h gives the gradients of all its weights; train them all, or the head"
            )
        super().call(kernel, header, writes, reads, sizes)
        self.call_adapter(kernel, writes, reads, sizes)

    def call_adapter(self, kernel: str, writes: tuple, reads: tuple, sizes: tuple) -> None:
        """Of a linear layer, beside its own call: what is added to y, and the gradients of that."""
        if kernel == "linear_forward" and (adapter := self.adapters.get(name := reads[0].name)):
            h = self.buffer(f"{name}.h", sizes[0], adapter.rank)
            self.cached[name] = reads[2], h
            super().call("lora_forward", "lora", (writes[0], h), (*thin(name), reads[2]), (*sizes, *adapter))
        elif kernel == "linear_backward_x":
            self.last = reads[0].name, writes[0]
        elif kernel == "linear_backward_w" and (adapter := self.adapters.get(self.last[0])):
            (name, dx), (x, h) = self.last, self.cached[self.last[0]]
            a, b = thin(name)
            changed = (dx, Param(a.name, "d"), Param(b.name, "d"), self.buffer(f"{name}.dh", sizes[0], adapter.rank))
            super().call("lora_backward", "lora", changed, (a, b, x, h, reads[1]), (*sizes, *adapter))

    def close(self) -> None:
        """Where nobody reads dx, nothing is added to it."""
        read = {used.root for call in self.backward for used in call.reads if isinstance(used, Buffer)}
        self.backward = [
            replace(call, writes=(None, *call.writes[1:]))
            if call.kernel == "lora_backward" and call.writes[0].root not in read  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
            else call
            for call in self.backward
        ]
        super().close()


def thin(name: str) -> tuple[Param, Param]:
    return Param(f"a.{name}"), Param(f"b.{name}")


@dataclass
class Lesson:
    """How a device learns from a sample."""

    trained: dict[str, tuple[int, ...]]  # shapes by name, in the order in which they lie
    frozen: Layout | None  # what comes before; None: the sample itself is read
    begin: Buffer  # what it leaves
    plan: DevicePlan
    buffers: int  # bytes of the plan's
    lora: LowRank | None = None  # where the trained weights are its thin matrices, and the head

    @property
    def parameters(self) -> int:
        return sum(map(prod, self.trained.values()))

    @property
    def frozen_at(self) -> int:
        """Where the memory of what comes before lies: beside what it leaves."""
        end = 4 * (self.begin.offset + self.begin.floats(1))
        below = self.frozen is None or self.frozen.arena <= 4 * self.begin.offset
        return 0 if below else end

    @property
    def work(self) -> int:
        """Bytes in which a sample is learned from."""
        return max(self.buffers, self.frozen_at + (self.frozen.arena if self.frozen else 0))

    @property
    def multiply_adds(self) -> int:
        """Of the matrix products of a step."""
        return (self.frozen.multiply_adds if self.frozen else 0) + sum(map(products, self.plan.calls))

    @property
    def hazard(self) -> str:
        """Why the weights cannot be updated while backward still goes on; empty: they can."""
        read = [one.name for call in self.plan.forward for one in call.reads if isinstance(one, Param)]
        if twice := sorted({name for name in read if name in self.trained and read.count(name) > 1}):
            return f"{twice[0]} is used more than once"
        if self.plan.folders:
            return f"the kernels in {self.plan.folders[0]} may read a weight after its gradient"
        return ""


def products(call: Call) -> int:
    """Multiply-adds of a call."""
    match call.kernel, call.sizes:
        case "linear_forward" | "linear_backward_x", (int(N), int(I), int(O), *_):
            return N * I * O
        case "linear_backward_w", (int(N), int(I), int(O)):
            return N * I * O if call.writes[0] else 0
        case "attention_forward", (int(T), int(H), int(D), _):
            return 2 * T * T * H * D
        case "attention_backward", (int(T), int(H), int(D), _):
            return 4 * T * T * H * D
        case "lora_forward", (int(N), int(I), int(O), int(R), _):
            return N * R * (I + O)
        case "lora_backward", (int(N), int(I), int(O), int(R), _):
            return N * R * (I + 2 * O + (I if call.writes[0] else 0))
    return 0


def lesson_of(model: Any, tune: Tune, lora: LowRank | None = None) -> Lesson:
    """`lora`: its rank, alpha and targets, where it is tuned so; None: the usual ones."""
    given, graph, params = input_of(model), structure(model), params_of(model)
    lora = (lora or LowRank()) if tune == "lora" else None
    adapters, trained = adapters_of(model, lora), trained_params(model, tune)
    shapes = params | {name: shape for one in adapters for name, shape in thin_shapes(one, adapters, params)}
    trained = [*(name for name in shapes if name not in params), *trained]
    steps = list(steps_of((graph,), rewrites=True))
    cut, value = where_it_begins(steps, graph, [*trained, *adapters])
    program = program_for(model, adapters)
    values: dict[Value, Any] = {graph.x: program.sample}
    walk(program, steps[:cut], values)
    plan = DevicePlan(1, params, given, title_of(graph), trained=frozenset(trained), adapters=adapters)
    begin = plan.buffer(value.names[0] if value.names else "x", *value.shape)
    known: dict[Value, Any] = {value: begin}
    done = [forward(plan, step, known) for step in steps[cut:]]
    plan.logits = known[graph.y]
    plan.backwards = True
    plan.dlogits = dlogits = plan.gradient(known[graph.y])
    backward(plan, done, {graph.y: dlogits}, known)
    plan.close()
    rows: Rows = values[value]
    program.logits = rows.root
    begin.name, begin.born = "x" if rows.root is program.sample else begin.name, 0
    if rows.root is program.sample:
        plan.buffers.remove(begin)
    return Lesson(
        {name: shapes[name] for name in trained},
        None if rows.root is program.sample else layout_of(program),
        begin,
        plan,
        4 * place(plan, 1, aligned=1),
        lora,
    )


def adapters_of(model: Any, lora: LowRank | None) -> dict[str, Adapter]:
    """By the name of the matrix."""
    if lora is None:
        return {}
    network = lora.network(model)
    return {name: Adapter(network.rank, network.scale) for name in network.names}


def thin_shapes(name: str, adapters: Mapping[str, Adapter], params: Mapping[str, Any]) -> list[tuple[str, Any]]:
    (width_in, width_out), rank = params[name], adapters[name].rank
    return [(f"a.{name}", (width_in, rank)), (f"b.{name}", (rank, width_out))]


def trained_params(model: Any, tune: Tune) -> list[str]:
    """Of the model's own. `head`, `lora`: its head. `bias`: that, and the biases of all other layers."""
    params, of_head = list(params_of(model)), head_names(model)
    if tune == "head" and not of_head:
        raise EngineError(f"{type(model).__name__} has no part called {' or '.join(model.task_parts)} (task_parts)")
    match tune:
        case "full":
            return params
        case "head" | "lora":
            return of_head
        case "bias":
            return [name for name in params if name in of_head or is_bias(name)]


def where_it_begins(steps: list[Any], graph: Node, trained: list[str]) -> tuple[int, Value]:
    """The last place before the first trained weight at which the rest of the model reads a single value."""
    made, found = [graph.x], (0, graph.x)
    for i, step in enumerate(steps):
        read = {value for later in steps[i:] for value in read_by(later)}
        crossing = [value for value in made if value in read]
        if len(crossing) == 1:
            found = (i, crossing[0])
        if any(leaf.param in trained for leaf in ([] if isinstance(step, Sum) else jax.tree.leaves(step.params))):
            return found
        made.append(step.y)
    raise EngineError("nothing is trained")


def entry(layer: type) -> Callable[[Any], Any]:
    def add(function: Any) -> Any:
        DevicePlan.entries[layer] = function
        return function

    return add


@entry(layers.Dropout)
def dropout(plan: Plan, node: Node, x: Buffer) -> Lowered:
    """Nothing is dropped on a device."""
    return x, lambda dy, into: dy


@entry(layers.SelfAttention)
def self_attention(plan: Plan, node: Node, x: Buffer) -> Lowered:
    _, T, H, D, scale = heads_of(node, x)
    sizes = (T, H, D, scale)

    def attend(q: Buffer, k: Buffer, v: Buffer, z: Buffer) -> Any:
        pattern = plan.buffer(f"{node.name}.pattern", H, T, T)
        plan.call("attention_forward", "attention", (z, pattern), (q, k, v), sizes)

        def backward(dz: Buffer) -> tuple[Buffer, Buffer, Buffer]:
            dq, dk, dv = (plan.gradient(part) for part in (q, k, v))
            dpattern = plan.buffer(f"d{node.name}.pattern", T)
            plan.call("attention_backward", "attention", (dq, dk, dv, dpattern, pattern), (q, k, v, dz), sizes)
            return dq, dk, dv

        return backward

    return projected_attention(plan, node, x, attend)
