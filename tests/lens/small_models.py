"""One small model of each kind, its weights drawn so large that attention decides, a batch, and its twin by hand."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.layers import GELUTanh, Rotary
from glassformer.lens.trace import Trace, trace
from glassformer.models import BERT, GPT, T5, BERTFor, ClassHead, Images, MaskedHead, Text, ViT
from glassformer.models.t5 import Inputs
from glassformer.names import named_leaves, with_leaves

from . import by_hand

WORDS = Text(vocabulary=11, context=9)
VIT = ViT(images=Images(shape=(8, 12, 1), classes=3, mean=0.2, std=0.7), width=8, hidden=9, heads=2, depth=2)
GPT_SMALL = GPT(WORDS, width=12, hidden=10, heads=3, depth=2)
BERT_SMALL = BERT(WORDS, width=12, hidden=10, heads=3, depth=2, eps=1e-5)
T5_SMALL = T5(WORDS, width=6, hidden=7, heads=3, head_width=4, depth=2, decoder_depth=2, buckets=32, reach=64)
MODELS: dict[str, Any] = {
    "vit": VIT,
    "vit-class": replace(VIT, with_class_token=True),
    "gpt": GPT_SMALL,
    "gpt-rotary": replace(GPT_SMALL, rotary=Rotary(), tied=False),
    "bert-masked": BERTFor(BERT_SMALL, MaskedHead(12, 11, eps=1e-5)),
    "bert-class": BERTFor(BERT_SMALL, ClassHead(12, 4)),
    "t5": T5_SMALL,
    "t5-gated": replace(T5_SMALL, gated=True, activation=GELUTanh(), tied=False),
}
PRE_NORM = [kind for kind in MODELS if not kind.startswith("bert")]
CASES = [(kind, padded) for kind in MODELS for padded in (False, True) if not (padded and kind.startswith("vit"))]


class Small(NamedTuple):
    model: Any
    params: Any
    x: Any
    keywords: dict[str, Any]
    by_hand: Callable[..., by_hand.Seen]  # (look) -> what it gives
    answer: Callable[[np.ndarray], np.ndarray]  # of a stream
    w: dict[str, np.ndarray]


@lru_cache
def traced(kind: str, padded: bool = False) -> Trace:
    """With the gradient of a sum of all logits, weighed at random."""
    one = small(kind, padded)
    return trace(one.model, one.params, one.x, dy=score_weights(kind, padded), **one.keywords)


@lru_cache
def score_weights(kind: str, padded: bool = False) -> np.ndarray:
    logits = small(kind, padded).by_hand().logits
    return np.random.default_rng(5).normal(size=logits.shape).astype(np.float32)


@lru_cache
def small(kind: str, padded: bool = False) -> Small:
    model, rng = MODELS[kind], np.random.default_rng(0)
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    leaves = {name: drawn(name, leaf.shape, rng) for name, leaf in named_leaves(shapes).items()}
    params, w = (
        with_leaves(shapes, {name: jnp.asarray(leaf) for name, leaf in leaves.items()}),
        by_hand.weights_of(leaves),
    )
    family = kind.partition("-")[0]
    if family == "vit":
        x = rng.integers(0, 256, (3, *model.images.shape), dtype=np.uint8)
        return Small(
            model,
            params,
            x,
            {},
            lambda *look: by_hand.vit(model, w, x, *look),
            lambda h: by_hand.vit_answer(model, w, h),
            w,
        )
    ids = rng.integers(0, 11, (2, 6)).astype(np.int32)
    keep = np.arange(6) < np.array([[6], [4]]) if padded else None
    keywords = {"keep": keep} if padded else {}
    if family == "t5":
        target = rng.integers(0, 11, (2, 5)).astype(np.int32)
        x = Inputs(source=jnp.asarray(ids), target=jnp.asarray(target))
        return Small(
            model,
            params,
            x,
            keywords,
            lambda look=by_hand.as_seen: by_hand.t5(model, w, ids, target, look, keep),
            lambda h: by_hand.t5_answer(model, w, h),
            w,
        )
    run, answer = getattr(by_hand, family), getattr(by_hand, f"{family}_answer")
    return Small(
        model,
        params,
        ids,
        keywords,
        lambda look=by_hand.as_seen: run(model, w, ids, look, keep),
        lambda h: answer(model, w, h),
        w,
    )


def drawn(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Nothing is one or zero: that would hide mistakes."""
    around = 1.0 if name.endswith(".gain") else 0.0
    return rng.normal(around, 0.5 if len(shape) == 2 else 0.2, shape).astype(np.float32)
