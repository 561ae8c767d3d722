"""A preview: who looks at whom, and what the model says. The page's payload with a few of its tensors, made fast.

A text is filled up to a power of two, and what fills it is cut off again: without that, every letter that is typed
would be a new shape, and the pass compiled anew for it.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from glassformer.layers.contract import keywords as keywords_of
from glassformer.lens.payload import DERIVED, Writer, answer_of, attentions, axes_of, first_sample, input_of
from glassformer.lens.steps import owner_of
from glassformer.lens.studio.compile_limit import CompileLimit
from glassformer.lens.trace import Trace, trace
from glassformer.lens.trace_input import TraceInput
from glassformer.models.t5 import Inputs
from glassformer.names import last_word
from glassformer.predict.batches import room
from glassformer.predict.reading import context_of
from glassformer.predict.run import Run
from glassformer.train.tasks import Span

SHOWN = ("scores", "pattern", "dscores")
SOURCES = ("q", "k", "v", "dz", "bias")  # of which the page works the rest out, where that would be too much to send


def preview(run: Run, trace_input: TraceInput, compile_limit: CompileLimit | None = None) -> dict[str, Any]:
    full = filled(run, trace_input)
    if compile_limit is not None:
        compile_limit.note(run.model, full.x)
    loss = run.recipe.loss
    traced = trace(run.model, run.params, full.x, labels=full.labels, weights=full.weights, loss=loss, **full.keywords)
    return brief(cut(traced, trace_input) if full is not trace_input else traced, trace_input, run.path.name)


def brief(traced: Trace, trace_input: TraceInput, run: str) -> dict[str, Any]:
    """As payload() makes it, without steps and with the tensors of who looks at whom alone."""
    values = chosen(traced.values, (*SHOWN, *SOURCES))
    gradients = chosen(traced.gradients, (*SHOWN, *SOURCES, "dpattern"))
    layers = attentions(values, trace_input)
    derived = sum(array.size for name, array in {**values, **gradients}.items() if last_word(name) in SHOWN) > DERIVED
    shown = (*SHOWN, *SOURCES, "dpattern") if derived else SHOWN
    values, gradients = (
        {name: array for name, array in arrays.items() if last_word(name) in shown} for arrays in (values, gradients)
    )
    tensors = Writer({**values, **gradients}, derived=derived)
    for kind, arrays in (("value", values), ("gradient", gradients)):
        for name, array in arrays.items():
            tensors.add(name, kind, axes_of(name, array, trace_input), "", None)
    return {
        "run": run,
        "model": type(traced.model).__name__,
        "settings": repr(traced.model),
        "parameters": sum(array.size for array in traced.params.values()),
        "input": input_of(traced.model, trace_input),
        "sequences": {"tokens": list(trace_input.tokens), "memory": list(trace_input.memory)},
        "answer": answer_of(traced, trace_input),
        "attention": layers,
        "positions": None,
        "steps": [],
        "tensors": tensors.written,
        "half": tensors.half,
        "left_out": tensors.left_out,
    }


def chosen(arrays: dict[str, Any], words: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Of attention layers; their neighbours may have a q or a bias too."""
    scopes = {owner_of(name) for name in arrays if last_word(name) in ("scores", "dscores")}
    return {
        name: first_sample(name, array)
        for name, array in arrays.items()
        if last_word(name) in words and owner_of(name) in scopes
    }


def filled(run: Run, trace_input: TraceInput) -> TraceInput:
    """The trace_input with tokens behind its end that nobody looks at and that count nothing."""
    if trace_input.kind != "text" or isinstance(run.recipe.task, Span) or "keep" not in keywords_of(run.model):
        return trace_input  # the places of a span are its classes: more tokens would be more of them
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


def cut(traced: Trace, trace_input: TraceInput) -> Trace:
    """Without what `filled` added."""
    tokens, memory = len(trace_input.tokens), len(trace_input.memory)

    def part(name: str, array: Any) -> Any:
        scope, word = owner_of(name), last_word(name)
        asking = memory if memory and scope.startswith("encoder.") else tokens
        looked_at = memory if memory and (scope.startswith("encoder.") or scope.endswith(".cross")) else tokens
        if word in ("scores", "pattern", "dscores", "dpattern", "bias"):
            return np.asarray(array)[..., :asking, :looked_at]
        return np.asarray(array)[:, : looked_at if word in ("k", "v") else asking]

    def parts(arrays: dict[str, Any]) -> dict[str, Any]:
        scopes = {owner_of(name) for name in arrays if last_word(name) in ("scores", "dscores")}
        words = (*SHOWN, *SOURCES, "dpattern")
        return {n: part(n, array) for n, array in arrays.items() if last_word(n) in words and owner_of(n) in scopes}

    logits = np.asarray(traced.logits)
    return replace(
        traced,
        values=parts(traced.values),
        gradients=parts(traced.gradients),
        logits=logits[:, :tokens] if logits.ndim == 3 else logits,
    )
