"""An encoder as text_stack.h computes it, read from its structure: whose class it is does not matter.

ids -> embedding [+ kind of text] + positions -> norm -> post-norm blocks in which all tokens see each other -> values

As BERT, RoBERTa and DistilBERT have it. What a head makes of the values is not part of it.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from glassformer.errors import EngineError
from glassformer.layers import CountedPositions, Embedding, FeedForward, LayerNorm, Positions, SelfAttention
from glassformer.native.text_model import (
    Block,
    TextModel,
    is_a,
    norm_parts,
    parts_of,
    refused,
    settings_of_all,
    steps_of,
    take,
    take_sum,
)
from glassformer.structure import Node, Sum, Value, structure

WHO = "encoder"
WHOLE = (Embedding, Positions, CountedPositions, LayerNorm, SelfAttention, FeedForward)


@dataclass(frozen=True)
class EncoderModel:
    text: TextModel
    kinds: str | None  # the table of kinds of text, by its name in params; all is of kind 0
    first: int  # the row of the table of positions that the first token reads
    graph: Node  # of the whole model
    values: Value  # what the last block gives: one vector for each token


def encoder_model(model: Any) -> EncoderModel:
    """Refuses, by name, what has no C twin."""
    x = model.example(1)
    if not isinstance(x, jax.ShapeDtypeStruct) or x.ndim != 2 or not jnp.issubdtype(x.dtype, jnp.integer):
        raise EngineError(f"the native encoder has no {type(model).__name__} yet: it reads texts, and one a row")
    graph = structure(model)
    steps = deque(steps_of(graph, WHOLE))
    embed = take(steps, (Embedding,), graph.x, WHO)
    stream, kinds = embed.y, None
    if steps and is_a(steps[0], (Embedding,)):
        kinds = of_zeros(steps.popleft())
        stream = take_sum(steps, stream, kinds, WHO)
    positions = take(steps, (Positions, CountedPositions), stream, WHO)
    norm = take(steps, (LayerNorm,), positions.y, WHO)
    stream, blocks = norm.y, list[Block]()
    while steps and is_a(steps[0], (SelfAttention,)):
        block, stream = take_block(steps, stream)
        blocks.append(block)
    if not blocks or positions.params.pos is None:
        raise refused(steps[0] if steps and not blocks else positions, "SelfAttention behind trained positions", WHO)
    text = TextModel(
        settings=settings_of_all(blocks, [norm], WHO),
        context=x.shape[1],
        vocabulary=0,
        emb=embed.params.emb.param,
        pos=positions.params.pos.param,
        blocks=tuple(map(parts_of, blocks)),
        others=norm_parts(norm, "2"),
        post_norm=True,
    )
    first = getattr(positions.layer, "first", 0)
    return EncoderModel(text, None if kinds is None else kinds.params.emb.param, first, graph, stream)


def take_block(steps: deque[Node | Sum], stream: Value) -> tuple[Block, Value]:
    attn = take(steps, (SelfAttention,), stream, WHO)
    if attn.keywords.get("mask") is not None:
        raise EngineError(f"the native encoder has no SelfAttention with mask yet ({attn.name})")
    middle = take_sum(steps, stream, attn, WHO)
    norm1 = take(steps, (LayerNorm,), middle, WHO)
    ff = take(steps, (FeedForward,), norm1.y, WHO)
    norm2 = take(steps, (LayerNorm,), take_sum(steps, norm1.y, ff, WHO), WHO)
    return Block(norm1, attn, norm2, ff), norm2.y


def of_zeros(kinds: Any) -> Node:
    """A table that is read at 0 everywhere, as that of the kinds of text is where nobody says otherwise."""
    origin = kinds.x.origin
    if origin is None or origin.primitive != "broadcast_in_dim" or origin.read[0].literal != 0:
        raise EngineError(f"the native encoder has no Embedding of other numbers than the ids yet ({kinds.name})")
    return kinds
