"""Which layers have C, and how they write it into a plan: one entry per layer class, ours and anybody's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax

from glassformer import registry
from glassformer.errors import EngineError
from glassformer.native.build import kernels
from glassformer.native.plan import Backward, Buffer, Input, Plan
from glassformer.structure import Node

# (plan, node, x) -> (y, backward): writes the forward calls down; `backward` will write down those of the backward
# pass. The node has the layer, its dotted name, and its weights by name; x has the form that the layer takes.
Entry = Callable[[Plan, Node, Any], tuple[Buffer, Backward]]


class Kernel(NamedTuple):
    entry: Entry
    include: Path | None  # where its headers lie; None: glassformer's own folder
    reads_input: bool


KERNELS: dict[type, Kernel] = {}
ASKED: set[str] = set()  # names in the registry whose kernels are here already


def register_kernel(layer: type, entry: Entry, include: str | Path | None = None, *, reads_input: bool = False) -> None:
    """Let the native engine compute a layer class in C. docs/native.md, "A kernel of your own".

    `include` is the folder of the headers that the entry's calls name. An entry with `reads_input` is given the bytes
    of the samples as they come, where the layer is the first one.
    """
    folder = None if include is None else Path(include).resolve()
    if folder is not None:
        must_be_new(folder)
    KERNELS[layer] = Kernel(entry, folder, reads_input)


def has_kernel(layer: type) -> bool:
    """Where none is known, those are fetched that the registry has: `register.kernel`, and installed packages.

    Each is a function without arguments that calls `register_kernel`.
    """
    if layer not in KERNELS:
        for name in registry.names("kernel"):
            if name not in ASKED:
                ASKED.add(name)
                registry.find("kernel", name)()  # pyright: ignore[reportOptionalCall]
    return layer in KERNELS


def must_be_new(folder: Path) -> None:
    """A header of the same name in two folders: the compiler would take either."""
    headers = {path.name for path in folder.glob("*.h")}
    if not headers:
        raise EngineError(f"register_kernel: no header (*.h) lies in {folder}; give the folder of the layer's kernels")
    others = {kernel.include or kernels() for kernel in KERNELS.values()} | {kernels()}
    for other in others - {folder}:
        if twice := sorted(headers & {path.name for path in other.glob("*.h")}):
            raise EngineError(f"register_kernel: {twice[0]} lies in {folder} and in {other}; rename the new one")


def entry(layer: type, *, reads_input: bool = False) -> Callable[[Entry], Entry]:
    def register(function: Entry) -> Entry:
        register_kernel(layer, function, reads_input=reads_input)
        return function

    return register


def lower(plan: Plan, node: Node, x: Any) -> tuple[Buffer, Backward]:
    """Write down what a layer computes."""
    kind = type(node.layer)
    if not has_kernel(kind):
        raise no_kernel(node)
    kernel, keywords = KERNELS[kind], [name for name, value in node.keywords.items() if jax.tree.leaves(value)]
    if keywords:
        raise EngineError(f"the native engine has no {kind.__name__} with {' and '.join(keywords)} yet ({node.name})")
    if isinstance(x, Input) and not kernel.reads_input:
        raise EngineError(f"the native engine has no {kind.__name__} of bytes, put Standardise first ({node.name})")
    if kernel.include is not None and kernel.include not in plan.folders:
        plan.folders.append(kernel.include)
    return kernel.entry(plan, node, x)


def no_kernel(node: Node) -> EngineError:
    return EngineError(f"the native engine has no {type(node.layer).__name__} yet ({node.name})")
