"""What a page shows of one trace, as plain JSON: names, shapes, formulas, and the numbers in base64.

The page (page.py) carries it inside; the studio sends it.
"""

import base64
import hashlib
from collections.abc import Collection
from dataclasses import asdict
from typing import Any, Literal, get_args

import numpy as np

from glassformer.formulas import docstring
from glassformer.layers import CountedPositions, Patches
from glassformer.layers.contract import Layer
from glassformer.lens.ablate_each import HeadEffects
from glassformer.lens.activation_patching import stream_names
from glassformer.lens.attention_kind import AttentionLayer, attention_layers
from glassformer.lens.declared import forward_axes
from glassformer.lens.device import DeviceNumbers, device_view
from glassformer.lens.overview import overview_of
from glassformer.lens.page_forward import page_forward
from glassformer.lens.provenance import Equation, Provenance, setting
from glassformer.lens.steps import is_gradient, steps_of, where
from glassformer.lens.trace import Trace, trace
from glassformer.lens.trace_input import TraceInput
from glassformer.lens.why import head_effects, why_of
from glassformer.names import gradient_name, last_word
from glassformer.predict.run import Run
from glassformer.probabilities import softmax

EXACT = 2 << 20  # numbers: more than these are written in 16 bits
LARGEST = 4 << 20  # numbers in one tensor: a larger one is left out
DERIVED = 1 << 20  # numbers in all attention matrices: more are worked out in the page, from q and k
MOST_ASKED = 8  # tokens whose logits of all symbols are in the page
EXACT_WEIGHTS = 1 << 20  # numbers: no more weights than these stay in 32 bits, so that the page can compute with them
PRODUCTS = 4096  # numbers in a weight gradient: a larger one is worked out in the page, x^T @ dy, where it can be
BY_PAIR = ("scores", "pattern", "dpattern", "dscores")

Weights = Literal["none", "shown", "all"]  # which weights are stored: none; all; all, with their gradients
KEPT: tuple[Weights, ...] = get_args(Weights)


def view(
    run: Run,
    trace_input: TraceInput,
    *,
    weights: Weights = "shown",
    alone: bool = True,
    device: DeviceNumbers | None = None,
) -> dict[str, Any]:
    """Trace one input forward and backward, and make the payload of it. `alone`: no server stands behind the page.

    `device`: what a device makes of the same input, to be shown beside it.
    """
    traced = traced_on(run, trace_input)
    has_loss = trace_input.dy is None
    effects = head_effects(traced, trace_input, run.recipe.loss) if alone and has_loss else None
    shown = payload(
        traced,
        trace_input,
        run.path.name,
        weights=weights,
        alone=alone,
        effects=effects,
        loss=run.recipe.loss if has_loss else None,
    )
    if device is None:
        return shown
    rounded = {name for name, one in shown["tensors"].items() if shown["half"] or "derived" in one}
    return shown | {"device": device_view(traced, device, encoded, rounded)}


def traced_on(run: Run, given: TraceInput) -> Trace:
    if given.dy is not None:
        return trace(run.model, run.params, given.x, dy=given.dy, **given.keywords)
    loss = run.recipe.loss
    return trace(
        run.model, run.params, given.x, labels=given.labels, weights=given.weights, loss=loss, **given.keywords
    )


def payload(
    traced: Trace,
    trace_input: TraceInput,
    run: str = "",
    *,
    weights: Weights = "shown",
    alone: bool = True,
    effects: HeadEffects | None = None,
    loss: Layer | None = None,
) -> dict[str, Any]:
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
    if weights == "none":
        kinds = {name: kind for name, kind in kinds.items() if kind != "weight"}
    arrays = {name: made.sample(name) for name in kinds}
    derived = derived_pairs(arrays)
    if weights != "all":
        derived |= derived_products(arrays, kinds, made, derived)
    values = derived_values(arrays, made, derived) if weights == "none" else set()
    derived |= values
    needed: set[str] = set().union(*(read_by(made.equations[name]) for name in values))
    tensors = Writer(arrays, derived, exact_names(arrays, kinds, made), needed)
    for name, kind in kinds.items():
        tensors.add(name, kind, made.axes[name], made.equations.get(name))
    positions = next((name for name in traced.params if last_word(name) == "pos"), None)
    counted = (work.layer for work in traced.works if isinstance(work.layer, CountedPositions))
    return {
        **summary(traced, trace_input, run),
        "positions": positions,
        "first_position": next((layer.first for layer in counted), 0),
        "overview": overview_of(traced, trace_input),
        "steps": [asdict(step) for step in steps_of(made)],
        "tensors": tensors.written,
        "half": tensors.half,
        "left_out": tensors.left_out,
        "weights": weights,
        "streams": stream_names(traced),
        "why": why_of(traced, trace_input, effects, loss),
        "forward": page_forward(traced, trace_input, tensors.written, weights)
        if alone
        else {"reason": "by the server"},
    }


