"""The C of orchard's layers. Imported by the native engine, when it meets one of them."""

from pathlib import Path

from glassformer import register
from glassformer.native import Backward, Buffer, Plan
from glassformer.structure import Node
from orchard.dynamic_tanh import DynamicTanh


@register.kernel(DynamicTanh, include=Path(__file__).parent)
def dynamic_tanh(plan: Plan, node: Node, x: Buffer) -> tuple[Buffer, Backward]:
    alpha, gain, bias = map(plan.param, node.params)
    sizes = (x.rows, x.width)
    y, squashed = plan.buffer(f"{node.name}.y", *x.shape), plan.buffer(f"{node.name}.squashed", *x.shape)
    plan.call("dynamic_tanh_forward", "dynamic_tanh", (y, squashed), (alpha, gain, bias, x), sizes)

    def backward(dy: Buffer, into: Buffer | None) -> Buffer:
        dx, dweights = plan.gradient(x), map(plan.gradient, (alpha, gain, bias))
        plan.call("dynamic_tanh_backward", "dynamic_tanh", (dx, *dweights), (alpha, gain, squashed, x, dy), sizes)
        return dx

    return y, backward
