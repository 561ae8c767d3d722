"""The residual stream: what runs through a model from block to block, and how an answer is read off its end.

Pre-norm (ViT, GPT, T5's decoder)     resid = resid + branch(norm(resid)); the answer is head(pool(norm(resid)))
post-norm (BERT)                      h = norm(h + branch(h)); the answer is head(h): the last norm is the last block's
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import jax

from glassformer.errors import UnknownNameError
from glassformer.layers import tied_head
from glassformer.models import BERT, GPT, T5, BERTFor, MaskedHead, ViT
from glassformer.models.bert_heads import MaskedInputs
from glassformer.names import named_leaves, with_leaves
from glassformer.shapes import Array, Float

if TYPE_CHECKING:
    from glassformer.lens.trace import Trace


class Stream(NamedTuple):
    blocks: str  # where its blocks are: decoder.blocks
    depth: int
    start: str  # what goes into a block, by its name in the block
    end: str  # what comes out of it
    norm: str | None  # the norm behind the last block; None: each block ends in a norm of its own

    def starts(self) -> list[str]:
        return [f"{self.blocks}.{i}.{self.start}" for i in range(self.depth)]

    def ends(self) -> list[str]:
        return [f"{self.blocks}.{i}.{self.end}" for i in range(self.depth)]


def stream_of(model: Any) -> Stream:
    """The stream that the answer is read from."""
    if isinstance(model, ViT | GPT):
        return Stream("blocks", model.depth, "resid_pre", "resid_post", norm="norm")
    if isinstance(model, T5):
        return Stream("decoder.blocks", model.decoder_blocks, "resid_pre", "resid_post", norm="decoder.norm")
    if isinstance(model, BERT):
        return Stream("blocks", model.depth, "x", "norm2.y", norm=None)
    if isinstance(model, BERTFor):
        return Stream("bert.blocks", model.bert.depth, "x", "norm2.y", norm=None)
    raise UnknownNameError(
        f"{type(model).__name__} has no residual stream: its values do not run through blocks that add to them; "
        "models that have one are vit, gpt, bert and t5"
    )


def streams_of(model: Any) -> list[Stream]:
    """All of them, in the order of forward: T5 has one in its encoder too."""
    if isinstance(model, T5):
        encoder = Stream("encoder.blocks", model.depth, "resid_pre", "resid_post", norm="encoder.norm")
        return [encoder, stream_of(model)]
    return [stream_of(model)]


def read_out(model: Any, params: Any, resid: Float[Array, "B T C"]) -> Float[Array, "..."]:
    """What the model would answer if its stream ended here: the norm behind the last block, pool, head."""
    if isinstance(model, ViT):
        h, _ = model.norm.forward(params.norm, resid)
        h, _ = model.pool.forward(None, h)
        return model.head.forward(params.head, h)[0]
    if isinstance(model, GPT | T5):
        norm = params.decoder.norm if isinstance(model, T5) else params.norm
        table = params.embed if params.head is None else params.head
        h, _ = model.norm.forward(norm, resid)
        return model.head.forward(None, tied_head.Inputs(x=h, emb=table.emb))[0]
    if isinstance(model, BERTFor):
        given: Any = resid
        if isinstance(model.head, MaskedHead):
            given = MaskedInputs(x=resid, emb=params.bert.embed.emb if model.head.tied else None)
        return model.head.forward(params.head, given)[0]
    stream_of(model)  # one without a stream is refused there
    raise UnknownNameError(f"{type(model).__name__} has no head to read its stream with; BERTFor gives it one")


def params_of(trace: "Trace") -> Any:
    """The parameters as the model's own layers take them. A trace that was filtered has lost some."""
    shapes = shapes_of(trace.model)
    for name in named_leaves(shapes):
        if name not in trace.params:
            raise UnknownNameError(f"the trace has no parameter {name!r}; take it from the whole trace, before `match`")
    return with_leaves(shapes, trace.params)


@lru_cache(maxsize=32)
def shapes_of(model: Any) -> Any:
    return jax.eval_shape(model.init, jax.random.key(0))
