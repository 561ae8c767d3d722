"""Gradient x attention: where a head looks, and whether looking there speaks for the answer.

relevance = relu(pattern * dpattern)      for each block and head; dpattern is the gradient of the answer's score
A         = the mean of it over the heads
rollout   R = R + A @ R, block after block (attention_rollout.py with s = 1)

`dpattern` alone says what would change if a query looked more at a source; times `pattern`, what looking there does
now. What speaks against the answer is left out. The score is what the trace's `dy` chose: onehot(class) of the logits.
Of a trace with labels the gradient is that of the loss, which falls as the label gets likelier, so its sign is turned:
relevance = relu(pattern * -dpattern) speaks for the label. Chefer, Gur & Wolf, 2021.
"""

from collections.abc import Mapping

import numpy as np

from glassformer.errors import UnknownNameError
from glassformer.lens.attention_kind import Kind, is_pattern
from glassformer.lens.attention_rollout import rolled
from glassformer.lens.maps import AttentionMaps
from glassformer.lens.trace import Trace
from glassformer.names import gradient_name


def gradient_attention(trace: Trace) -> AttentionMaps:
    """Relevance (B, H, T, S) of every pattern, by its name: `blocks.0.attn.pattern`, `decoder.blocks.0.cross.pattern`.

    >>> from glassformer.lens.trace import trace
    >>> from glassformer.predict.run import load
    >>> run = load()
    >>> seen = trace(run.model, run.params, run.load_data().test.images[:2], labels=[7, 2])
    >>> {name: relevance.shape for name, relevance in gradient_attention(seen).items()}
    {'blocks.0.attn.pattern': (2, 1, 49, 49)}
    """
    names = [name for name in trace.values if is_pattern(name)]
    if not names:
        raise UnknownNameError(
            f"gradient x attention: the trace of {type(trace.model).__name__} has no value called 'pattern'; expected "
            "the whole trace of a model with attention"
        )
    if not trace.gradients:
        raise UnknownNameError(
            "gradient x attention: the trace has no gradients; make it with labels=…, or with dy=…, "
            "the gradient of the logits: 1 at the answer, 0 elsewhere"
        )
    sign = 1 if trace.loss is None else -1
    return AttentionMaps({name: np.maximum(sign * trace[name] * trace[gradient_name(name)], 0) for name in names})


def averaged(relevance: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The mean over the heads: (B, T, S)."""
    return {name: one.mean(axis=1, dtype=np.float64) for name, one in relevance.items()}


def gradient_rollout(trace: Trace) -> dict[Kind, np.ndarray]:
    """All blocks together, rows are output tokens: "self" or "causal" (B, T, T); of T5 both, and "cross" (B, T, S)."""
    return rolled(trace.model, averaged(gradient_attention(trace)), s=1)


def fetched(rollout: Mapping[Kind, np.ndarray]) -> dict[Kind, np.ndarray]:
    """Less what each token is of itself: R - I. In a picture that 1 would outshine what came from elsewhere."""
    return {kind: one if kind == "cross" else one - np.eye(one.shape[-1]) for kind, one in rollout.items()}
