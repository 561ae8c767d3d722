"""The patch-attention classifier with one thing changed: what stands around its attention and its feed-forward.

image -> patches -> linear + positions + ReLU -> attention -> feed-forward -> mean over tokens -> linear -> logits

bare               f(x)               as in patch_attention.py, weight for weight
residual           x + f(x)           f: attention, then feed-forward
normed             f(norm(x))
normed-residual    x + f(norm(x))     the pre-norm block

For asking what a part is worth, one at a time. A seed draws the same weights in all of them: norms draw nothing, and
the matrices have the same shapes with one head or several, with an output projection or without.
"""

from dataclasses import dataclass

from glassformer.layers import (
    FeedForward,
    Layer,
    LayerNorm,
    MultiHeadAttention,
    PreNorm,
    ReLU,
    Residual,
    SelfAttention,
)
from glassformer.models.patch_attention import PatchAttention
from glassformer.registry import register


@register.part("bare")
@dataclass(frozen=True)
class Bare:
    def around(self, branch: Layer, width: int) -> Layer:
        return branch


@register.part("residual")
@dataclass(frozen=True)
class WithResidual:
    def around(self, branch: Layer, width: int) -> Layer:
        return Residual(branch)


@register.part("normed")
@dataclass(frozen=True)
class Normed:
    def around(self, branch: Layer, width: int) -> Layer:
        return PreNorm(LayerNorm(width), branch)


@register.part("normed-residual")
@dataclass(frozen=True)
class NormedResidual:
    def around(self, branch: Layer, width: int) -> Layer:
        return Residual(PreNorm(LayerNorm(width), branch))


Block = Bare | WithResidual | Normed | NormedResidual


@dataclass(frozen=True)
class PatchBlock(PatchAttention):
    block: Block = Bare()
    heads: int = 1  # H
    output: bool = False  # True: w_o behind the joined heads

    @property
    def attn(self) -> Layer:
        attn = SelfAttention(MultiHeadAttention(self.width, self.heads, output=self.output))
        return self.block.around(attn, self.width)

    @property
    def ff(self) -> Layer:
        return self.block.around(FeedForward(self.width, self.hidden, ReLU()), self.width)
