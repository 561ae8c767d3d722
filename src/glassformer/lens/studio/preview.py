"""A preview: the attention weights, and what the model says. The page's payload with a few of its tensors, made fast.

A text is padded to a power of two, and the padding is cut off again: without that, every letter that is typed
would be a new shape, and the pass compiled anew for it.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from glassformer.layers.contract import keywords as keywords_of
from glassformer.lens.declared import forward_axes
from glassformer.lens.payload import BY_PAIR, Writer, derived_pairs, summary, traced_on
from glassformer.lens.provenance import Equation, Provenance
from glassformer.lens.studio.compile_limit import CompileLimit
from glassformer.lens.trace import Trace
from glassformer.lens.trace_input import TraceInput
from glassformer.models.t5 import Inputs
from glassformer.names import gradient_name, last_word
from glassformer.predict.batches import room
from glassformer.predict.reading import context_of
from glassformer.predict.run import Run
from glassformer.train.tasks import Span

VALUES = ("q", "k", "v", "bias", "scores", "pattern", "z")
SHOWN = ("scores", "pattern", "dscores")
DERIVED_FROM = ("q", "k", "v", "bias", "dz", "dpattern")  # the page works the rest out, where that is too much to send
SENT = (*SHOWN, *DERIVED_FROM)


def preview(run: Run, trace_input: TraceInput, compile_limit: CompileLimit | None = None) -> dict[str, Any]:
    full = filled(run, trace_input)
    if compile_limit is not None:
        compile_limit.note(run.model, full.x)
    return brief(traced_on(run, full), trace_input, run.path.name, is_filled=full is not trace_input)


def brief(traced: Trace, trace_input: TraceInput, run: str, is_filled: bool) -> dict[str, Any]:
    """As payload() makes it, without steps, with the attention weights alone, and without padding."""
    logits = np.asarray(traced.logits)
    if is_filled and logits.ndim == 3:
        traced = replace(traced, logits=logits[:, : len(trace_input.tokens)])
    shown, letters = summary(traced, trace_input, run), forward_axes(traced)
    arrays: dict[str, np.ndarray] = {}
    axes: dict[str, list[str]] = {}
    for layer in shown["attention"]:
        sizes = {"T": len(shown["sequences"][layer["queries"]]), "S": len(shown["sequences"][layer["keys"]])}
        for word in VALUES:
            name = f"{layer['name']}.{word}"
            value = traced.values.get(name)
            for one, array in ((name, value), (gradient_name(name), traced.gradients.get(gradient_name(name)))):
                if value is not None and array is not None and last_word(one) in SENT:
                    axes[one] = letters[id(value)]
                    size = tuple(slice(sizes.get(letter) if is_filled else None) for letter in axes[one])
                    arrays[one] = np.asarray(array)[0][size]
    derived = derived_pairs(arrays)
    equations: dict[str, Equation] = {}
    if derived:  # the page evaluates their formulas: it needs these, and what they read
        made = Provenance(traced)
        equations = {name: made.equations[name] for name in arrays if last_word(name) in BY_PAIR}
        for layer in shown["attention"]:
            name, rows, columns = f"{layer['name']}.mask", layer["queries"], layer["keys"]
            if name in made.masks:
                size = (len(shown["sequences"][one]) if is_filled else None for one in (rows, columns))
                arrays[name], axes[name] = made.sample(name)[(..., *map(slice, size))], made.axes[name]
    else:
        arrays = {name: array for name, array in arrays.items() if last_word(name) in SHOWN}
    tensors = Writer(arrays, derived)
    for name in arrays:
        kind = "mask" if last_word(name) == "mask" else "gradient" if name in traced.gradients else "value"
        tensors.add(name, kind, axes[name], equations.get(name))
    return {
        **shown,
        "positions": None,
        "steps": [],
        "tensors": tensors.written,
        "half": tensors.half,
        "left_out": tensors.left_out,
    }


def filled(run: Run, trace_input: TraceInput) -> TraceInput:
    """The trace_input with tokens behind its end that nobody looks at and that count nothing."""
    if trace_input.kind != "text" or isinstance(run.recipe.task, Span) or "keep" not in keywords_of(run.model):
        return trace_input  # the places of a span are its classes: more tokens would be more of them
    if trace_input.dy is not None:
        return trace_input
    context = context_of(run)
    pair = isinstance(trace_input.x, Inputs)
    first = np.asarray(trace_input.x.source if pair else trace_input.x)
    size = room(first.shape[1], context)
    keep = np.arange(size)[None] < first.shape[1]
    x: Any = behind(first, size)
    asked = size
    if pair:
        target = np.asarray(trace_input.x.target)
        asked = room(target.shape[1], context)
        x = Inputs(source=x, target=behind(target, asked))  # pyright: ignore[reportArgumentType]
    if trace_input.labels.ndim == 1:
        return replace(trace_input, x=x, keywords={**trace_input.keywords, "keep": keep})
    weights = np.ones(trace_input.labels.shape, np.float32) if trace_input.weights is None else trace_input.weights
    return replace(
        trace_input,
        x=x,
        labels=behind(trace_input.labels, asked),
        weights=behind(weights, asked),
        keywords={**trace_input.keywords, "keep": keep},
    )


def behind(rows: np.ndarray, size: int) -> np.ndarray:
    return np.pad(rows, ((0, 0), (0, size - rows.shape[1])))
