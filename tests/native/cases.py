"""Every kernel beside its Python twin: how to call the one, and what the other says.

A case draws its arrays once. `ours` calls the kernels and names what they computed; `truth` names the same, from the
twin, computed in float64 on the same float32 numbers: so a difference is the kernel's own error. What adds to a
gradient is given something to add to, and what works in place is called in place.
"""
# ruff: noqa: N803, E741  -- arguments are axis letters, upper case by the project's rule

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import numpy as np
import optax

from glassformer import layers, losses
from glassformer.layers import attention, class_token, layer_norm, linear, positions

from .compiled import Instance, Kernels, Recorder

SIZES = (1, 3, 7, 10, 15, 16, 17, 31, 33, 49, 64, 65)  # multiples of a vector's width, and not

Values = dict[str, Any]


@dataclass(frozen=True)
class Case:
    name: str
    ours: Callable[[Kernels], Values]
    truth: Callable[[], Values]

    def __str__(self) -> str:
        return self.name


def draw(*shape: int, seed: int = 0) -> Any:
    rng = np.random.default_rng([seed, *shape])
    return rng.normal(size=shape).astype(np.float32)


def empty(*shape: int) -> np.ndarray:
    """To be overwritten: what is left of this shows."""
    return np.full(shape, np.nan, np.float32)


def twin(layer: Any, params: Any, x: Any, dy: Any, **keywords: Any) -> tuple[Any, Any, Any, Any]:
    """(y, cache, dx, dparams) of a layer, in float64."""

    @jax.jit
    def both(params: Any, x: Any, dy: Any, keywords: Any) -> Any:
        y, cache = layer.forward(params, x, **keywords)
        return y, cache, *layer.backward(params, cache, dy)

    with jax.enable_x64(True):
        params, x, dy, keywords = jax.tree.map(doubled, (params, x, dy, keywords))
        return jax.tree.map(np.asarray, both(params, x, dy, keywords))


def doubled(array: Any) -> Any:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def single(value: float) -> float:
    """The number that C has."""
    return float(np.float32(value))


def linear_case(N: int, I: int, O: int, *, bias: bool) -> Case:
    x, w, dy = draw(N, I), draw(I, O), draw(N, O, seed=1)
    b = draw(O) if bias else None
    old_dx, old_dw, old_db = draw(N, I, seed=2), draw(I, O, seed=2), draw(O, seed=2) if bias else None

    def ours(c: Kernels) -> Values:
        y = c.call("linear_forward", (empty(N, O), w, b, x), N, I, O)[0]
        w_t = c.call("transposed", (empty(O, I), w), I, O)[0]
        dx = c.call("linear_backward_x", (empty(N, I), w_t, dy), N, I, O, 0)[0]
        dx_added = c.call("linear_backward_x", (old_dx, w_t, dy), N, I, O, 1)[0]
        dw, db, *_ = c.call("linear_backward_w", (old_dw, old_db, x, dy), N, I, O)
        return {"y": y, "dx": dx, "dx_added": dx_added, "dw": dw} | ({"db": db} if bias else {})

    def truth() -> Values:
        y, _, dx, d = twin(layers.Linear(I, O, bias=bias), linear.Params(w=w, b=b), x, dy)
        gradients = {"dx": dx, "dx_added": old_dx + dx, "dw": old_dw + d.w}
        return {"y": y} | gradients | ({"db": old_db + d.b} if bias else {})

    return Case(f"linear {N}x{I}x{O}{'' if bias else ' without bias'}", ours, truth)


def standardise_case(n: int) -> Case:
    layer = layers.Standardise(mean=0.1307, std=0.3081)
    x = np.random.default_rng(n).integers(0, 256, n, dtype=np.uint8)

    def ours(c: Kernels) -> Values:
        return {"y": c.call("standardise_forward", (empty(n), x), n, layer.factor, layer.mean / layer.std)[0]}

    def truth() -> Values:
        return {"y": x * layer.factor - layer.mean / layer.std}

    return Case(f"standardise {n}", ours, truth)


