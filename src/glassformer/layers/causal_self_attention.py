"""Causal self-attention: a sequence looks at itself, each token at itself and at what came before.

backward   dx = dquery + dmemory

Token t sees the tokens 0 … t and, of those, what the mask allows; else self_attention.py: a mask has no gradient.
As in GPT: put it into a block, and the block is a language model's. A mask is only needed for padding.
"""

from dataclasses import dataclass

from glassformer.layers.masks import Mask, and_causal
from glassformer.layers.self_attention import Cache, Params, SelfAttention
from glassformer.shapes import Array, Bool, Float, Key


@dataclass(frozen=True)
class CausalSelfAttention(SelfAttention):
    def forward(
        self,
        params: Params,
        x: Float[Array, "B T C"],
        *,
        mask: Bool[Array, "#B #H #T #T"] | Mask | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "B T C"], Cache]:
        return super().forward(params, x, mask=and_causal(mask), key=key)
