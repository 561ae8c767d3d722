"""What a page needs to work a model out again by itself: formulas in the order of forward, inputs, and the answer.

The page evaluates the formulas that it shows (web/forward_pass.js). Where it cannot, the reason is said in its place.
"""

from typing import Any

from glassformer.lens.attention_kind import is_pattern
from glassformer.lens.dataflow import dataflow
from glassformer.lens.residual_stream import params_of
from glassformer.lens.trace import Trace, prepared
from glassformer.lens.trace_input import TraceInput
from glassformer.models.model import Network
from glassformer.models.text import Text
from glassformer.names import last_word

MOST_WORK = 200_000_000  # multiply-adds of the matrix products: about a second of JavaScript
LOOPS = "is worked out in a loop over time, which a page does not do"


def page_forward(
    traced: Trace, trace_input: TraceInput, written: dict[str, dict[str, Any]], weights: str
) -> dict[str, Any]:
    """`written` are the tensors of the page. Formulas that are the shown ones are not repeated."""
    loss = next((work.layer for work in traced.works if work.name == "loss"), None)
    answer = next(iter(traced.works[0].gave.values())) if traced.works else None
    logits = next((name for name, array in traced.values.items() if array is answer), None)
    if loss is None or logits is None:
        return {"reason": "the model's answer carries no name"}
    if reason := too_much(traced, written, weights):
        return {"reason": reason}
    labels, counts = trace_input.labels, trace_input.weights
    given = prepared(traced.model, trace_input.x, labels, counts, None, trace_input.keywords)
    flow = dataflow(traced, loss, params_of(traced), given)
    if flow.missing:
        name, layer = next(iter(flow.missing.items()))
        return {"reason": f"{name} of {layer} {LOOPS if name in traced.looped else 'states no formula'}"}
    unknown = [name for name in flow.equations if name not in written]
    if unknown:
        return {"reason": f"{unknown[0]} is not in the page"}
    own = {
        name: [text, refs]
        for name, (text, refs) in flow.equations.items()
        if (text, refs) != (written[name].get("equation"), written[name].get("refs"))
    }
    reads = traced.model.input if isinstance(traced.model, Network) else None
    return {
        "reason": "",
        "order": list(flow.equations),
        "equations": own,
        "inputs": flow.inputs,
        "logits": logits,
        "context": reads.context if isinstance(reads, Text) else None,
    }


def too_much(traced: Trace, written: dict[str, dict[str, Any]], weights: str) -> str:
    """Why a page could not do it in time, or not exactly."""
    if weights == "none":
        return "the page was written without the weights (--weights none)"
    stored = [written.get(name) for name in traced.params]
    stored = [written.get(entry["same"]) if entry and "same" in entry else entry for entry in stored]
    if any(entry is None or entry.get("type") != "f4" for entry in stored):
        many = sum(array.size for array in traced.params.values())
        return f"{many:,} parameters are more than a page computes with"
    work = multiply_adds(traced)
    if work > MOST_WORK:
        return f"a pass takes {work:,} multiply-adds, more than the {MOST_WORK:,} that a page does in about a second"
    return ""


def multiply_adds(traced: Trace) -> int:
    """Every matrix with every token, every attention weight with its key and its value: a bound."""
    patterns = [array for name, array in traced.values.items() if is_pattern(name)]
    tokens = max((max(array.shape[-2:]) for array in patterns), default=1)
    width = max((array.shape[-1] for name, array in traced.values.items() if last_word(name) == "z"), default=0)
    matrices = sum(array.size for array in traced.params.values() if array.ndim == 2)
    return tokens * matrices + 2 * width * sum(array.size for array in patterns)
