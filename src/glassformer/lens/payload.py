"""What a page shows of one trace, as plain JSON: names, shapes, formulas, and the numbers in base64.

The page (page.py) carries it inside; the studio sends it.
"""

import base64
import hashlib
import math
from dataclasses import asdict
from typing import Any

import numpy as np

from glassformer.layers import FirstToken, MeanPool
from glassformer.layers.contract import Layer
from glassformer.lens.provenance import Provenance, provenance_of, written_out
from glassformer.lens.steps import equation_of, owner_of, steps_of
from glassformer.lens.trace import Trace, trace
from glassformer.lens.trace_input import CLASS, TraceInput
from glassformer.losses import CrossEntropy
from glassformer.models import PatchAttention, PatchBlock, ViT
from glassformer.names import gradient_name, last_word
from glassformer.predict.run import Run
from glassformer.probabilities import softmax

EXACT = 2 << 20  # numbers: more than these are written in 16 bits
LARGEST = 4 << 20  # numbers in one tensor: a larger one is left out
DERIVED = 1 << 20  # numbers in all tensors of who looks at whom: more are worked out in the page, from q and k
BY_PAIR = ("scores", "pattern", "dpattern", "dscores")
BY_HEAD = ("q", "k", "v", "z", "k_shared", "v_shared")


def view(run: Run, trace_input: TraceInput) -> dict[str, Any]:
    """Trace one input forward and backward, and make the payload of it."""
    loss = run.recipe.loss
    labels, weights = trace_input.labels, trace_input.weights
    traced = trace(
        run.model, run.params, trace_input.x, labels=labels, weights=weights, loss=loss, **trace_input.keywords
    )
    return payload(traced, trace_input, run.path.name, loss)


def payload(traced: Trace, trace_input: TraceInput, run: str = "", loss: Layer = CrossEntropy()) -> dict[str, Any]:
    """Everything the page shows. The first, and only, sample of the batch is taken."""
    values = {name: first_sample(name, array) for name, array in traced.values.items()}
    gradients = {name: first_sample(name, array) for name, array in traced.gradients.items()}
    weights = {name: np.asarray(array) for name, array in traced.params.items()}
    weight_gradients = {gradient_name(name): np.asarray(array) for name, array in traced.param_gradients.items()}
    weight_gradients = {name: array for name, array in weight_gradients.items() if name not in gradients}
    same = repeated(values)
    pool = getattr(traced.model, "pool", None) or MeanPool()
    steps = steps_of(values, gradients, weights, same, {"pool": module_of(pool), "loss": module_of(loss)})
    layers = attentions(values, trace_input)
    known = {**values, **gradients, **weights, **weight_gradients}
    scales = {layer["name"]: layer["scale"] for layer in layers} | tied_scales(values, weights)
    order = [name for name in values if name not in same]

    def before(name: str) -> str:
        """What was made last before this layer, of the same width."""
        scope, width = f"{owner_of(name)}.", values[name].shape[-1]
        start = next(i for i, other in enumerate(order) if other.startswith(scope))
        earlier = (other for other in reversed(order[:start]) if values[other].shape[-1:] == (width,))
        return next(earlier, "")

    equations = {
        name: equation_of(name, formulas)
        for step in steps
        for names, formulas in ((step.values, step.forward), (step.gradients, step.backward))
        for name in names
    }
    tensors = Writer(known, derived=sum(math.prod(known[n].shape) for n in known if last_word(n) in BY_PAIR) > DERIVED)
    for kind, arrays in (
        ("value", values),
        ("gradient", gradients),
        ("weight", weights),
        ("dweight", weight_gradients),
    ):
        for name in arrays:
            made = checked(name, provenance_of(name, known, before, scales), known, isinstance(pool, FirstToken))
            equation = equations.get(name) or written_out(name, made)
            tensors.add(name, kind, axes_of(name, arrays[name], trace_input), equation, made)
    return {
        "run": run,
        "model": type(traced.model).__name__,
        "settings": repr(traced.model),
        "parameters": sum(array.size for array in weights.values()),
        "input": input_of(traced.model, trace_input),
        "sequences": {"tokens": list(trace_input.tokens), "memory": list(trace_input.memory)},
        "answer": answer_of(traced, trace_input),
        "words": list(trace_input.words),  # of classes, or of symbols: along the axes K and V
        "attention": layers,
        "positions": next((name for name in weights if last_word(name) == "pos"), None),
        "steps": [asdict(step) for step in steps],
        "tensors": tensors.written,
        "half": tensors.half,
        "left_out": tensors.left_out,
    }


def module_of(layer: Layer) -> str:
    """`layers.mean_pool`"""
    return type(layer).__module__.removeprefix("glassformer.")


