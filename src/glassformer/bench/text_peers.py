"""Language models once more in PyTorch, for peers.py: GPT, Llama and BERT with its masked head, written for speed.

The attention of each is plain or PyTorch's own fused one; keys and values that several heads share are repeated in the
former. Of a padded text every real token sees the real ones.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

Attend = Callable[..., "Tensor"]  # q, k, v -> z, each (..., tokens, head width)
Forward = Callable[..., "Tensor"]  # weights, ids, padding mask or None -> logits, one row for each label


def written_out(q: "Tensor", k: "Tensor", v: "Tensor", hidden: "Tensor | None" = None) -> "Tensor":
    """`hidden` is True where a query does not look."""
    if k.shape[-3] < q.shape[-3] and q.dim() > 3:
        groups = q.shape[-3] // k.shape[-3]
        k, v = k.repeat_interleave(groups, -3), v.repeat_interleave(groups, -3)
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    return scores.softmax(-1) @ v


def looking_back(tokens: int, mode: str, *, grouped: bool = False) -> Attend:
    """Causal attention over so many tokens; `grouped`: several heads share keys and values."""
    import torch
    import torch.nn.functional as F  # noqa: N812

    if mode != "eager":
        return partial(F.scaled_dot_product_attention, is_causal=True, **({"enable_gqa": True} if grouped else {}))
    return partial(written_out, hidden=torch.ones(tokens, tokens, dtype=torch.bool).triu(1))


def among_real(mode: str, q: "Tensor", k: "Tensor", v: "Tensor", keep: "Tensor") -> "Tensor":
    """Attention to what is no padding."""
    import torch.nn.functional as F  # noqa: N812

    if mode != "eager":
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keep[:, None, None])
    return written_out(q, k, v, hidden=~keep[:, None, None])


def gpt(attend: Attend, heads: int, weights: Any, ids: "Tensor", keep: None = None) -> "Tensor":
    import torch.nn.functional as F  # noqa: N812

    x = F.embedding(ids, weights.embed.emb) + weights.positions.pos
    for block in weights.blocks:
        x = through(block, x, attend, heads, gelu="tanh")
    return F.linear(norm(weights.norm, x), weights.embed.emb).flatten(0, 1)


def through(block: Any, x: "Tensor", attend: Attend, heads: int, gelu: str) -> "Tensor":
    """A pre-norm block; `gelu` is the approximation, `none` for the exact one: as ours."""
    import torch.nn.functional as F  # noqa: N812

    attn, ff = block.attn, block.ff
    x = x + F.linear(attended(attn, norm(block.norm1, x), attend, heads), attn.w_o, attn.b_o)
    hidden = F.gelu(F.linear(norm(block.norm2, x), ff.w_up, ff.b_up), approximate=gelu)
    return x + F.linear(hidden, ff.w_down, ff.b_down)


def attended(attn: Any, x: "Tensor", attend: Attend, heads: int) -> "Tensor":
    """What the heads find, side by side."""
    import torch.nn.functional as F  # noqa: N812

    qkv = F.linear(x, attn.w_qkv, attn.b_qkv)
    q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in qkv.chunk(3, -1))
    return attend(q, k, v).transpose(1, 2).flatten(2)


def norm(weights: Any, x: "Tensor", eps: float = 1e-5) -> "Tensor":
    import torch.nn.functional as F  # noqa: N812

    return F.layer_norm(x, x.shape[-1:], weights.gain, weights.bias, eps)


def llama(model: Any, attend: Attend) -> Forward:
    import torch
    import torch.nn.functional as F  # noqa: N812

    width, tokens = model.attn.per_head, model.text.context
    angle = torch.arange(tokens)[:, None] * model.rotary.base ** -(torch.arange(0, width, 2) / width)
    cos, sin, sizes = angle.cos(), angle.sin(), [n * width for n in (model.heads, model.key_heads, model.key_heads)]

    def rotated(x: "Tensor") -> "Tensor":
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(weights: Any, ids: "Tensor", keep: None = None) -> "Tensor":
        x = F.embedding(ids, weights.embed.emb)
        for block in weights.blocks:
            attn, ff = block.attn, block.ff
            h = F.rms_norm(x, x.shape[-1:], block.norm1.gain, model.eps)
            parts = F.linear(h, attn.w_qkv).split(sizes, -1)
            q, k, v = (part.unflatten(-1, (-1, width)).transpose(1, 2) for part in parts)
            x = x + F.linear(attend(rotated(q), rotated(k), v).transpose(1, 2).flatten(2), attn.w_o)
            h = F.rms_norm(x, x.shape[-1:], block.norm2.gain, model.eps)
            x = x + F.linear(F.silu(F.linear(h, ff.w_gate)) * F.linear(h, ff.w_up), ff.w_down)
        return F.linear(F.rms_norm(x, x.shape[-1:], weights.norm.gain, model.eps), weights.embed.emb).flatten(0, 1)

    return forward


def bert(model: Any, mode: str) -> Forward:
    import torch.nn.functional as F  # noqa: N812

    heads, eps = model.bert.heads, model.bert.eps

    def forward(weights: Any, ids: "Tensor", keep: "Tensor") -> "Tensor":
        own, head = weights.bert, weights.head
        x = F.embedding(ids, own.embed.emb) + own.segment.emb[0] + own.positions.pos[: ids.shape[1]]
        x = norm(own.norm, x, eps)
        for block in own.blocks:
            attn, ff = block.attn, block.ff
            z = attended(attn, x, partial(among_real, mode, keep=keep), heads)
            x = norm(block.norm1, x + F.linear(z, attn.w_o, attn.b_o), eps)
            f = F.linear(F.gelu(F.linear(x, ff.w_up, ff.b_up)), ff.w_down, ff.b_down)
            x = norm(block.norm2, x + f, eps)
        h = norm(head.norm, F.gelu(F.linear(x, head.transform.w, head.transform.b)), eps)
        return F.linear(h, own.embed.emb, head.decoder.b).flatten(0, 1)

    return forward
