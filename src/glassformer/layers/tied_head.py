"""Tied output head: how well a token's vector matches each row of the embedding table it was once looked up in.

forward    logits = x @ emb^T * scale + b
backward   dx = dlogits @ emb * scale      demb = dlogits^T @ x * scale      db = sum_tokens(dlogits)

The table belongs to the embedding and comes in beside x; the model adds the gradient found here to the one found there:
demb = demb_input + demb_output. No bias in GPT-2 and T5, one in BERT; T5 scales by 1 / sqrt(C).
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from glassformer.errors import at_least, expect
from glassformer.layers.precision import wide, wide_product
from glassformer.names import tag
from glassformer.shapes import Array, Float, Key


class Params(NamedTuple):
    b: Float[Array, "V"]


class Inputs(NamedTuple):
    x: Float[Array, "*B C"]
    emb: Float[Array, "V C"]


class Cache(NamedTuple):
    x: Float[Array, "*B C"]
    emb: Float[Array, "V C"]


@dataclass(frozen=True)
class TiedHead:
    vocabulary: int  # V
    bias: bool = False
    scale: float = 1.0

    def __post_init__(self) -> None:
        at_least("tied head", 1, vocabulary=self.vocabulary)

    def init(self, key: Key) -> Params | None:
        return Params(b=jnp.zeros(self.vocabulary)) if self.bias else None

    def forward(self, params: Params | None, x: Inputs) -> tuple[Float[Array, "*B V"], Cache]:
        expect("tied head", "number of rows of the table", x.emb.shape[0], self.vocabulary)
        expect("tied head", "width of the input", x.x.shape[-1], x.emb.shape[-1])
        tokens, emb = tag("x", x.x), tag("emb", x.emb)
        logits = tokens @ emb.T * self.scale
        logits = tag("logits", logits if params is None else logits + params.b)
        return logits, Cache(x=tokens, emb=emb)

    def backward(self, params: Params | None, cache: Cache, dy: Float[Array, "*B V"]) -> tuple[Inputs, Params | None]:
        dlogits = tag("dlogits", dy)
        flat, tokens = dlogits.reshape(-1, self.vocabulary), cache.x.reshape(-1, cache.x.shape[-1])
        # logits = x @ emb^T * scale + b
        db = None if params is None else jnp.sum(wide(flat), axis=0)
        dx = tag("dx", dlogits @ cache.emb * self.scale)
        demb = tag("demb", wide_product(flat.T, tokens) * self.scale)
        return Inputs(x=dx, emb=demb), None if db is None else Params(b=db)
