"""The models once more, in plain NumPy and float64, one token and one head after the other where that is clearer.

Nothing of the package is used but the names of the weights. `look` may change an attention pattern on its way:
finite differences of it are the gradient of a pattern.
"""

from collections.abc import Callable, Mapping
from math import erf, pi, sqrt
from typing import Any, NamedTuple

import numpy as np

Weights = Mapping[str, np.ndarray]
Look = Callable[[str, np.ndarray], np.ndarray]  # (name of the pattern, pattern) -> the pattern to go on with


class Seen(NamedTuple):
    logits: np.ndarray
    stream: dict[str, np.ndarray]  # after each block
    written: dict[str, np.ndarray]  # what each part wrote into the stream: (B, T, C)
    patterns: dict[str, np.ndarray]


def as_seen(name: str, pattern: np.ndarray) -> np.ndarray:
    return pattern


def weights_of(params: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.asarray(leaf, np.float64) for name, leaf in params.items()}


def layer_norm(x: np.ndarray, w: Weights, name: str, eps: float) -> np.ndarray:
    spread = np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    return (x - x.mean(axis=-1, keepdims=True)) / spread * w[f"{name}.gain"] + w[f"{name}.bias"]


def rms_norm(x: np.ndarray, w: Weights, name: str, eps: float) -> np.ndarray:
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * w[f"{name}.gain"]


def gelu(x: np.ndarray) -> np.ndarray:
    return x * (1 + np.vectorize(erf)(x / sqrt(2))) / 2


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2


def relu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, 0)


