"""Learning on a device: what is trained, what it is computed from, and the written-out backward, for one sample.

Layers before the first trained weight run as in prediction, token by token (steps.py). From there on every value that
backward reads is kept, and calls are made layer by layer: the native engine's plan, with kernels that need no
transposed weights. A gradient is summed up over a batch; or, with SGD, goes into the weights at once: backward is
linear in what comes in, so the gradient of the logits times minus the learning rate makes every kernel add the update.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Literal

import jax

from glassformer import layers
from glassformer.edge.amalgamate import folder
from glassformer.edge.plan import Layout, layout_of
from glassformer.edge.steps import Rows, program_for, walk
from glassformer.errors import EngineError
from glassformer.names import last_word
from glassformer.native.build import kernels
from glassformer.native.layers import Lowered, project
from glassformer.native.lower import backward, forward, input_of, params_of, read_by, steps_of, title_of
from glassformer.native.plan import Buffer, Param, Plan, place
from glassformer.structure import Node, Sum, Value, structure

Tune = Literal["full", "head", "bias"]


@dataclass
class DevicePlan(Plan):
    """One sample, weights read as they lie, and gradients of some weights only."""

    trained: frozenset[str] = frozenset()
    entries: ClassVar[dict[type, Any]] = {}

    def is_trained(self, name: str) -> bool:
        return name in self.trained

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


@dataclass
class Lesson:
    """How a device learns from a sample."""

    trained: dict[str, tuple[int, ...]]  # shapes by name, in the order in which they lie
    frozen: Layout | None  # what comes before; None: the sample itself is read
    begin: Buffer  # what it leaves
    plan: DevicePlan
    buffers: int  # bytes of the plan's

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
    def hazard(self) -> str:
        """Why the weights cannot be updated while backward still goes on; empty: they can."""
        read = [one.name for call in self.plan.forward for one in call.reads if isinstance(one, Param)]
        if twice := sorted({name for name in read if name in self.trained and read.count(name) > 1}):
            return f"{twice[0]} is used more than once"
        if self.plan.folders:
            return f"the kernels in {self.plan.folders[0]} may read a weight after its gradient"
        return ""


def lesson_of(model: Any, tune: Tune) -> Lesson:
    given, graph, params = input_of(model), structure(model), params_of(model)
    trained = trained_params(params, tune)
    steps = list(steps_of((graph,), rewrites=True))
    cut, value = where_it_begins(steps, graph, trained)
    program = program_for(model)
    values: dict[Value, Any] = {graph.x: program.sample}
    walk(program, steps[:cut], values)
    plan = DevicePlan(1, params, given, title_of(graph), trained=frozenset(trained))
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
        {name: params[name] for name in trained},
        None if rows.root is program.sample else layout_of(program),
        begin,
        plan,
        4 * place(plan, 1, aligned=1),
    )


def trained_params(params: dict[str, tuple[int, ...]], tune: Tune) -> list[str]:
    """`head`: the last layer that has weights. `bias`: that one, and the biases of all others."""
    head = max(params, key=list(params).index).rpartition(".")[0]
    of_head = [name for name in params if name.rpartition(".")[0] == head]
    match tune:
        case "full":
            return list(params)
        case "head":
            return of_head
        case "bias":
            return [name for name in params if name in of_head or is_bias(name)]


def is_bias(name: str) -> bool:
    return last_word(name) in ("b", "bias") or last_word(name).startswith("b_")


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
    name, weights, heads = node.name, node.params, node.layer.multi_head  # pyright: ignore[reportAttributeAccessIssue]
    if not isinstance(heads, layers.MultiHeadAttention) or heads.head_width is not None:
        raise EngineError(f"a device has heads of width C / H, with keys of their own, only ({name})")
    _, T, C = map(int, x.shape)
    H, D = heads.heads, C // heads.heads
    sizes = (T, H, D, D**-0.5 if heads.scale is None else heads.scale)
    q, k, v, z = (plan.buffer(f"{name}.{part}", *x.shape) for part in ("q", "k", "v", "z"))
    pattern = plan.buffer(f"{name}.pattern", H, T, T)
    to_q = project(plan, weights.w_q, weights.b_q, q, x)
    to_k = project(plan, weights.w_k, weights.b_k, k, x)
    to_v = project(plan, weights.w_v, weights.b_v, v, x)
    plan.call("attention_forward", "attention", (z, pattern), (q, k, v), sizes)
    y, to_y = z, None
    if heads.output:
        y = plan.buffer(f"{name}.y", *x.shape)
        to_y = project(plan, weights.w_o, weights.b_o, y, z)

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        dz = to_y(dy, None) if to_y else dy
        dq, dk, dv = (plan.gradient(part) for part in (q, k, v))
        dpattern = plan.buffer(f"d{name}.pattern", T)
        plan.call("attention_backward", "attention", (dq, dk, dv, dpattern, pattern), (q, k, v, dz), sizes)
        dx = to_q(dq, into)
        to_k(dk, dx)
        return to_v(dv, dx)

    return y, backward