def checked(name: str, made: Provenance | None, known: dict[str, np.ndarray], takes_first: bool) -> Provenance | None:
    """Without what only seemed to fit: what goes into a layer is not always what was made just before it."""
    if made is None:
        return None
    if made["kind"] == "mean" and takes_first:
        return {"kind": "first", "x": made["x"]}
    if made["kind"] in ("sum", "standard", "scaled"):
        return made if is_so(made, known, known[name]) else None
    return made


def is_so(made: Provenance, known: dict[str, np.ndarray], value: np.ndarray) -> bool:
    if made["kind"] == "sum":
        a, b = known[made["a"]], known[made["b"]][: len(value)]
        return a.shape == b.shape == value.shape and np.allclose(a + b, value, atol=1e-4)
    x = known[made["x"]]
    mean = x.mean(axis=-1, keepdims=True) if made["kind"] == "standard" else 0
    return x.shape == value.shape and np.allclose((x - mean) * known[made["inverse"]], value, atol=1e-3)


def first_sample(name: str, array: Any) -> np.ndarray:
    """Without the batch of one. Tables that all samples share have none."""
    array = np.asarray(array)
    shared = last_word(name) in ("emb", "demb", "bucket") or array.shape[:1] != (1,)
    return array if shared else array[0]


def repeated(values: dict[str, np.ndarray]) -> dict[str, str]:
    """Names whose value stands under an earlier name of the same shape: {"attn.x": "norm1.y"}."""
    seen: dict[tuple[Any, ...], str] = {}
    same: dict[str, str] = {}
    for name, array in values.items():
        key = (array.shape, hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest())
        if seen.setdefault(key, name) != name:
            same[name] = seen[key]
    return same


class Writer:
    """Tensors in plain JSON; numbers that stand somewhere already are not written twice."""

    def __init__(self, arrays: dict[str, np.ndarray], *, derived: bool) -> None:
        self.arrays = arrays
        self.derived = derived
        kept = sum(array.size for name, array in arrays.items() if not self.is_derived(name))
        self.half = kept > EXACT
        self.written: dict[str, dict[str, Any]] = {}
        self.seen: dict[tuple[Any, ...], str] = {}
        self.left_out: list[str] = []

    def is_derived(self, name: str) -> bool:
        return self.derived and last_word(name) in BY_PAIR

    def add(self, name: str, kind: str, axes: list[str], equation: str, made: dict[str, Any] | None) -> None:
        array = self.arrays[name]
        entry: dict[str, Any] = {"kind": kind, "shape": list(array.shape), "axes": axes}
        grad = gradient_name(name)
        if kind in ("value", "weight") and grad in self.arrays and self.arrays[grad].shape == array.shape:
            entry["gradient"] = grad
        if equation:
            entry["equation"] = equation
        if made:
            entry["made"] = made
        if self.is_derived(name):
            entry["derived"] = True
        elif array.size > LARGEST:
            self.left_out.append(name)
            return
        else:
            entry |= self.numbers(name, array)
        self.written[name] = entry

    def numbers(self, name: str, array: np.ndarray) -> dict[str, Any]:
        key = (array.size, hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest())
        found = self.seen.setdefault(key, name) if array.size > 1 else name  # single numbers are alike by chance
        if found != name:
            return {"same": found}
        plain = np.ascontiguousarray(array, np.float32)
        if not self.half:
            return {"type": "f4", "data": encoded(plain.astype("<f4"))}
        largest = float(np.abs(plain[np.isfinite(plain)]).max(initial=0.0)) or 1.0
        unit = largest / 32768  # the range of 16 bits is small: the largest number is brought to 2^15
        return {"type": "f2", "unit": unit, "data": encoded((plain / unit).astype("<f2"))}