class Pass:
    """One forward; collects what it comes by."""

    def __init__(self, w: Weights, look: Look) -> None:
        self.w, self.look = w, look
        self.stream: dict[str, np.ndarray] = {}
        self.written: dict[str, np.ndarray] = {}
        self.patterns: dict[str, np.ndarray] = {}

    def heads(
        self,
        name: str,
        query: np.ndarray,
        memory: np.ndarray,
        count: int,
        *,
        allowed: np.ndarray | None = None,
        bias: np.ndarray | None = None,
        scale: float | None = None,
        turn: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> np.ndarray:
        """What attention adds; what each head wrote is kept as `<name>.<head>`, the bias as `<name>.b_o`."""
        w = self.w
        q, k, v = (
            side @ w[f"{name}.w_{letter}"] + w.get(f"{name}.b_{letter}", 0)
            for side, letter in ((query, "q"), (memory, "k"), (memory, "v"))
        )
        D = q.shape[-1] // count
        looks = []
        for h in range(count):
            own = slice(h * D, (h + 1) * D)
            q_h, k_h = (turn(one[..., own]) if turn else one[..., own] for one in (q, k))
            scores = q_h @ k_h.swapaxes(1, 2) * (D**-0.5 if scale is None else scale)
            if bias is not None:
                scores = scores + bias[h]
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            if allowed is not None:
                weights = np.where(allowed, weights, 0)
            looks.append(weights / weights.sum(axis=-1, keepdims=True))
        pattern = self.patterns[f"{name}.pattern"] = self.look(f"{name}.pattern", np.stack(looks, axis=1))
        total = 0
        for h in range(count):
            own = slice(h * D, (h + 1) * D)
            part = pattern[:, h] @ v[..., own] @ w[f"{name}.w_o"][own]
            self.written[f"{name}.{h}"] = part
            total = total + part
        if f"{name}.b_o" in w:
            self.written[f"{name}.b_o"] = np.broadcast_to(w[f"{name}.b_o"], query.shape)
            total = total + w[f"{name}.b_o"]
        return np.asarray(total)

    def feed_forward(self, name: str, h: np.ndarray, activation: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        w = self.w
        hidden = h @ w[f"{name}.w_up"] + w.get(f"{name}.b_up", 0)
        hidden = activation(h @ w[f"{name}.w_gate"]) * hidden if f"{name}.w_gate" in w else activation(hidden)
        self.written[f"{name}.hidden"] = hidden @ w[f"{name}.w_down"]
        if f"{name}.b_down" in w:
            self.written[f"{name}.b_down"] = np.broadcast_to(w[f"{name}.b_down"], h.shape)
        return hidden @ w[f"{name}.w_down"] + w.get(f"{name}.b_down", 0)

    def seen(self, logits: np.ndarray) -> Seen:
        return Seen(logits, self.stream, self.written, self.patterns)


def vit(model: Any, w: Weights, images: np.ndarray, look: Look = as_seen) -> Seen:
    """Patches one by one, row after row."""
    own, P = Pass(w, look), model.patch_size
    rows, columns, _ = model.images.shape
    pixels = (images / 255 - model.images.mean) / model.images.std
    patches = [
        pixels[:, y : y + P, x : x + P].reshape(len(images), -1)
        for y in range(0, rows, P)
        for x in range(0, columns, P)
    ]
    tokens = np.stack(patches, axis=1) @ w["patch.w"] + w["patch.b"]
    if model.with_class_token:
        first = np.broadcast_to(w["class_token.token"], (len(images), 1, model.width))
        own.written["class_token.token"] = np.concatenate([first, np.zeros_like(tokens)], axis=1)
        own.written["patch.y"] = np.concatenate([np.zeros_like(first), tokens], axis=1)
        tokens = np.concatenate([first, tokens], axis=1)
    else:
        own.written["patch.y"] = tokens
    own.written["positions.pos"] = np.broadcast_to(w["positions.pos"], tokens.shape)
    x = tokens + w["positions.pos"]
    for i in range(model.depth):
        name = f"blocks.{i}"
        h = layer_norm(x, w, f"{name}.norm1", model.eps)
        x = x + own.heads(f"{name}.attn", h, h, model.heads)
        x = x + own.feed_forward(f"{name}.ff", layer_norm(x, w, f"{name}.norm2", model.eps), gelu)
        own.stream[f"{name}.resid_post"] = x
    return own.seen(vit_answer(model, w, x))


def vit_answer(model: Any, w: Weights, x: np.ndarray) -> np.ndarray:
    h = layer_norm(x, w, "norm", model.eps)
    pooled = h[:, 0] if model.with_class_token else h.mean(axis=1)
    return pooled @ w["head.w"] + w["head.b"]


def gpt(model: Any, w: Weights, ids: np.ndarray, look: Look = as_seen, keep: np.ndarray | None = None) -> Seen:
    own, T = Pass(w, look), ids.shape[1]
    x = own.written["embed.y"] = w["embed.emb"][ids]
    if "positions.pos" in w:
        own.written["positions.pos"] = np.broadcast_to(w["positions.pos"][:T], x.shape)
        x = x + w["positions.pos"][:T]
    allowed = np.tril(np.ones((T, T), bool))[None]
    if keep is not None:
        allowed = allowed & keep[:, None, :]
    turn = None if model.rotary is None else turned
    for i in range(model.depth):
        name = f"blocks.{i}"
        h = layer_norm(x, w, f"{name}.norm1", model.eps)
        x = x + own.heads(f"{name}.attn", h, h, model.heads, allowed=allowed, turn=turn)
        x = x + own.feed_forward(f"{name}.ff", layer_norm(x, w, f"{name}.norm2", model.eps), gelu_tanh)
        own.stream[f"{name}.resid_post"] = x
    return own.seen(gpt_answer(model, w, x))


def gpt_answer(model: Any, w: Weights, x: np.ndarray) -> np.ndarray:
    return layer_norm(x, w, "norm", model.eps) @ w.get("head.emb", w["embed.emb"]).T


def turned(x: np.ndarray) -> np.ndarray:
    """Rotary positions as complex numbers: value i and value i + D/2 are one number, turned by its angle."""
    T, D = x.shape[-2:]
    angle = np.arange(T)[:, None] * 10000.0 ** -(np.arange(D // 2) * 2 / D)
    number = (x[..., : D // 2] + 1j * x[..., D // 2 :]) * np.exp(1j * angle)
    return np.concatenate([number.real, number.imag], axis=-1)


def bert(model: Any, w: Weights, ids: np.ndarray, look: Look = as_seen, keep: np.ndarray | None = None) -> Seen:
    """A BERTFor with a masked or a class head; no segments."""
    own, reader = Pass(w, look), model.bert
    T = ids.shape[1]
    x = w["bert.embed.emb"][ids] + w["bert.segment.emb"][0] + w["bert.positions.pos"][:T]
    x = layer_norm(x, w, "bert.norm", reader.eps)
    allowed = None if keep is None else keep[:, None, :]
    for i in range(reader.depth):
        name = f"bert.blocks.{i}"
        x = x + own.heads(f"{name}.attn", x, x, reader.heads, allowed=allowed)
        x = layer_norm(x, w, f"{name}.norm1", reader.eps)
        x = layer_norm(x + own.feed_forward(f"{name}.ff", x, gelu), w, f"{name}.norm2", reader.eps)
        own.stream[f"{name}.norm2.y"] = x
    return own.seen(bert_answer(model, w, x))


def bert_answer(model: Any, w: Weights, x: np.ndarray) -> np.ndarray:
    if "head.pool.w" in w:
        h = np.tanh(x[:, 0] @ w["head.pool.w"] + w["head.pool.b"])
        return h @ w["head.classify.w"] + w["head.classify.b"]
    h = layer_norm(gelu(x @ w["head.transform.w"] + w["head.transform.b"]), w, "head.norm", model.head.eps)
    return h @ w.get("head.emb", w["bert.embed.emb"]).T + w["head.decoder.b"]


def t5(
    model: Any,
    w: Weights,
    source: np.ndarray,
    target: np.ndarray,
    look: Look = as_seen,
    keep: np.ndarray | None = None,
) -> Seen:
    """With sequences so short that every distance has a bucket of its own: at most a quarter, or half, of them."""
    own, (S, T) = Pass(w, look), (source.shape[1], target.shape[1])
    activation = gelu_tanh if model.gated else relu
    both, back = model.buckets // 2, model.buckets
    assert both // 2 >= S
    assert back // 2 >= T

    def bias(name: str, length: int, bucket: Callable[[int], int]) -> np.ndarray:
        table = w[f"{name}.bias.table"]
        return np.array([[table[bucket(s - t)] for s in range(length)] for t in range(length)]).transpose(2, 0, 1)

    ahead = bias("encoder", S, lambda way: abs(way) + both * (way > 0))
    behind = bias("decoder", T, lambda way: max(-way, 0))
    visible = None if keep is None else keep[:, None, :]
    x = w["embed.emb"][source]
    for i in range(model.depth):
        name = f"encoder.blocks.{i}"
        h = rms_norm(x, w, f"{name}.norm1", model.eps)
        x = x + own.heads(f"{name}.attn", h, h, model.heads, scale=1.0, bias=ahead, allowed=visible)
        x = x + own.feed_forward(f"{name}.ff", rms_norm(x, w, f"{name}.norm2", model.eps), activation)
    memory = rms_norm(x, w, "encoder.norm", model.eps)
    x = own.written["embed_target.y"] = w["embed.emb"][target]
    allowed = np.tril(np.ones((T, T), bool))[None]
    for i in range(model.decoder_blocks):
        name = f"decoder.blocks.{i}"
        h = rms_norm(x, w, f"{name}.norm1", model.eps)
        x = x + own.heads(f"{name}.attn", h, h, model.heads, scale=1.0, bias=behind, allowed=allowed)
        h = rms_norm(x, w, f"{name}.norm2", model.eps)
        x = x + own.heads(f"{name}.cross", h, memory, model.heads, scale=1.0, allowed=visible)
        x = x + own.feed_forward(f"{name}.ff", rms_norm(x, w, f"{name}.norm3", model.eps), activation)
        own.stream[f"{name}.resid_post"] = x
    return own.seen(t5_answer(model, w, x))


def t5_answer(model: Any, w: Weights, x: np.ndarray) -> np.ndarray:
    scale = 1 if "head.emb" in w else model.width**-0.5
    return rms_norm(x, w, "decoder.norm", model.eps) @ w.get("head.emb", w["embed.emb"]).T * scale
