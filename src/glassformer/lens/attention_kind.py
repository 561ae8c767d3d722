"""Kinds of attention: which sequence attends to which, told by the layers at work and their masks.

self      a sequence at itself, in both directions: ViT, BERT, the encoder of T5
causal    a sequence at itself, backwards only: GPT, the decoder of T5
cross     one sequence at another: the decoder of T5 at what its encoder has read
"""

from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

import jax
import numpy as np
from jax.core import Tracer

from glassformer.lens.trace import Trace, Work
from glassformer.names import Call, last_word, visiting, watching

Kind = Literal["self", "causal", "cross"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class AttentionLayer(NamedTuple):
    name: str  # its scope: blocks.0.attn
    kind: Kind
    work: Work  # the layer that makes scores and pattern; it may share its names with the layers around it
    around: Work  # the outermost of these


def attention_layers(trace: Trace) -> list[AttentionLayer]:
    """Every layer at work that made scores and a pattern, in order."""
    forward = [work for work in trace.works if work.direction == "forward"]
    found = []
    for pattern in filter(is_pattern, trace.values):
        scope = pattern.removesuffix("pattern").removesuffix(".")
        works = [work for work in forward if work.name == scope]
        if f"{scope}.scores" in trace.values and works and "q" in works[-1].given:
            crosses = any(is_cross(work.given) for work in works)
            kind = kind_by(crosses, trace.values.get(mask_name(pattern)), trace.values[pattern].shape[-2:])
            found.append(AttentionLayer(scope, kind, works[-1], works[0]))
    return found


def kind_of(model: Any, name: str) -> Kind:
    """Of the pattern of this name.

    >>> from glassformer.models import T5
    >>> small = T5(depth=1, width=8, hidden=8, heads=1)
    >>> kind_of(small, "decoder.blocks.0.cross.pattern"), kind_of(small, "decoder.blocks.0.attn.pattern")
    ('cross', 'causal')
    """
    return attention_kinds(model)[name]


@lru_cache(maxsize=64)
def attention_kinds(model: Any) -> dict[str, Kind]:
    """Of every pattern, without computing it: masks that depend on no input are known while tracing."""
    crosses: dict[str, bool] = {}
    masks: dict[str, Any] = {}
    found: dict[str, Kind] = {}

    def watcher(call: Call) -> Any:
        given = getattr(call.given, "_asdict", dict)()  # of Inputs
        crosses[call.name] = crosses.get(call.name, False) or is_cross(given)
        return call.run()

    def visitor(name: str, value: Any) -> Any:
        if last_word(name) == "mask":
            masks[name] = value
        if is_pattern(name):
            scope = name.removesuffix("pattern").removesuffix(".")
            found[name] = kind_by(crosses.get(scope, False), masks.get(mask_name(name)), value.shape[-2:])
        return value

    def forward(params: Any, x: Any) -> Any:
        with visiting(visitor), watching(watcher), jax.ensure_compile_time_eval():
            return model.to_look_at().forward(params, x)[0]

    jax.eval_shape(forward, jax.eval_shape(model.init, jax.random.key(0)), model.example(1))
    return found


def is_cross(given: dict[str, Any]) -> bool:
    return "memory" in given and given.get("query") is not given["memory"]


def kind_by(crosses: bool, mask: Any, shape: tuple[int, ...]) -> Kind:
    if crosses:
        return "cross"
    if mask is None or isinstance(mask, Tracer) or mask.shape[-2:] != shape:
        return "self"  # a mask for all queries alike hides padding
    return "causal" if shape[0] > 1 and not np.triu(np.asarray(mask), 1).any() else "self"


def mask_name(pattern: str) -> str:
    """
    >>> mask_name("blocks.0.attn.pattern")
    'blocks.0.attn.mask'
    """
    return f"{pattern.removesuffix('pattern')}mask"


def is_pattern(name: str) -> bool:
    return last_word(name) == "pattern"