def standardise_columns_case(N: int, I: int) -> Case:
    mean, std = draw(I), np.abs(draw(I, seed=1)) + 0.1
    layer = layers.StandardiseColumns(mean=tuple(mean.tolist()), std=tuple(std.tolist()))
    factor, x, dy = (1 / std).astype(np.float32), draw(N, I), draw(N, I, seed=1)

    def ours(c: Kernels) -> Values:
        y = c.call("standardise_columns_forward", (empty(N, I), factor, mean, x), N, I)[0]
        dx = c.call("standardise_columns_backward", (empty(N, I), factor, dy), N, I)[0]
        return {"y": y, "dx": dx, "copy": c.call("copy_forward", (empty(N, I), x), N * I)[0]}

    def truth() -> Values:
        y, _, dx, _ = twin(layer, None, x, dy)
        return {"y": y, "dx": dx, "copy": x}

    return Case(f"standardise columns {N}x{I}", ours, truth)


def patches_case(image: tuple[int, int, int], size: int) -> Case:
    layer = layers.Patches(image, size)
    x = draw(2, *image)

    def ours(c: Kernels) -> Values:
        return {"y": c.call("patches_forward", (empty(2, layer.tokens, layer.values), x), 2, *image, size)[0]}

    def truth() -> Values:
        return {"y": twin(layer, None, x, draw(2, layer.tokens, layer.values))[0]}

    return Case(f"patches {'x'.join(map(str, image))} of {size}", ours, truth)


def positions_case(B: int, T: int, C: int) -> Case:
    pos, x, dy, old = draw(T, C), draw(B, T, C), draw(B, T, C, seed=1), draw(T, C, seed=2)

    def ours(c: Kernels) -> Values:
        y = c.call("positions_forward", (empty(B, T, C), pos, x), B, T, C)[0]
        in_place = c.call("positions_forward", (x, pos, x), B, T, C)[0]
        return {"y": y, "in_place": in_place, "dpos": c.call("positions_backward", (old, dy), B, T, C)[0]}

    def truth() -> Values:
        y, _, _, d = twin(layers.Positions(T, C), positions.Params(pos=pos), x, dy)
        return {"y": y, "in_place": y, "dpos": old + d.pos}

    return Case(f"positions {B}x{T}x{C}", ours, truth)


def elementwise_case(kernel: str, layer: Any, n: int) -> Case:
    """ReLU, tanh, SiLU and the GELUs. The forward of ReLU may be in place, the backward of each."""
    x, dy = 3 * draw(n), draw(n, seed=1)

    def ours(c: Kernels) -> Values:
        made = [empty(n), empty(n)] if kernel == "gelu_tanh" else [empty(n)]
        y, *gate = c.call(f"{kernel}_forward", (*made, x), n)[: len(made)]
        kept = {"relu": [y], "tanh": [y], "gelu": [x], "silu": [x], "gelu_tanh": [*gate, x]}[kernel]
        dx = c.call(f"{kernel}_backward", (empty(n), *kept, dy), n)[0]
        values = {"y": y, "dx": dx, "dx_in_place": c.call(f"{kernel}_backward", (dy, *kept, dy), n)[0]}
        return values | ({"in_place": c.call("relu_forward", (x, x), n)[0]} if kernel == "relu" else {})

    def truth() -> Values:
        y, _, dx, _ = twin(layer, None, x, dy)
        return {"y": y, "dx": dx, "dx_in_place": dx} | ({"in_place": y} if kernel == "relu" else {})

    return Case(f"{kernel} {n}", ours, truth)


def padded_rows(c: Kernels, x: np.ndarray, filler: float) -> np.ndarray:
    rows = np.full((len(x), c.padded(x.shape[1])), filler, np.float32)
    rows[:, : x.shape[1]] = x
    return rows


def softmax_case(K: int, scale: float = 0.3) -> Case:
    """A row is padded to whole vectors; the padding comes as it may and goes as zeros."""
    N = 5
    x, dy = 4 * draw(N, K), draw(N, K, seed=1)

    def ours(c: Kernels) -> Values:
        y = c.call("softmax_forward", (padded_rows(c, x, 7.0),), N, K, scale)[0]
        dx = c.call("softmax_backward", (padded_rows(c, dy, 0.0), y), N, K, scale)[0]
        beyond = np.concatenate([y[:, K:], dx[:, K:]], axis=1)
        return {"y": y[:, :K], "dx": dx[:, :K], "beyond": float(beyond.any())}

    def truth() -> Values:
        y, _, dx, _ = twin(layers.Softmax(), None, x * np.float64(single(scale)), dy)
        return {"y": y, "dx": dx * single(scale), "beyond": 0.0}

    return Case(f"softmax {K}", ours, truth)


