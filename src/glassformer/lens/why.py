"""Why: what an answer is made of, asked in several ways, each with its formula and one sentence of how to read it.

The same objects that Python prints (`lens.logit_lens`, `lens.attribution`, …), as plain JSON for the page. What does
not apply to a model says so in its place.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from glassformer.errors import GlassformerError, SettingError
from glassformer.layers import ClassToken, FirstToken
from glassformer.layers.contract import Layer
from glassformer.lens.ablate_each import HeadEffects, ablate_each
from glassformer.lens.attention import patterns
from glassformer.lens.attention_kind import Kind, is_pattern
from glassformer.lens.attention_rollout import rolled
from glassformer.lens.attribution import attribution
from glassformer.lens.gradient_attention import averaged, fetched, gradient_rollout
from glassformer.lens.health import health
from glassformer.lens.logit_lens import logit_lens
from glassformer.lens.residual_stream import params_of
from glassformer.lens.trace import Trace, trace
from glassformer.lens.trace_input import TraceInput
from glassformer.losses import CrossEntropy
from glassformer.models.model import Network
from glassformer.probabilities import softmax
from glassformer.structure import structure

LIKELIEST = 4  # of the answers after each block
PARTS = 24  # of a logit, the largest

FORMULAS = {
    "logit lens": "logits = head(norm(resid_post))",
    "attribution": "amount = z @ w_o @ direction",
    "rollout": "rolled = (rolled + pattern @ rolled) / 2",
    "gradient x attention": "relevance = max(-pattern * dpattern, 0)",
    "ablation": "change = loss_without - loss",
}
READ = {
    "logit lens": "What the model would answer if it ended after each block; early answers are a guess: no block was "
    "trained to be read like this.",
    "attribution": "How much each part adds to the logit of the answer; together they are that logit. What a head does "
    "through later blocks counts as theirs.",
    "rollout": "Attention followed through all blocks back to the input, half of each token being the token itself.",
    "gradient x attention": "Where looking speaks for the answer: attention weights times the gradient they receive, "
    "through all blocks; what speaks against it is left out.",
    "ablation": "How much worse the loss gets without each head, while all others are there; near zero, it is not "
    "needed here.",
    "health": "Numbers of this one input that are out of bounds, and those that are not.",
}


def why_of(
    traced: Trace, trace_input: TraceInput, effects: HeadEffects | None = None, loss: Layer | None = None
) -> list[dict[str, Any]]:
    """All parts, in the order of the page; `effects` are those of `ablate_each`, where somebody worked them out."""
    if not isinstance(traced.model, Network):
        return []

    def place() -> int | None:
        return place_of(traced, trace_input)

    def part(title: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        about = {"title": title, "formula": FORMULAS.get(title, ""), "read": READ[title]}
        try:
            return about | work()
        except GlassformerError as error:
            return about | {"reason": str(error)}

    found = [
        part("logit lens", lambda: lens_rows(traced, trace_input, place())),
        part("attribution", lambda: attribution_rows(traced, trace_input, place())),
        part("rollout", lambda: maps_of(traced, rollout_maps(traced), place())),
        part("gradient x attention", lambda: relevance_maps(traced, trace_input, place(), loss or CrossEntropy())),
        part("health", lambda: {"findings": findings_of(traced)}),
    ]
    if effects is not None:
        rows = [[one.name.removesuffix(".z"), one.head, one.loss, one.loss_change] for one in effects.heads]
        found.insert(4, part("ablation", lambda: {"heads": rows}))
    return found


def head_effects(traced: Trace, trace_input: TraceInput, loss: Any) -> HeadEffects | None:
    """Of this one input; None of a model without attention, or where numbers are the answer."""
    if not any(map(is_pattern, traced.values)) or np.issubdtype(trace_input.labels.dtype, np.floating):
        return None
    given = {"labels": trace_input.labels, "weights": trace_input.weights, "loss": loss, **trace_input.keywords}
    return ablate_each(traced.model, params_of(traced), trace_input.x, **given)


def place_of(traced: Trace, trace_input: TraceInput) -> int | None:
    """The token whose answer is asked about: the one behind the text, the first mask, else the last that counts.

    None where the whole input has one answer.
    """
    if np.ndim(traced.logits) != 3:
        return None
    if np.shape(traced.logits)[1] != len(trace_input.tokens):
        raise SettingError("the model answers with places in the text: no row of its logits belongs to a token")
    if trace_input.asked:
        return trace_input.asked[0]
    counted = np.flatnonzero(
        np.ones(len(trace_input.tokens)) if trace_input.weights is None else trace_input.weights[0]
    )
    return int(counted[-1]) if counted.size else len(trace_input.tokens) - 1


def answer_at(traced: Trace, place: int | None) -> np.ndarray:
    logits = np.asarray(traced.logits, np.float64)[0]
    return logits if place is None else logits[place]


def word_of(trace_input: TraceInput, number: int) -> str:
    return trace_input.words[number] if number < len(trace_input.words) else str(number)


def lens_rows(traced: Trace, trace_input: TraceInput, place: int | None) -> dict[str, Any]:
    rows = []
    for name, logits in logit_lens(traced, start=True).items():
        p = softmax(np.asarray(logits, np.float64)[0] if place is None else np.asarray(logits, np.float64)[0, place])
        best = np.argsort(-p, kind="stable")[:LIKELIEST]
        rows.append([name, [[word_of(trace_input, int(i)), float(p[i])] for i in best]])
    return {"place": place, "blocks": rows}


def attribution_rows(traced: Trace, trace_input: TraceInput, place: int | None) -> dict[str, Any]:
    label = int(answer_at(traced, place).argmax())
    found = attribution(traced, label=label, place=place)
    order = sorted(found.parts, key=lambda one: -abs(one.amount[0]))
    rest = float(sum(one.amount[0] for one in order[PARTS:]))
    written = found.at()[0]
    heads = [one.sources[0] for one in found.parts if one.sources is not None and one.sources.shape[1] == len(written)]
    maps = {"written into each token": written, **({"fetched from each token, by heads": sum(heads)} if heads else {})}
    return {
        "label": word_of(trace_input, label),
        "place": place,
        "logit": float(found.logit[0]),
        "parts": [[one.title, float(one.amount[0])] for one in order[:PARTS]],
        "rest": rest if len(order) > PARTS else None,
        "maps": [{"title": title, "sequence": "tokens", "row": list(map(float, row))} for title, row in maps.items()],
    }


def rollout_maps(traced: Trace) -> dict[Kind, np.ndarray]:
    return rolled(traced.model, averaged(patterns(cast(Network, traced.model), traced.values)), s=0.5)


def maps_of(traced: Trace, found: dict[Kind, np.ndarray], place: int | None) -> dict[str, Any]:
    """The row of the token that the answer is read from; the mean of all rows under a mean pool."""

    def row(one: np.ndarray) -> list[float]:
        if place is not None:
            return one[0, place].tolist()
        first = structure(traced.model).first(FirstToken) or structure(traced.model).first(ClassToken)
        return (one[0, 0] if first else one[0].mean(axis=0)).tolist()

    return {
        "place": place,
        "maps": [
            {"title": TITLES[kind], "sequence": "memory" if kind == "cross" else "tokens", "row": row(one)}
            for kind, one in found.items()
            if not (kind == "self" and "cross" in found)  # of a decoder, what it reads is the cross row
        ],
    }


def relevance_maps(traced: Trace, trace_input: TraceInput, place: int | None, loss: Layer) -> dict[str, Any]:
    return maps_of(traced, fetched(gradient_rollout(toward_answer(traced, trace_input, place, loss))), place)


def toward_answer(traced: Trace, given: TraceInput, place: int | None, loss: Layer) -> Trace:
    """Its gradient is that of the loss against the model's own answer, at `place` alone; if not yet, traced again."""
    if (
        given.dy is not None
        or np.issubdtype(given.labels.dtype, np.floating)
        or not any(map(is_pattern, traced.values))
    ):
        return traced
    labels = np.asarray(traced.logits).argmax(axis=-1).astype(given.labels.dtype)
    if place is None:
        weights = given.weights
        if np.array_equal(labels, given.labels):
            return traced
    else:
        weights = (np.arange(labels.shape[1]) == place).astype(np.float32)[None]
    return trace(traced.model, params_of(traced), given.x, labels=labels, weights=weights, loss=loss, **given.keywords)


TITLES: dict[Kind, str] = {"self": "each token", "causal": "each token so far", "cross": "each source token"}


def findings_of(traced: Trace) -> list[dict[str, Any]]:
    return [
        {"measure": one.measure, "name": one.name, "value": one.value, "text": one.text, "alarming": bool(one.alarming)}
        for one in health(traced)
    ]
