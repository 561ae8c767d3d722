"""ONNX of orchard's layers. Imported by `glassformer export --to onnx`, when it meets one of them."""

from glassformer import register
from glassformer.hub.onnx_graph import Graph
from glassformer.structure import Node
from orchard.dynamic_tanh import DynamicTanh


@register.onnx(DynamicTanh)
def dynamic_tanh(graph: Graph, node: Node, x: str) -> str:
    alpha, gain, bias = graph.named(node.params)
    squashed = graph.op("Tanh", graph.op("Mul", x, alpha), name="squashed")
    return graph.op("Add", graph.op("Mul", squashed, gain), bias, name="y")