def layer_norm_case(N: int, C: int) -> Case:
    gain, bias, x, dy = draw(C), draw(C, seed=3), draw(N, C) + 2, draw(N, C, seed=1)
    old_dx, old_dgain, old_dbias = draw(N, C, seed=2), draw(C, seed=4), draw(C, seed=5)

    def ours(c: Kernels) -> Values:
        outputs = (empty(N, C), empty(N, C), empty(N))
        y, xhat, std_inv, *_ = c.call("layer_norm_forward", (*outputs, gain, bias, x), N, C, 1e-5)
        kept = (gain, xhat, std_inv, dy)
        dx, dgain, dbias, *_ = c.call("layer_norm_backward", (empty(N, C), old_dgain, old_dbias, *kept), N, C, 0)
        added = c.call("layer_norm_backward", (old_dx, old_dgain, old_dbias, *kept), N, C, 1)[0]
        forward = {"y": y, "xhat": xhat, "std_inv": std_inv}
        return forward | {"dx": dx, "dx_added": added, "dgain": dgain, "dbias": dbias}

    def truth() -> Values:
        params = layer_norm.Params(gain=gain, bias=bias)
        y, kept, dx, d = twin(layers.LayerNorm(C), params, x, dy)
        gradients = {"dx": dx, "dx_added": old_dx + dx, "dgain": old_dgain + d.gain, "dbias": old_dbias + d.bias}
        return {"y": y, "xhat": kept.xhat, "std_inv": kept.std_inv[:, 0]} | gradients

    return Case(f"layer norm {N}x{C}", ours, truth)


def attention_case(B: int, T: int, S: int, H: int, D: int) -> Case:
    q, k, v, dz = draw(B, T, H, D), draw(B, S, H, D, seed=1), draw(B, S, H, D, seed=2), draw(B, T, H, D, seed=3)
    sizes = (B, T, S, H, D, D**-0.5)

    def ours(c: Kernels) -> Values:
        row = c.padded(S)
        outputs = (empty(B, T, H, D), empty(B, H, T, row), empty(D, row))
        z, pattern, *_ = c.call("attention_forward", (*outputs, q, k, v), *sizes)
        outputs = (empty(B, T, H, D), empty(B, S, H, D), empty(B, S, H, D), empty(D, row), empty(T, row))
        dq, dk, dv, *_ = c.call("attention_backward", (*outputs, q, k, v, pattern, dz), *sizes)
        return {"z": z, "pattern": pattern[..., :S], "dq": dq, "dk": dk, "dv": dv}

    def truth() -> Values:
        z, kept, d, _ = twin(layers.Attention(), None, attention.Inputs(q=q, k=k, v=v), dz)
        return {"z": z, "pattern": kept.pattern, "dq": d.q, "dk": d.k, "dv": d.v}

    return Case(f"attention {B} samples {T} to {S} tokens {H} heads of {D}", ours, truth)


def residual_case(n: int) -> Case:
    x, branch = draw(n), draw(n, seed=1)

    def ours(c: Kernels) -> Values:
        y = c.call("residual_forward", (empty(n), x, branch), n)[0]
        return {"y": y, "in_place": c.call("residual_forward", (x, x, branch), n)[0]}

    def truth() -> Values:
        return dict.fromkeys(("y", "in_place"), np.float64(x) + branch)

    return Case(f"residual {n}", ours, truth)


def pool_case(kernel: str, layer: Any, B: int, T: int, C: int) -> Case:
    x, dy = draw(B, T, C), draw(B, C, seed=1)

    def ours(c: Kernels) -> Values:
        y = c.call(f"{kernel}_forward", (empty(B, C), x), B, T, C)[0]
        return {"y": y, "dx": c.call(f"{kernel}_backward", (empty(B, T, C), dy), B, T, C)[0]}

    def truth() -> Values:
        y, _, dx, _ = twin(layer, None, x, dy)
        return {"y": y, "dx": dx}

    return Case(f"{kernel} {B}x{T}x{C}", ours, truth)


