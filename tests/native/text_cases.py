"""The kernels of text models beside their Python twins, as in cases.py."""
# ruff: noqa: N803  -- arguments are axis letters, upper case by the project's rule

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer import layers
from glassformer.layers import attention, counted_positions, embedding, gated_feed_forward, rms_norm, tied_head
from glassformer.layers.masks import Mask
from glassformer.native.text_layers import HEAD_ROWS, head_work

from .cases import PAIRS, SIZES, Case, Values, doubled, draw, elementwise_case, empty, single, twin
from .compiled import Kernels

BOTH = (True, False)
ROWS = 32  # tokens in a tile of attention


def as_floats(ids: Any) -> np.ndarray:
    """Integers as they lie among floats."""
    return np.asarray(ids, np.int32).view(np.float32)


def sources(c: Kernels, n: int) -> int:
    return -(-n // (2 * c.lanes)) * 2 * c.lanes


def embedding_case(N: int, V: int, C: int) -> Case:
    ids = np.random.default_rng(N).integers(V, size=(1, N)).astype(np.int32)
    emb, dy, old = draw(V, C), draw(1, N, C, seed=1), draw(V, C, seed=2)

    def ours(c: Kernels) -> Values:
        y = c.call("embedding_forward", (empty(1, N, C), emb, as_floats(ids)), N, V, C)[0]
        demb = c.call("embedding_backward", (old, as_floats(ids), dy), N, V, C)[0]
        by_parts = old
        for first in range(0, V, 64):
            by_parts = c.call("embedding_part", (by_parts, as_floats(ids), dy), N, V, C, first)[0]
        same = c.call("embedding_same_forward", (empty(N, C), emb), N, C)[0]
        dsame = c.call("embedding_same_backward", (old[0].copy(), dy), N, C)[0]
        return {"y": y, "demb": demb, "demb_by_parts": by_parts, "same": same, "dsame": dsame}

    def truth() -> Values:
        y, _, _, d = twin(layers.Embedding(V, C), embedding.Params(emb=emb), ids, dy)
        found = {"same": np.repeat(emb[:1], N, 0), "dsame": old[0] + doubled(dy)[0].sum(0)}
        return {"y": y, "demb": old + d.emb, "demb_by_parts": old + d.emb, **found}

    return Case(f"embedding {N} of {V}x{C}", ours, truth)


def rotary_case(B: int, T: int, H: int, D: int) -> Case:
    layer, x, dy = layers.Rotary(), draw(B, T, H, D), draw(B, T, H, D, seed=1)
    angle = np.arange(T)[:, None] / 10000.0 ** (np.arange(0, D, 2) / D)
    table = tuple(wave(angle).astype(np.float32) for wave in (np.cos, np.sin))

    def ours(c: Kernels) -> Values:
        y = c.call("rotary_turn", (empty(B, T, H, D), *table, x), B, T, H, D, 1.0)[0]
        in_place = c.call("rotary_turn", (x, *table, x), B, T, H, D, 1.0)[0]
        return {"y": y, "in_place": in_place, "dx": c.call("rotary_turn", (dy, *table, dy), B, T, H, D, -1.0)[0]}

    def truth() -> Values:
        y, _, dx, _ = twin(layer, None, x, dy)
        return {"y": y, "in_place": y, "dx": dx}

    return Case(f"rotary {B}x{T}x{H}x{D}", ours, truth)


def rms_norm_case(N: int, C: int) -> Case:
    gain, x, dy = draw(C), draw(N, C) + 2, draw(N, C, seed=1)
    old_dx, old_dgain = draw(N, C, seed=2), draw(C, seed=4)

    def ours(c: Kernels) -> Values:
        y, xhat, rms_inv, *_ = c.call("rms_norm_forward", (empty(N, C), empty(N, C), empty(N), gain, x), N, C, 1e-6)
        kept = (gain, xhat, rms_inv, dy)
        dx, dgain, *_ = c.call("rms_norm_backward", (empty(N, C), old_dgain, *kept), N, C, 0)
        added = c.call("rms_norm_backward", (old_dx, None, *kept), N, C, 1)[0]
        return {"y": y, "xhat": xhat, "rms_inv": rms_inv, "dx": dx, "dx_added": added, "dgain": dgain}

    def truth() -> Values:
        y, kept, dx, d = twin(layers.RMSNorm(C), rms_norm.Params(gain=gain), x, dy)
        forward = {"y": y, "xhat": kept.xhat, "rms_inv": kept.rms_inv[:, 0]}
        return forward | {"dx": dx, "dx_added": old_dx + dx, "dgain": old_dgain + d.gain}

    return Case(f"rms norm {N}x{C}", ours, truth)


def gated_case(n: int) -> Case:
    """What stands between the three matrices of a gated feed-forward: identities in their place."""
    gate, up, dhidden = draw(n), draw(n, seed=1), draw(n, seed=2)

    def ours(c: Kernels) -> Values:
        hidden = c.call("gated_forward", (empty(n), gate, up), n)[0]
        dgate, dup, *_ = c.call("gated_backward", (empty(n), dhidden, gate, up, dhidden), n)
        return {"hidden": hidden, "dgate": dgate, "dup": dup}

    def truth() -> Values:
        eye = np.eye(n, dtype=np.float32)
        weights: Any = {"w_gate": np.diag(gate), "w_up": np.diag(up), "w_down": eye}
        params = gated_feed_forward.Params(**weights, b_gate=None, b_up=None, b_down=None)
        same: Any = Same()
        layer = layers.GatedFeedForward(n, n, same)
        ones = np.ones((1, 1, n), np.float32)
        y, _, _, d = twin(layer, params, ones, dhidden[None, None])
        return {"hidden": y[0, 0], "dgate": np.diag(d.w_gate), "dup": np.diag(d.w_up)}

    return Case(f"gated {n}", ours, truth)


class Same:
    """An activation that changes nothing."""

    def forward(self, params: None, x: Any) -> Any:
        return x, None

    def backward(self, params: None, cache: None, dy: Any) -> Any:
        return dy, None


def counted_positions_case(B: int, T: int, C: int, *, padded: bool) -> Case:
    layer = layers.CountedPositions(T + 3, C, first=2)
    pos, x, dy, old = draw(T + 3, C), draw(B, T, C), draw(B, T, C, seed=1), draw(T + 3, C, seed=2)
    keep = np.random.default_rng(T).random((B, T)) < 0.6 if padded else None

    def ours(c: Kernels) -> Values:
        unseen = None if keep is None else np.where(keep, 0, -np.inf).astype(np.float32)
        sizes = (B, T, C, 2, T if padded else 0)
        y = c.call("counted_positions_forward", (x, pos, x, unseen), *sizes)[0]
        return {"y": y, "dpos": c.call("counted_positions_backward", (old, dy, unseen), *sizes)[0]}

    def truth() -> Values:
        y, _, _, d = twin(layer, counted_positions.Params(pos=pos), x, dy, **({"keep": keep} if padded else {}))
        return {"y": y, "dpos": old + d.pos}

    return Case(f"counted positions {B}x{T}x{C}{', padded' * padded}", ours, truth)


def tied_head_case(N: int, C: int, V: int, *, bias: bool) -> Case:
    x, emb, dy = draw(N, C), draw(V, C, seed=1), draw(N, V, seed=2)
    b, old_demb = draw(V) if bias else None, draw(V, C, seed=3)
    old_db = draw(V, seed=4) if bias else None

    def ours(c: Kernels) -> Values:
        y = c.call("tied_head_forward", (empty(N, V), empty(C, 2 * c.lanes), emb, b, x), N, C, V)[0]
        dx = c.call("tied_head_backward_x", (empty(N, C), emb, dy), N, C, V)[0]
        demb, db, *_ = c.call("tied_head_backward_emb", (old_demb, old_db, x, dy), N, C, V)
        return {"y": y, "dx": dx, "demb": demb} | ({"db": db} if bias else {})

    def truth() -> Values:
        params = None if b is None else tied_head.Params(b=b)
        y, _, d, dparams = twin(layers.TiedHead(V, bias=bias), params, tied_head.Inputs(x=x, emb=emb), dy)
        found = {"y": y, "dx": d.x, "demb": old_demb + d.emb}
        return found | ({"db": old_db + dparams.b} if bias else {})

    return Case(f"tied head {N}x{C}x{V}{', bias' if bias else ''}", ours, truth)


def head_loss_case(N: int, C: int, V: int, counts: float, smoothing: float, *, bias: bool) -> Case:
    """A share of the tokens counts; the table's gradient is added to, part by part."""
    x, emb, rng = draw(N, C), draw(V, C, seed=1), np.random.default_rng(N)
    b, old_demb, old_db = (draw(V, seed=3), draw(V, C, seed=4), draw(V, seed=5)) if bias else (None, None, None)
    labels = rng.integers(V, size=N).astype(np.int32)
    share = (rng.random(N) * (rng.random(N) < counts)).astype(np.float32)
    filled = -(-N // HEAD_ROWS) * HEAD_ROWS

    def ours(c: Kernels) -> Values:
        made = (empty(1), empty(N, C), empty(filled, C), empty(4, filled), empty(head_work(C)))
        given = (emb, b, x, labels, share)
        loss, dx, tokens, facts, *_ = c.call("head_loss", (*made, *given), N, C, V, smoothing, returns=True)
        demb, db, work = np.zeros((V, C), np.float32) if old_demb is None else old_demb, old_db, empty(C + 128, 64)
        for first in range(0, V, 64):
            kept = (demb, db, work, emb, b, tokens, facts)
            demb, db, *_ = c.call("head_loss_part", kept, N, C, V, first, smoothing)
        return {"loss": loss, "dx": dx, "demb": demb} | ({} if db is None else {"db": db})

    def truth() -> Values:
        def loss(x: Any, emb: Any, b: Any) -> Any:
            log_p = jax.nn.log_softmax(x @ emb.T + b)
            at_label = log_p[jnp.arange(N), labels]
            return -jnp.sum(share * ((1 - single(smoothing)) * at_label + single(smoothing) * log_p.mean(1)))

        with jax.enable_x64(True):
            given = [doubled(one) for one in (x, emb, np.zeros(V, np.float32) if b is None else b)]
            value, (dx, demb, db) = jax.tree.map(np.asarray, jax.value_and_grad(loss, (0, 1, 2))(*given))
        if old_demb is None:
            return {"loss": [value], "dx": dx, "demb": demb}
        return {"loss": [value], "dx": dx, "demb": old_demb + demb, "db": old_db + db}

    about = f"{counts:.0%} count, smoothing {smoothing}{', bias' if bias else ''}"
    return Case(f"head and loss {N}x{C}x{V}, {about}", ours, truth)


def tiled_attention_case(
    B: int, T: int, H: int, J: int, D: int, *, causal: bool, padded: bool, window: int = 0, rate: float = 0.0
) -> Case:
    """Padding at the end; the first row is padded throughout, and sees nothing. The second of two layers drops out."""
    q, dz = draw(B, T, H, D), draw(B, T, H, D, seed=3)
    k, v = draw(B, T, J, D, seed=1), draw(B, T, J, D, seed=2)
    keep = np.arange(T) < np.random.default_rng(T).integers(1, T + 1, (B, 1)) if padded else None
    if keep is not None and B > 1:
        keep[0] = False
    key, place = jax.random.key(T), 3
    keys = np.array(
        [[place + b, 7, 7, *np.asarray(jax.random.key_data(key)).view(np.int32)] for b in range(B)], np.int32
    )
    drops = as_floats(keys) if rate else None
    sizes = (B, T, H, J, D, int(causal), window, D**-0.5, 5, 1, rate)

    def ours(c: Kernels) -> Values:
        row, unseen = sources(c, T), None
        if keep is not None:
            unseen = np.full((B, row), -np.inf, np.float32)
            unseen[:, :T] = np.where(keep, 0, -np.inf)
        outputs = (empty(B, T, H, D), empty(B, H, T), empty(D + ROWS, row))
        z, log_sum, *_ = c.call("tiled_attention_forward", (*outputs, q, k, v, unseen, drops), *sizes)
        outputs = (empty(B, T, H, D), empty(B, T, J, D), empty(B, T, J, D), empty(2 * (D + ROWS), row))
        dq, dk, dv, *_ = c.call("tiled_attention_backward", (*outputs, q, k, v, log_sum, dz, unseen, drops), *sizes)
        return {"z": z, "dq": dq, "dk": dk, "dv": dv}

    def truth() -> Values:
        mask = Mask(keep=None if keep is None else jnp.asarray(keep), causal=causal, window=window or None)
        shared: Any = {"k": np.repeat(k, H // J, 2), "v": np.repeat(v, H // J, 2)}
        spread = attention.Inputs(q=q, **shared)
        kept = np.asarray(jax.random.bernoulli(key, 1 - rate, (place + B, H, T, T))[place:]) / (1 - rate)
        z, _, d, _ = twin(Dropped(kept=kept) if rate else layers.Attention(), None, spread, dz, mask=mask)
        dk, dv = (np.asarray(one).reshape(B, T, J, H // J, D).sum(3) for one in (d.k, d.v))
        return {"z": z, "dq": d.q, "dk": dk, "dv": dv}

    shape = f"{B} samples of {T} tokens, {H} heads of {D} on {J}"
    how = f"{', causal' * causal}{', padded' * padded}{f', window {window}' * bool(window)}{', drops' * bool(rate)}"
    return Case(f"tiled attention {shape}{how}", ours, truth)


@dataclass(frozen=True)
class Dropped(layers.Attention):
    """With the weights that are dropped given: in float64 JAX would draw others."""

    kept: Any = None

    def forward(self, params: None, x: attention.Inputs, *, mask: Any = None, key: Any = None) -> Any:
        def attend(x: attention.Inputs) -> Any:
            _, cache = layers.Attention().forward(None, x, mask=mask)
            return jnp.einsum("bhts,bshd->bthd", cache.pattern * self.kept, x.v)

        return jax.vjp(attend, x)

    def backward(self, params: None, cache: Any, dy: Any) -> Any:
        return cache(dy)[0], None


def tokens_last_case(B: int, N: int, C: int) -> Case:
    x = draw(B, N, C)

    def ours(c: Kernels) -> Values:
        return {"y": c.call("tokens_last", (empty(B, C, N), x), B, N, C)[0]}

    return Case(f"tokens last {B}x{N}x{C}", ours, lambda: {"y": np.swapaxes(x, 1, 2)})


def dropout_case(B: int, n: int, rate: float) -> Case:
    """The second of three layers, and a group that does not begin its batch: place 3 is the fourth of eight samples."""
    x, key = draw(B, n), jax.random.key(n)
    keys = np.tile(np.array([0, 7, 7, *np.asarray(jax.random.key_data(key)).view(np.int32), 7, 7], np.int32), (B, 1))
    keys[:, 0] = 3 + np.arange(B)

    def ours(c: Kernels) -> Values:
        y = c.call("dropout_apply", (empty(B, n), as_floats(keys), x), B, n, 7, 1, rate)[0]
        return {"y": y, "in_place": c.call("dropout_apply", (x, as_floats(keys), x), B, n, 7, 1, rate)[0]}

    def truth() -> Values:
        whole = jnp.zeros((8, n)).at[3 : 3 + B].set(x)
        y, _ = layers.Dropout(rate).forward(None, whole, key=key)
        return dict.fromkeys(("y", "in_place"), np.asarray(y)[3 : 3 + B])

    return Case(f"dropout {B}x{n} of {rate}", ours, truth)


def words_case(n: int) -> Case:
    words = np.arange(2 * n, dtype=np.int32)

    def ours(c: Kernels) -> Values:
        copied = c.call("words_forward", (empty(n), words), n, n)[0].view(np.int32)
        unseen = c.call("padding_forward", (empty(n + 3), words % 3), n, n + 3, n)[0]
        return {"words": copied, "weights": np.exp(unseen)}

    def truth() -> Values:
        return {"words": words[n:], "weights": np.pad(words[n:] % 3 > 0, (0, 3)).astype(float)}

    return Case(f"words {n}", ours, truth)


ATTENTION = [  # samples, T, heads, heads of keys, their width
    (2, 5, 1, 1, 1),
    (2, 33, 4, 2, 3),
    (2, 17, 6, 2, 8),
    (1, 64, 2, 1, 16),
    (2, 71, 3, 3, 17),
    (3, 1, 2, 2, 6),
]
WINDOWS = [  # which of these, causal, padded, window, rate
    (4, True, False, 3, 0.0),
    (4, False, True, 5, 0.0),
    (3, False, False, 40, 0.2),
    (4, True, True, 1, 0.0),
    (4, True, True, 0, 0.3),
    (1, False, True, 100, 0.1),
]
TEXT_CASES = [
    *(embedding_case(N, V, C) for N, V, C in ((1, 3, 7), (9, 5, 16), (33, 65, 17))),
    *(rotary_case(*sizes) for sizes in ((1, 3, 2, 2), (2, 7, 3, 14), (1, 5, 1, 64))),
    *(counted_positions_case(2, *sizes, padded=p) for sizes in ((5, 7), (9, 17)) for p in BOTH),
    *(rms_norm_case(N, C) for N, C in PAIRS),
    *(elementwise_case("silu", layers.SiLU(), n) for n in SIZES),
    *(elementwise_case("tanh", layers.Tanh(), n) for n in SIZES),
    *(gated_case(n) for n in (1, 7, 16, 33)),
    *(tied_head_case(*sizes, bias=b) for sizes in ((3, 7, 5), (17, 33, 65), (8, 16, 64)) for b in BOTH),
    *(
        head_loss_case(*sizes, *how, bias=b)
        for sizes in ((3, 7, 5), (33, 17, 129), (150, 16, 64))
        for how, b in (((1.0, 0.0), False), ((0.4, 0.1), True))
    ),
    head_loss_case(5, 7, 65, 0.0, 0.1, bias=True),
    *(tiled_attention_case(*sizes, causal=c, padded=p) for sizes in ATTENTION for c in BOTH for p in BOTH),
    *(tiled_attention_case(*ATTENTION[at], causal=c, padded=p, window=w, rate=r) for at, c, p, w, r in WINDOWS),
    *(tokens_last_case(2, N, C) for N, C in ((7, 2), (17, 5))),
    *(dropout_case(B, n, rate) for B, n, rate in ((1, 16, 0.5), (2, 33, 0.1), (4, 7, 0.9))),
    *(words_case(n) for n in (1, 17)),
]