def summary(traced: Trace, trace_input: TraceInput, run: str) -> dict[str, Any]:
    """All but the steps and the tensors."""
    return {
        "run": run,
        "model": type(traced.model).__name__,
        "about": docstring(type(traced.model)).partition("\n")[0],
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


def derived_pairs(arrays: dict[str, np.ndarray]) -> set[str]:
    """Attention weights and the like, where they are too many to be written: they follow from q and k."""
    pairs = {name for name in arrays if last_word(name) in BY_PAIR}
    return pairs if sum(arrays[name].size for name in pairs) > DERIVED else set()


def derived_products(
    arrays: dict[str, np.ndarray], kinds: dict[str, str], made: Provenance, derived: set[str]
) -> set[str]:
    """Large gradients of weights whose formulas (x^T @ dy) read nothing but what is in the page."""
    here = {name for name, array in arrays.items() if array.size <= LARGEST or name in derived}
    found: set[str] = set()
    for name in arrays:
        equation = made.equations.get(name)
        is_large = arrays[name].ndim == 2 and PRODUCTS <= arrays[name].size <= LARGEST
        is_of_weight = kinds[name] == "dweight" or (name in made.hidden and is_gradient(name))
        if equation and is_large and is_of_weight and read_by(equation) <= here:
            found.add(name)
    return found


def read_by(equation: Equation) -> set[str]:
    """The tensors that a formula reads; not its numbers."""
    return {ref.get("tensor") or ref["y"] for ref in equation.refs.values() if "value" not in ref}


def derived_values(arrays: dict[str, np.ndarray], made: Provenance, derived: set[str]) -> set[str]:
    """Where a page is to be small: large values and gradients that follow from stored ones without a weight, such as an
    activation or a sum. Each reads stored numbers only, so that the rounding of 16 bits does not add up."""
    found: set[str] = set()
    read_by_others: set[str] = set()
    for name, array in arrays.items():
        equation = made.equations.get(name)
        read = read_by(equation) if equation else set()
        is_large = array.ndim == 2 and PRODUCTS <= array.size <= LARGEST
        is_other_name = equation is not None and equation.formula.expr.kind == "name"  # stored once anyway
        if name in derived or not equation or is_other_name or not is_large or name in read_by_others:
            continue
        if read and read <= arrays.keys() - derived - found:
            found.add(name)
            read_by_others |= read
    return found


def exact_names(arrays: dict[str, np.ndarray], kinds: dict[str, str], made: Provenance) -> set[str]:
    """What the page computes with, if it is not too much: weights, inputs and tables. The rest follows from them."""
    own = {name for name, kind in kinds.items() if kind == "weight" or (kind == "value" and name not in made.equations)}
    return own if sum(arrays[name].size for name in own) <= EXACT_WEIGHTS else set()


class Writer:
    """Tensors in plain JSON; numbers that stand somewhere already are not written twice."""

    def __init__(
        self,
        arrays: dict[str, np.ndarray],
        derived: Collection[str],
        exact: Collection[str] = (),
        needed: Collection[str] = (),
    ) -> None:
        self.arrays = arrays
        self.derived = derived  # what the page works out by formula
        self.needed = needed  # what values are worked out from: it cannot itself be one of them
        self.exact = exact  # what is always written in 32 bits
        self.half = sum(array.size for name, array in arrays.items() if name not in derived) > EXACT
        self.written: dict[str, dict[str, Any]] = {}
        self.seen: dict[tuple[int, bytes], str] = {}
        for name in filter(exact.__contains__, arrays):  # a tied table is its weight under other names, too
            self.seen.setdefault(key_of(arrays[name]), name)
        self.left_out: list[str] = []

    def add(self, name: str, kind: str, axes: list[str], equation: Equation | None = None) -> None:
        array = self.arrays[name]
        entry: dict[str, Any] = {"kind": kind, "shape": list(array.shape), "axes": axes}
        grad = gradient_name(name)
        if kind in ("value", "weight") and grad in self.arrays and self.arrays[grad].shape == array.shape:
            entry["gradient"] = grad
        if equation:
            entry |= {"equation": str(equation), "refs": equation.refs}
        if name in self.derived:
            entry["derived"] = True
            if array.ndim == 2 and kind != "dweight":  # worked out whole: the same under other names is not written
                self.seen.setdefault(key_of(array), name)
        elif array.size > LARGEST:
            self.left_out.append(name)
            return
        else:
            entry |= self.numbers(name, array, is_mask=kind == "mask")
        self.written[name] = entry

    def numbers(self, name: str, array: np.ndarray, is_mask: bool) -> dict[str, Any]:
        found = (
            self.seen.setdefault(key_of(array), name) if array.size > 1 else name
        )  # single numbers are alike by chance
        is_circle = found in self.derived and name in self.needed
        if found != name and not is_circle:
            return {"same": found}
        if is_mask:
            return {"type": "b1", "data": encoded(np.packbits(array.astype(bool)))}
        plain = np.ascontiguousarray(array, np.float32)
        if not self.half or name in self.exact or not np.issubdtype(array.dtype, np.floating):
            return {"type": "f4", "data": encoded(plain.astype("<f4"))}
        largest = float(np.abs(plain[np.isfinite(plain)]).max(initial=0.0)) or 1.0
        unit = largest / 32768  # the range of 16 bits is small: the largest number is brought to 2^15
        return {"type": "f2", "unit": unit, "data": encoded((plain / unit).astype("<f2"))}


def key_of(array: np.ndarray) -> tuple[int, bytes]:
    return array.size, hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest()


def encoded(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode()


def input_of(traced: Trace, trace_input: TraceInput) -> dict[str, Any]:
    plain: dict[str, Any] = {"kind": trace_input.kind, "name": trace_input.name}
    if trace_input.kind == "image":
        image = np.asarray(trace_input.x[0])
        plain |= {"shape": list(image.shape), "pixels": encoded(image.astype(np.uint8))}
        for patches in (work.layer for work in traced.works if isinstance(work.layer, Patches)):
            first = len(trace_input.tokens) - patches.tokens
            plain |= {"grid": list(patches.grid), "first": first, "front": list(trace_input.tokens[:first])}
    if trace_input.kind == "row":
        plain |= {"row": np.asarray(trace_input.x[0]).tolist()}
    return plain


def answer_of(traced: Trace, trace_input: TraceInput) -> dict[str, Any]:
    """Of the whole input: every class, or the numbers of a regression. Of each token: what is likeliest there."""
    y, plain = np.asarray(traced.logits)[0], {"loss": traced.loss, "known": trace_input.is_known}
    if trace_input.dy is not None:
        return plain | {"vector": list(y.shape)}
    labels = np.asarray(trace_input.labels)[0]
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
    weights = np.ones(p.shape[:-1]) if trace_input.weights is None else np.asarray(trace_input.weights)[0]
    places = [
        [word(int(b)), float(row[b]), *([word(int(label)), float(row[label])] if weight else [None, None])]
        for row, b, label, weight in zip(p, best, labels, weights, strict=True)
    ]
    asked = [{"place": place, "logits": encoded(y[place].astype("<f4"))} for place in trace_input.asked[:MOST_ASKED]]
    return plain | {
        "places": places,
        "asked": asked,
        "question": trace_input.question,
        "written": trace_input.written,
    }
