"""GPT, token by token.

start      the model's own forward over the whole prompt; the keys and values that it keeps for backward are kept here
step       one token through the blocks, each looking back at what its block has kept

Rows may be of different length: each has its own place. What fills up a shorter prompt lies behind it, where no real
token looks, and is overwritten as the row goes on.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.generate.decoder import check_prompts, check_step, filled_up
from glassformer.generate.kv_cache import KVCache, attend_next, padded_cache, take_rows
from glassformer.layers import grouped_query, tied_head
from glassformer.models import GPT
from glassformer.models.gpt import Params
from glassformer.shapes import Array, Float, Integer


@partial(jax.jit, static_argnames="model")
def read(
    model: GPT, params: Params, ids: Integer[Array, "B T"], lengths: Integer[Array, "B"]
) -> tuple[Float[Array, "B V"], tuple[KVCache, ...]]:
    """The scores behind each row's last real token, and what the blocks keep of all tokens."""
    _, cache = model.forward(params, ids)
    kept = tuple(padded_cache(*keys_and_values(block.attn), model.text.context) for block in cache.blocks)
    last = cache.head.x[jnp.arange(len(ids)), lengths - 1]
    scores, _ = model.head.forward(None, tied_head.Inputs(x=last, emb=cache.head.emb))
    return scores, kept


def keys_and_values(cache: Any) -> tuple[Float[Array, "B T H D"], Float[Array, "B T H D"]]:
    """With rotary positions, keys that are turned already."""
    return (cache.k_shared, cache.v_shared) if isinstance(cache, grouped_query.Cache) else (cache.k, cache.v)


@partial(jax.jit, static_argnames="model", donate_argnames="kept")
def onward(
    model: GPT, params: Params, kept: tuple[KVCache, ...], place: Integer[Array, "B"], tokens: Integer[Array, "B"]
) -> tuple[Float[Array, "B V"], tuple[KVCache, ...]]:
    """GPT.forward for one token of each row, standing at its place."""
    resid, _ = model.embed.forward(params.embed, tokens[:, None])
    if params.positions is not None and params.positions.pos is not None:
        resid = resid + params.positions.pos[place][:, None]
    block, blocks = model.block, []
    attn: Any = block.attn  # causal self-attention around multi-head or grouped-query
    for weights, memory in zip(params.blocks, kept, strict=True):
        h, _ = block.norm.forward(weights.norm1, resid)
        a, memory = attend_next(attn.multi_head, weights.attn, h, memory, place)
        resid = resid + a
        h, _ = block.norm.forward(weights.norm2, resid)
        f, _ = block.ff.forward(weights.ff, h)
        resid = resid + f
        blocks.append(memory)
    h, _ = model.norm.forward(params.norm, resid)
    table = params.embed if params.head is None else params.head
    scores, _ = model.head.forward(None, tied_head.Inputs(x=h[:, 0], emb=table.emb))
    return scores, tuple(blocks)


class JaxDecoder:
    def __init__(self, model: GPT, params: Params) -> None:
        self.model, self.params = model, jax.device_put(params)
        self.context = model.text.context
        self.kept: tuple[KVCache, ...] = ()
        self.places = np.zeros(0, np.int32)  # where the next token of each row will stand

    def start(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        check_prompts(ids, lengths, self.context)
        self.places = lengths.astype(np.int32)
        scores, self.kept = read(self.model, self.params, filled_up(ids, self.context), self.places)
        return np.asarray(scores)

    def step(self, tokens: np.ndarray) -> np.ndarray:
        check_step(tokens, len(self.places), self.places.max(initial=0), self.context)
        scores, self.kept = onward(self.model, self.params, self.kept, self.places, tokens.astype(np.int32))
        self.places = self.places + 1
        return np.asarray(scores)

    def reorder(self, rows: np.ndarray) -> None:
        self.kept, self.places = take_rows(self.kept, rows), self.places[rows]
