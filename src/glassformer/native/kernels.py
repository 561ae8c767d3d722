"""Which layers have C, and how they write it into a plan: one entry per layer class, ours and anybody's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from glassformer import registry
from glassformer.errors import EngineError
from glassformer.native.build import kernels
from glassformer.native.plan import Backward, Buffer, Input, Plan
from glassformer.registry import Kernel
from glassformer.structure import Node

# (plan, node, x) -> (y, backward): writes the forward calls down; `backward` will write down those of the backward
# pass. The node has the layer, its dotted name, and its weights by name; x has the form that the layer takes.
Entry = Callable[[Plan, Node, Any], tuple[Buffer, Backward]]


def kernel_for(layer: type) -> Kernel | None:
    """The C of a layer class: `register.kernel`, here or in an installed package."""
    found = registry.kernel_of(layer)
    if found is not None and found.include is not None:
        must_be_new(found.include)
    return found


def must_be_new(folder: Path) -> None:
    """A header of the same name in two folders: the compiler would take either."""
    headers = {path.name for path in folder.glob("*.h")}
    if not headers:
        raise EngineError(f"register.kernel: no header (*.h) lies in {folder}; give the folder of the layer's kernels")
    others = {kernel.include or kernels() for kernel in registry.registered("kernel").values()} | {kernels()}
    for other in others - {folder}:
        if twice := sorted(headers & {path.name for path in other.glob("*.h")}):
            raise EngineError(f"register.kernel: {twice[0]} lies in {folder} and in {other}; rename the new one")


def lower(plan: Plan, node: Node, x: Any) -> tuple[Buffer, Backward]:
    """Write down what a layer computes."""
    kind = type(node.layer)
    kernel = kernel_for(kind)
    if kernel is None:
        raise no_kernel(node)
    keywords = [name for name, value in node.keywords.items() if value is not None and name not in kernel.keywords]
    if keywords:
        raise EngineError(f"the native engine has no {kind.__name__} with {' and '.join(keywords)} yet ({node.name})")
    if isinstance(x, Input) and not kernel.reads_input:
        raise EngineError(f"the native engine has no {kind.__name__} of bytes, put Standardise first ({node.name})")
    if kernel.include is not None and kernel.include not in plan.folders:
        plan.folders.append(kernel.include)
    return plan.entries.get(kind, kernel.entry)(plan, node, x)


def no_kernel(node: Node) -> EngineError:
    return EngineError(f"the native engine has no {type(node.layer).__name__} yet ({node.name})")
