"""T5, token by token: the prompt is read once, then the answer is written behind a start token.

start      the encoder over the prompts; of its memory, the keys and values that each block's cross-attention will look
           at; then the first step, with the start token
step       one token through the decoder's blocks, with the row of the relative bias that belongs to its place

All rows stand at the same place: a longer prompt has a longer memory, not a later answer.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.generate.decoder import check_prompts, check_step, filled_up
from glassformer.generate.kv_cache import KVCache, attend_cached, attend_next, take_rows
from glassformer.layers import relative_bias, tied_head
from glassformer.layers.linear import project
from glassformer.layers.masks import padding, within
from glassformer.models import T5
from glassformer.models.t5 import Params
from glassformer.shapes import Array, Bool, Float, Integer


class Source(NamedTuple):
    """What was read."""

    keep: Bool[Array, "B S"]
    blocks: tuple[KVCache, ...]  # for the cross-attention of each block


@partial(jax.jit, static_argnames="model")
def read(model: T5, params: Params, ids: Integer[Array, "B S"], lengths: Integer[Array, "B"]) -> Source:
    keep = within(lengths, ids.shape[1])
    tokens, _ = model.embed.forward(params.embed, ids)
    memory, _ = model.encode(params.encoder, tokens, padding(keep), None)
    split = model.attn.split
    crosses = [block.cross for block in params.decoder.blocks]
    return Source(
        keep=keep,
        blocks=tuple(
            KVCache(k=split(project(memory, cross.w_k, cross.b_k)), v=split(project(memory, cross.w_v, cross.b_v)))
            for cross in crosses
        ),
    )


@partial(jax.jit, static_argnames="model", donate_argnames="kept")
def onward(
    model: T5,
    params: Params,
    source: Source,
    kept: tuple[KVCache, ...],
    place: Integer[Array, ""],
    tokens: Integer[Array, "B"],
) -> tuple[Float[Array, "B V"], tuple[KVCache, ...]]:
    """What T5.forward gives behind the last token of its target, from that token and what was kept of the others."""
    sources = jnp.arange(model.text.context)
    bias, _ = model.decoder_bias.forward(
        params.decoder.bias, relative_bias.Inputs(query=place[None], memory=sources)
    )  # (1, H, 1, M)
    places = jnp.full(len(tokens), place)
    resid, _ = model.embed.forward(params.embed, tokens[:, None])
    norm, attn, ff, blocks = model.norm, model.attn, model.ff, []
    for weights, memory, cross in zip(params.decoder.blocks, kept, source.blocks, strict=True):
        h, _ = norm.forward(weights.norm1, resid)
        a, memory = attend_next(attn, weights.attn, h, memory, places, bias)
        resid = resid + a
        h, _ = norm.forward(weights.norm2, resid)
        q = attn.split(project(h, weights.cross.w_q, weights.cross.b_q))
        resid = resid + attend_cached(attn, weights.cross, q, cross, source.keep)
        h, _ = norm.forward(weights.norm3, resid)
        f, _ = ff.forward(weights.ff, h)
        resid = resid + f
        blocks.append(memory)
    h, _ = norm.forward(params.decoder.norm, resid)
    table = params.embed if params.head is None else params.head
    scores, _ = model.head.forward(None, tied_head.Inputs(x=h[:, 0], emb=table.emb))
    return scores, tuple(blocks)


class T5Decoder:
    """`context` bounds what is read and, by itself, what is written."""

    def __init__(self, model: T5, params: Params, start_token: int = 0) -> None:
        self.model, self.params, self.start_token = model, jax.device_put(params), start_token
        self.context = model.text.context
        self.source: Any = None  # a Source, once something was read
        self.read_by = np.zeros(0, int)  # which prompt each row looks at
        self.kept: tuple[KVCache, ...] = ()
        self.place = 0

    def start(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        check_prompts(ids, lengths, self.context)
        self.source = read(self.model, self.params, filled_up(ids, self.context), lengths.astype(np.int32))
        self.read_by, self.place = np.arange(len(ids)), 0
        shape = (len(ids), self.context, self.model.heads, self.model.head_width)
        dtype = self.source.blocks[0].k.dtype
        self.kept = tuple(KVCache(k=jnp.zeros(shape, dtype), v=jnp.zeros(shape, dtype)) for _ in self.source.blocks)
        return self.step(np.full(len(ids), self.start_token))

    def step(self, tokens: np.ndarray) -> np.ndarray:
        check_step(tokens, len(self.read_by), self.place, self.context)
        place = np.array(self.place, np.int32)
        scores, self.kept = onward(self.model, self.params, self.source, self.kept, place, tokens.astype(np.int32))
        self.place += 1
        return np.asarray(scores)

    def reorder(self, rows: np.ndarray) -> None:
        self.kept = take_rows(self.kept, rows)
        read_by = self.read_by[rows]
        if not np.array_equal(read_by, self.read_by):  # beams of one prompt change places, and look at the same
            self.source = take_rows(self.source, rows)
        self.read_by = read_by