def class_token_case(B: int, T: int, C: int) -> Case:
    token, x, dy, old = draw(C), draw(B, T, C), draw(B, T + 1, C, seed=1), draw(C, seed=2)

    def ours(c: Kernels) -> Values:
        y = c.call("class_token_forward", (empty(B, T + 1, C), token, x), B, T, C)[0]
        dx, dtoken, _ = c.call("class_token_backward", (empty(B, T, C), old, dy), B, T, C)
        return {"y": y, "dx": dx, "dtoken": dtoken}

    def truth() -> Values:
        y, _, dx, d = twin(layers.ClassToken(C), class_token.Params(token=token), x, dy)
        return {"y": y, "dx": dx, "dtoken": old + d.token}

    return Case(f"class_token {B}x{T}x{C}", ours, truth)


def cross_entropy_case(B: int, K: int, smoothing: float, *, middle: float = 0.0) -> Case:
    """Every third sample has no share, and a label that is no class: it does not count."""
    x = np.float32(middle) + 3 * draw(B, K)
    labels = np.random.default_rng(K).integers(0, K, B).astype(np.int32)
    weights = np.arange(1, B + 1, dtype=np.float32)
    weights[2::3] = 0
    labels[2::3] = K + 3

    def ours(c: Kernels) -> Values:
        share = (weights / weights.sum()).astype(np.float32)
        arrays = (empty(1), empty(B, K), x, labels, share)
        loss, dx, *_ = c.call("cross_entropy", arrays, B, K, smoothing, returns=True)
        return {"loss": loss[0], "dx": dx}

    def truth() -> Values:
        loss = losses.LabelSmoothing(smoothing) if smoothing else losses.CrossEntropy()
        value, _, dx, _ = twin(loss, None, x, np.ones((), np.float32), labels=labels, weights=weights)
        return {"loss": value, "dx": dx}

    return Case(f"cross_entropy {B}x{K} smoothed by {smoothing}, logits about {middle:g}", ours, truth)


def optimiser_case(name: str, n: int) -> Case:
    """Three steps, from zero memory, beside optax, whose settings are the float32 numbers that C has."""
    lr, decay, b1, b2, weight_decay = map(single, (0.03, 0.9, 0.9, 0.999, 0.1))
    p, gradients = draw(n), [draw(n, seed=1 + step) for step in range(3)]

    def ours(c: Kernels) -> Values:
        now, m, v = p, np.zeros(n, np.float32), np.zeros(n, np.float32)
        for step, g in enumerate(gradients, start=1):
            if name == "sgd":
                now = c.call("sgd", (now, g), n, lr)[0]
            elif name == "momentum":
                now, m, _ = c.call("momentum", (now, m, g), n, lr, decay)
            else:
                shrink = weight_decay if name == "adamw" else 0.0
                now, m, v, _ = c.call("adamw", (now, m, v, g), n, lr, b1, b2, 1e-8, shrink, step)
        return {"update": now - p} | {"sgd": {}, "momentum": {"m": m}}.get(name, {"m": m, "v": v})

    def truth() -> Values:
        with jax.enable_x64(True):
            optimiser = {
                "sgd": optax.sgd(lr),
                "momentum": optax.sgd(lr, momentum=decay),
                "adam": optax.adam(lr, b1=b1, b2=b2),
                "adamw": optax.adamw(lr, b1=b1, b2=b2, weight_decay=weight_decay),
            }[name]
            now: Any = doubled(p)
            memory = optimiser.init(now)
            for g in gradients:
                updates, memory = optimiser.update(doubled(g), memory, now)
                now = optax.apply_updates(now, updates)
            parts = {"m": "trace" if name == "momentum" else "mu", "v": "nu"}
            found = {ours: optax.tree_utils.tree_get(memory, theirs) for ours, theirs in parts.items()}
            found = {part: np.asarray(value) for part, value in found.items() if value is not None}
            return {"update": np.asarray(now) - p} | found

    return Case(f"{name} {n}", ours, truth)


