"""Fused attention: what attention.py computes, in one kernel of the GPU's vendor (cuDNN), which holds no T x S pattern.

forward    scale = 1 / sqrt(D)      scores = masked(q @ k^T * scale, mask)      z = softmax(scores) @ v
backward   pattern = softmax(scores)    dscores = pattern * (dz @ v^T - sum(dz * z))
           dv = pattern^T @ dz          dq = dscores @ k * scale      dk = dscores^T @ q * scale

Both are the kernel's own; the cache keeps its backward as JAX's pullback. attention.py, written out, is its referee.
The kernel takes bfloat16 and float16 on NVIDIA GPUs, and heads whose width divides by 8. Elsewhere blockwise attention
(blockwise_attention.py) stands in: the same numbers, and `instead` says so. Padding must stand at the end of a
sequence: the kernel is told lengths. Where it stands elsewhere z is NaN rather than wrong.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.layers import blockwise_attention
from glassformer.layers.attend import Attend
from glassformer.layers.attention import Attention, Inputs
from glassformer.layers.blockwise_attention import BlockwiseAttention
from glassformer.layers.masks import Mask, as_mask, within
from glassformer.names import tag
from glassformer.shapes import Array, Bool, Float


class Cache(NamedTuple):
    q: Float[Array, "B T H D"]
    k: Float[Array, "B S H D"]
    v: Float[Array, "B S H D"]
    pullback: Any  # dz -> dq, dk, dv


@dataclass(frozen=True)
class FusedAttention(Attend):
    scale: float | None = None  # None: 1 / sqrt(D)
    called: ClassVar = "fused attention"
    cannot: ClassVar = ("bias", "dense", "window", "offset")

    @property
    def plain(self) -> Attention:
        return Attention(scale=self.scale)

    @property
    def blockwise(self) -> BlockwiseAttention:
        return BlockwiseAttention(scale=self.scale)

    def instead(self, dtype: Any, head_width: int) -> str:
        here = jax.default_backend()
        if here != "gpu":
            return f"fused attention is for GPUs; on this {here.upper()} blockwise attention stands in"
        if dtype not in (jnp.bfloat16, jnp.float16):
            return "fused attention takes bfloat16 (engine.precision=bf16); in float32 blockwise attention stands in"
        if head_width % 8 or head_width > widest(head_width):
            return (
                f"fused attention takes heads of a multiple of 8, up to {widest(head_width)} wide; at {head_width} "
                "blockwise attention stands in"
            )
        return ""

    def forward(
        self, params: None, x: Inputs, *, mask: Bool[Array, "#B #H #T #S"] | Mask | None = None
    ) -> tuple[Float[Array, "B T H D"], Cache | blockwise_attention.Cache]:
        mask = as_mask(mask)
        self.must_honour(mask, x.bias)
        if self.instead(x.q.dtype, x.q.shape[-1]):
            return self.blockwise.forward(params, x, mask=mask)
        q, k, v = tag("q", x.q), tag("k", x.k), tag("v", x.v)
        mask.show(q.shape[1], k.shape[1])
        keep = mask.kept(self.called, k)
        lengths = None if keep is None else jnp.sum(keep, axis=1, dtype=jnp.int32)
        z, pullback = jax.vjp(partial(self.kernel, mask.causal, lengths), q, k, v)
        if keep is not None and lengths is not None:
            at_the_end = jnp.all(keep == within(lengths, k.shape[1]))
            z = jnp.where(at_the_end, z, jnp.nan)
        return tag("z", z), Cache(q=q, k=k, v=v, pullback=pullback)

    def kernel(self, causal: bool, lengths: Array | None, q: Array, k: Array, v: Array) -> Array:
        return jax.nn.dot_product_attention(
            q, k, v, scale=self.scale, is_causal=causal, key_value_seq_lengths=lengths, implementation="cudnn"
        )

    def backward(self, params: None, cache: Any, dy: Float[Array, "B T H D"]) -> tuple[Inputs, None]:
        if isinstance(cache, blockwise_attention.Cache):
            return self.blockwise.backward(params, cache, dy)
        dq, dk, dv = cache.pullback(tag("dz", dy))
        return Inputs(q=tag("dq", dq), k=tag("dk", dk), v=tag("dv", dv)), None


def widest(head_width: int) -> int:
    """D that the kernel takes: 256 from Hopper on, before it 128. Narrow heads need not ask."""
    if head_width <= 128:
        return 128
    generation, _, _ = jax.local_devices()[0].compute_capability.partition(".")
    return 256 if int(generation) >= 9 else 128
