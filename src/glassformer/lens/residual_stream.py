"""The residual stream: what runs through a model from block to block, and how an answer is read off its end.

Pre-norm (ViT, GPT, T5's decoder)     resid = resid + branch(norm(resid)); the answer is head(pool(norm(resid)))
post-norm (BERT)                      h = norm(h + branch(h)); the answer is head(h): the last norm is the last block's

Read off the structure: blocks of one kind in a row, each of which adds to what the one before it gave.
"""

from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import jax

from glassformer.errors import UnknownNameError
from glassformer.layers import Dropout
from glassformer.names import named_leaves, with_leaves
from glassformer.shapes import Array, Float
from glassformer.structure import Node, Sum, Value, resume, structure

if TYPE_CHECKING:
    from glassformer.lens.trace import Trace


class Stream(NamedTuple):
    blocks: tuple[Node, ...]
    norm: Node | None  # the norm behind the last block; None: each block ends in a norm of its own

    @property
    def name(self) -> str:
        """`decoder.blocks`"""
        return self.blocks[0].name.rpartition(".")[0]

    def starts(self) -> list[str]:
        """What goes into each block, by its name there."""
        return [name_in(block, value_into(block)) for block in self.blocks]

    def ends(self) -> list[str]:
        """What comes out of each."""
        return [name_in(block, block.y) for block in self.blocks]


def streams_of(model: Any) -> list[Stream]:
    """All of them, in the order of forward: T5 has one in its encoder too."""
    found = []
    for node in structure(model).walk():
        inside = [part for part in node.parts if isinstance(part, Node)] if node.is_composite else []
        for _, run in groupby(inside, key=lambda part: part.layer):
            blocks = tuple(run)
            if all(adds_to_stream(block) for block in blocks):
                found.append(Stream(blocks, norm_behind(blocks[-1], inside)))
    return found


def stream_of(model: Any) -> Stream:
    """The stream that the answer is read from."""
    streams = streams_of(model)
    if not streams:
        raise UnknownNameError(
            f"{type(model).__name__} has no residual stream: its values do not run through blocks that add to them; "
            "models that have one are vit, gpt, llama, bert and t5"
        )
    return streams[-1]


def adds_to_stream(block: Node) -> bool:
    """A numbered block with sums in it: blocks.0."""
    return block.name.rpartition(".")[2].isdecimal() and any(isinstance(part, Sum) for part in block.parts)


def norm_behind(block: Node, beside: list[Node]) -> Node | None:
    """Where a sum is the last that a block does, the layer that reads it."""
    if not any(isinstance(part, Sum) and part.y is block.y for part in block.parts):
        return None
    return next(part for part in beside if value_into(part) is block.y)


def value_into(node: Node) -> Value:
    """The value at work, without what comes in beside it (a bias, the memory)."""
    return jax.tree.leaves(node.x)[0]


def name_in(block: Node, value: Value) -> str:
    return next(name for name in value.names if name.startswith(f"{block.name}."))


def maker_of(model: Any, value: Value) -> Node | Sum | None:
    """The layer or the sum that made a value; None where it came in."""
    parts = (part for part in structure(model).flat() if not is_idle(part))
    return next((part for part in parts if any(made is value for made in jax.tree.leaves(part.y))), None)


def is_idle(part: Node | Sum) -> bool:
    """Dropout in evaluation."""
    return isinstance(part, Node) and isinstance(part.layer, Dropout) and part.x is part.y


def read_out(model: Any, params: Any, resid: Float[Array, "B T C"]) -> Float[Array, "..."]:
    """What the model would answer if its stream ended here: the norm behind the last block, pool, head."""
    end = stream_of(model).blocks[-1].y
    if structure(model).y is end:
        raise UnknownNameError(f"{type(model).__name__} has no head to read its stream with; BERTFor gives it one")
    return resume(structure(model), params, {end: resid})


def params_of(trace: "Trace") -> Any:
    """The parameters as the model's own layers take them. A trace that was filtered has lost some."""
    shapes = jax.eval_shape(trace.model.init, jax.random.key(0))
    for name in named_leaves(shapes):
        if name not in trace.params:
            raise UnknownNameError(f"the trace has no parameter {name!r}; take it from the whole trace, before `match`")
    return with_leaves(shapes, trace.params)