def clip_case(n: int, most: float) -> Case:
    g = draw(n)

    def ours(c: Kernels) -> Values:
        return {"g": c.call("clip", (g,), n, most)[0]}

    def truth() -> Values:
        with jax.enable_x64(True):
            clipping = optax.clip_by_global_norm(single(most))
            return {"g": np.asarray(clipping.update(doubled(g), clipping.init(g))[0])}

    return Case(f"clip {n} at {most}", ours, truth)


def turned(step: int, start: int = 0) -> list[int]:
    """SIZES in another order, in which every size comes once."""
    return [SIZES[(i * step + start) % len(SIZES)] for i in range(len(SIZES))]


# Every size plays every part once: rows, inputs, outputs.
TRIPLES = list(zip(SIZES, turned(5, 3), turned(7, 8), strict=True))
PAIRS = list(zip(turned(5, 2), SIZES, strict=True))
ATTENTION = [  # samples, T, S, heads, their width
    (2, 5, 7, 1, 1),
    (1, 7, 5, 3, 1),
    (2, 10, 15, 1, 3),
    (1, 17, 16, 2, 3),
    (1, 16, 16, 2, 8),
    (2, 31, 33, 3, 8),
    (1, 49, 49, 1, 16),
    (1, 33, 31, 4, 16),
    (1, 15, 17, 1, 17),
    (1, 65, 64, 2, 17),
    (2, 1, 1, 2, 8),
    (1, 3, 1, 1, 16),
    (1, 1, 10, 2, 3),
]


def lora_case(N: int, I: int, O: int, R: int) -> Case:
    x, a, b, old, scale = draw(N, I), draw(I, R), draw(R, O), draw(N, O, seed=1), 0.3

    def ours(c: Kernels) -> Values:
        hidden = c.call("lora_thin", (empty(N, R), a, x), N, I, R, scale)[0]
        return {"hidden": hidden, "y": c.call("lora_add", (old, b, hidden), N, R, O)[0]}

    def truth() -> Values:
        hidden = single(scale) * doubled(x) @ doubled(a)
        return {"hidden": hidden, "y": old + hidden @ b}

    return Case(f"lora {N}x{I}x{O} of rank {R}", ours, truth)


CASES = [
    *(linear_case(*sizes, bias=bias) for bias in (True, False) for sizes in TRIPLES),
    *(lora_case(*sizes) for sizes in ((1, 7, 5, 1), (33, 17, 16, 3))),
    *(standardise_case(n) for n in (*SIZES, 784)),
    *(standardise_columns_case(N, I) for N, I in ((1, 4), (3, 17))),
    *(patches_case((28, 14, channels), size) for size in (2, 7) for channels in (1, 3)),
    *(patches_case((8, 12, channels), 4) for channels in (1, 3)),
    *(positions_case(2, T, C) for T, C in PAIRS),
    *(elementwise_case("relu", layers.ReLU(), n) for n in SIZES),
    *(elementwise_case("gelu", layers.GELU(), n) for n in SIZES),
    *(elementwise_case("gelu_tanh", layers.GELUTanh(), n) for n in SIZES),
    *(softmax_case(K) for K in SIZES),
    *(layer_norm_case(N, C) for N, C in PAIRS),
    *(attention_case(*sizes) for sizes in ATTENTION),
    *(residual_case(n) for n in SIZES),
    *(pool_case("mean_pool", layers.MeanPool(), 2, T, C) for T, C in PAIRS),
    *(pool_case("first_token", layers.FirstToken(), 2, T, C) for T, C in PAIRS),
    *(class_token_case(2, T, C) for T, C in PAIRS),
    *(cross_entropy_case(B, K, smoothing) for B, K in ((1, 3), (7, 10), (16, 17), (4, 33)) for smoothing in (0.0, 0.1)),
    *(cross_entropy_case(7, 10, smoothing, middle=1e5) for smoothing in (0.0, 0.1)),
    *(optimiser_case(name, n) for name in ("sgd", "momentum", "adam", "adamw") for n in (1, 17, 64)),
    *(clip_case(n, most) for n in (1, 33, 64) for most in (0.01, 1000.0)),
]


@cache
def truth_of(case: Case) -> Values:
    """Every variant is compared with the same."""
    return case.truth()


def instances(cases: Iterable[Case]) -> list[Instance]:
    """All that the cases call."""
    recorder = Recorder()
    for case in cases:
        case.ours(recorder)
    return recorder.instances
