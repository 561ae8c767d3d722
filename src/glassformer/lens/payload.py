"""What a page shows of one trace, as plain JSON: names, shapes, formulas, and the numbers in base64.

The page (page.py) carries it inside; the studio sends it.
"""

import base64
import hashlib
from dataclasses import asdict
from typing import Any

import numpy as np

from glassformer.layers import Patches
from glassformer.lens.attention_kind import AttentionLayer, attention_layers
from glassformer.lens.declared import forward_axes
from glassformer.lens.provenance import Equation, Provenance, setting
from glassformer.lens.steps import is_gradient, steps_of, where
from glassformer.lens.trace import Trace, trace
from glassformer.lens.trace_input import CLASS, TraceInput
from glassformer.names import gradient_name, last_word
from glassformer.predict.run import Run
from glassformer.probabilities import softmax

EXACT = 2 << 20  # numbers: more than these are written in 16 bits
LARGEST = 4 << 20  # numbers in one tensor: a larger one is left out
DERIVED = 1 << 20  # numbers in all attention matrices: more are worked out in the page, from q and k
BY_PAIR = ("scores", "pattern", "dpattern", "dscores")


def view(run: Run, trace_input: TraceInput) -> dict[str, Any]:
    """Trace one input forward and backward, and make the payload of it."""
    loss = run.recipe.loss
    labels, weights = trace_input.labels, trace_input.weights
    traced = trace(
        run.model, run.params, trace_input.x, labels=labels, weights=weights, loss=loss, **trace_input.keywords
    )
    return payload(traced, trace_input, run.path.name)


def payload(traced: Trace, trace_input: TraceInput, run: str = "") -> dict[str, Any]:
    """Everything the page shows. The first, and only, sample of the batch is taken."""
    made = Provenance(traced)
    kinds = {
        **dict.fromkeys(traced.values, "value"),
        **dict.fromkeys(traced.gradients, "gradient"),
        **dict.fromkeys(traced.params, "weight"),
        **dict.fromkeys(made.weight_gradients, "dweight"),
        **{name: "gradient" if is_gradient(name) else "value" for name in made.hidden},
        **dict.fromkeys(made.masks, "mask"),
    }
    arrays = {name: made.sample(name) for name in kinds}
    pairs = sum(array.size for name, array in arrays.items() if last_word(name) in BY_PAIR)
    tensors = Writer(arrays, derived=pairs > DERIVED)
    for name, kind in kinds.items():
        tensors.add(name, kind, made.axes[name], made.equations.get(name))
    return {
        **summary(traced, trace_input, run),
        "positions": next((name for name in traced.params if last_word(name) == "pos"), None),
        "steps": [asdict(step) for step in steps_of(made)],
        "tensors": tensors.written,
        "half": tensors.half,
        "left_out": tensors.left_out,
    }


def summary(traced: Trace, trace_input: TraceInput, run: str) -> dict[str, Any]:
    """All but the steps and the tensors."""
    return {
        "run": run,
        "model": type(traced.model).__name__,
        "settings": repr(traced.model),
        "parameters": sum(array.size for array in traced.params.values()),
        "input": input_of(traced, trace_input),
        "sequences": {"tokens": list(trace_input.tokens), "memory": list(trace_input.memory)},
        "answer": answer_of(traced, trace_input),
        "words": list(trace_input.words),  # of classes, or of symbols: along the axes K and V
        "attention": attentions(traced),
    }


def attentions(traced: Trace) -> list[dict[str, Any]]:
    """Every attention layer, in order; which sequence asks and which is looked at; and how it is masked."""
    axes = forward_axes(traced)

    def sequence(layer: AttentionLayer, *names: str) -> str:
        given = next((layer.around.given[name] for name in names if name in layer.around.given), None)
        return "memory" if axes.get(id(given), [""])[0] == "S" else "tokens"

    def title(layer: AttentionLayer) -> str:
        """Of the block it is in, as far as blocks have numbers."""
        parts = where(layer.name.split(".")).split(" · ")
        numbered = [i for i, part in enumerate(parts) if part[-1].isdecimal()]
        return " ".join(parts[: numbered[-1] + 1] if numbered else ["attention"])

    return [
        {
            "name": layer.name,
            "title": f"{title(layer)} cross" if layer.kind == "cross" else title(layer),
            "heads": traced.values[f"{layer.name}.pattern"].shape[1],
            "scale": setting(layer.work.layer, "scale") or layer.work.given["q"].shape[-1] ** -0.5,
            "queries": sequence(layer, "query", "x"),
            "keys": sequence(layer, "memory", "x"),
            "mask": "causal" if layer.kind == "causal" else "self",
            "square": layer.kind != "cross",
        }
        for layer in attention_layers(traced)
    ]


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

    def add(self, name: str, kind: str, axes: list[str], equation: Equation | None = None) -> None:
        array = self.arrays[name]
        entry: dict[str, Any] = {"kind": kind, "shape": list(array.shape), "axes": axes}
        grad = gradient_name(name)
        if kind in ("value", "weight") and grad in self.arrays and self.arrays[grad].shape == array.shape:
            entry["gradient"] = grad
        if equation:
            entry |= {"equation": str(equation), "refs": equation.refs}
        if self.is_derived(name):
            entry["derived"] = True
        elif array.size > LARGEST:
            self.left_out.append(name)
            return
        else:
            entry |= self.numbers(name, array, is_mask=kind == "mask")
        self.written[name] = entry

    def numbers(self, name: str, array: np.ndarray, is_mask: bool) -> dict[str, Any]:
        key = (array.size, hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest())
        found = self.seen.setdefault(key, name) if array.size > 1 else name  # single numbers are alike by chance
        if found != name:
            return {"same": found}
        if is_mask:
            return {"type": "b1", "data": encoded(np.packbits(array.astype(bool)))}
        plain = np.ascontiguousarray(array, np.float32)
        if not self.half:
            return {"type": "f4", "data": encoded(plain.astype("<f4"))}
        largest = float(np.abs(plain[np.isfinite(plain)]).max(initial=0.0)) or 1.0
        unit = largest / 32768  # the range of 16 bits is small: the largest number is brought to 2^15
        return {"type": "f2", "unit": unit, "data": encoded((plain / unit).astype("<f2"))}


def encoded(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode()


def input_of(traced: Trace, trace_input: TraceInput) -> dict[str, Any]:
    plain: dict[str, Any] = {"kind": trace_input.kind, "name": trace_input.name}
    if trace_input.kind == "image":
        image = np.asarray(trace_input.x[0])
        plain |= {"shape": list(image.shape), "pixels": encoded(image.astype(np.uint8))}
        for patches in (work.layer for work in traced.works if isinstance(work.layer, Patches)):
            plain |= {"grid": list(patches.grid), "first": int(CLASS in trace_input.tokens[:1])}
    if trace_input.kind == "row":
        plain |= {"row": np.asarray(trace_input.x[0]).tolist()}
    return plain


def answer_of(traced: Trace, trace_input: TraceInput) -> dict[str, Any]:
    """Of the whole input: every class, or the numbers of a regression. Of each token: what is likeliest there."""
    y, labels = np.asarray(traced.logits)[0], np.asarray(trace_input.labels)[0]
    plain = {"loss": traced.loss, "known": trace_input.is_known}
    if np.issubdtype(labels.dtype, np.floating):
        return plain | {
            "numbers": [list(one) for one in zip(trace_input.words, y.tolist(), labels.tolist(), strict=True)]
        }
    p = softmax(y)
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