def encoded(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode()


def axes_of(name: str, array: np.ndarray, trace_input: TraceInput) -> list[str]:
    """Letters as in shapes.py: which axis is of heads, and which of tokens, the page must know."""
    word = last_word(name)
    plain = word[1:] if word.startswith("d") and word not in ("dy", "dx") else word
    if array.ndim == 3 and plain in BY_HEAD:
        source = "S" if plain in ("k", "v", "k_shared", "v_shared") else "T"
        return [source, "H", "D"]
    if array.ndim == 3 and plain in ("scores", "pattern", "bias"):
        return ["H", "T", "S"]
    if array.ndim == 3 and trace_input.kind == "image":
        return ["Y", "X", "G"]
    tokens = {len(trace_input.tokens), len(trace_input.memory)} - {0}
    if array.ndim == 3:
        return ["T" if array.shape[0] in tokens else "", "H", "D"]
    names = ["", "C"] if array.ndim == 2 else [""] * array.ndim
    if array.ndim == 1 and word in ("ids", "labels", "share") and array.shape[0] in tokens:
        return ["S" if is_memory(name, trace_input) else "T"]
    if array.ndim == 2 and array.shape[0] in tokens and not word.startswith(("w", "dw", "emb", "demb")):
        names[0] = "S" if is_memory(name, trace_input) else "T"
    return names


def is_memory(name: str, trace_input: TraceInput) -> bool:
    """Of the second sequence, the one that is only read."""
    return bool(trace_input.memory) and (name.startswith(("encoder.", "embed.")) or name.endswith(("cross.memory",)))


def attentions(values: dict[str, np.ndarray], trace_input: TraceInput) -> list[dict[str, Any]]:
    """Every attention layer, in order; who asks and who is looked at; and how it is masked."""
    found = []
    for name in values:
        if last_word(name) != "scores":
            continue
        scope, pattern, q = owner_of(name), values[owner_of(name) + ".pattern"], values[owner_of(name) + ".q"]
        heads, asking, looked_at = pattern.shape
        read = bool(trace_input.memory)
        memory = read and (scope.startswith("encoder.") or scope.endswith(".cross"))
        found.append(
            {
                "name": scope,
                "title": title_of_layer(scope),
                "heads": heads,
                "scale": scale_of(values, scope, q.shape[-1]),
                "queries": "memory" if read and scope.startswith("encoder.") else "tokens",
                "keys": "memory" if memory else "tokens",
                "mask": "causal" if asking == looked_at > 1 and not np.triu(pattern, 1).any() else "self",
                "square": asking == looked_at and not scope.endswith(".cross"),
            }
        )
    return found


def title_of_layer(scope: str) -> str:
    parts = scope.split(".")
    side = [part for part in parts if part in ("encoder", "decoder")]
    block = [f"block {parts[parts.index('blocks') + 1]}"] if "blocks" in parts else ["attention"]
    return " ".join([*side, *block, *(["cross"] if parts[-1] == "cross" else [])])


def scale_of(values: dict[str, np.ndarray], scope: str, width: int) -> float:
    """By what q @ k is multiplied: read off the numbers, as layers may state their own."""
    q, k = (np.asarray(values[f"{scope}.{word}"], np.float64) for word in ("q", "k"))
    scores = np.asarray(values[f"{scope}.scores"], np.float64)
    if f"{scope}.bias" in values:
        scores = scores - np.asarray(values[f"{scope}.bias"], np.float64)
    return factor(scores, np.einsum("thd,shd->hts", q, k), width)


def tied_scales(values: dict[str, np.ndarray], weights: dict[str, np.ndarray]) -> dict[str, float]:
    """By what x @ emb^T is multiplied in a head that is tied to an embedding: {"head": 0.125}."""
    found = {}
    for name, logits in values.items():
        scope = owner_of(name)
        if last_word(name) != "logits" or f"{scope}.emb" not in values:
            continue
        x, emb = (np.asarray(values[f"{scope}.{word}"], np.float64) for word in ("x", "emb"))
        found[scope] = factor(np.asarray(logits, np.float64) - weights.get(f"{scope}.b", 0.0), x @ emb.T, x.shape[-1])
    return found


def factor(scaled: np.ndarray, products: np.ndarray, width: int) -> float:
    """The one number between two arrays, by least squares; exact where it is 1 / sqrt(width) or 1."""
    found = float((scaled * products).sum() / max((products * products).sum(), 1e-30))
    return next((fixed for fixed in (width**-0.5, 1.0) if abs(found - fixed) < 1e-3 * fixed), found)


def input_of(model: Any, trace_input: TraceInput) -> dict[str, Any]:
    plain: dict[str, Any] = {"kind": trace_input.kind, "name": trace_input.name}
    if trace_input.kind == "image":
        image = np.asarray(trace_input.x[0])
        plain |= {"shape": list(image.shape), "pixels": encoded(image.astype(np.uint8))}
        if isinstance(model, ViT | PatchAttention | PatchBlock):
            plain |= {"grid": list(model.patches.grid), "first": int(CLASS in trace_input.tokens[:1])}
    if trace_input.kind == "row":
        plain |= {"row": np.asarray(trace_input.x[0]).tolist()}
    return plain


def answer_of(traced: Trace, trace_input: TraceInput) -> dict[str, Any]:
    """Of one answer for the whole input: every class. Of one for each token: what is likeliest there."""
    p = softmax(np.asarray(traced.logits)[0])
    labels = np.asarray(trace_input.labels)[0]
    plain = {"loss": traced.loss, "known": trace_input.is_known}
    if p.ndim == 1:
        words = list(trace_input.words) or [str(i) for i in range(len(p))]
        return plain | {"classes": words, "probabilities": p.tolist(), "label": int(labels)}

    def word(number: int) -> str:
        return trace_input.words[number] if number < len(trace_input.words) else str(number)

    best = p.argmax(axis=-1)
    places = [
        [word(int(b)), float(row[b]), word(int(y)), float(row[y])] for row, b, y in zip(p, best, labels, strict=True)
    ]
    return plain | {"places": places}
