"""What a text model reads in C: a sample is one row of 32-bit words.

    ids                 T
    keep                T, where texts are padded: 0 at padding
    place, keys         1 + 2 L, where L layers drop out: the sample's place in its batch, and the layers' own keys

The keys are those that the model itself gives its Dropout layers in a step, so C draws the very bits of JAX
(c/dropout.h): the same values are dropped on both engines.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.errors import EngineError
from glassformer.layers import Dropout
from glassformer.names import Call, watching
from glassformer.native.plan import Input, Keys, Plan
from glassformer.structure import Node, structure


@dataclass(frozen=True)
class Words:
    tokens: int  # T
    padded: bool
    drops: tuple[str, ...]  # names of layers

    @property
    def count(self) -> int:
        return self.tokens * (1 + self.padded) + (1 + 2 * len(self.drops)) * bool(self.drops)

    @property
    def input(self) -> Input:
        return Input((self.count,), is_bytes=False, is_words=True)


def reads_tokens(model: Any) -> bool:
    x = model.example(1)
    return isinstance(x, jax.ShapeDtypeStruct) and len(x.shape) == 2 and np.issubdtype(x.dtype, np.signedinteger)


def graph_of(model: Any, tokens: int | None = None, *, padded: bool = False) -> tuple[Node, Words]:
    """The structure of a text model for rows of so many tokens, or of its whole context."""
    x = model.example(1)
    tokens = tokens or int(x.shape[1])
    keep = {"keep": jax.ShapeDtypeStruct((1, tokens), bool)} if padded else {}
    graph = structure(model, jax.ShapeDtypeStruct((1, tokens), x.dtype), **keep)
    drops = [node.name for node in graph.walk() if isinstance(node.layer, Dropout) and node.layer.rate]
    return graph, Words(tokens, padded, tuple(drops))


def take_in(plan: Plan, graph: Node, words: Words) -> None:
    """The parts of a row, each as a buffer of its own."""
    plan.words, tokens = words, words.tokens
    ids = plan.buffer("ids", plan.samples, tokens)
    plan.call("words_forward", "token_ids", (ids,), (plan.input,), (tokens, 0))
    plan.values[graph.x] = ids
    if words.padded:
        unseen = plan.buffer("unseen", plan.samples, f"SOURCES({tokens})")
        sizes = (tokens, f"SOURCES({tokens})", tokens)
        plan.call("padding_forward", "token_ids", (unseen,), (plan.input,), sizes)
        plan.values[graph.keywords["keep"]] = unseen
    if words.drops:
        count = 1 + 2 * len(words.drops)
        keys = plan.buffer("keys", plan.samples, count)
        plan.call("words_forward", "token_ids", (keys,), (plan.input,), (count, tokens * (1 + words.padded)))
        plan.keys = Keys(keys, words.drops)


def dropout_keys(model: Any, words: Words, key: Any) -> Any:
    """The keys that the model gives its layers in a step, (L, 2) words: forward is traced, and nothing else of it
    computed."""
    found: dict[str, Any] = {}

    def watcher(call: Call) -> Any:
        if isinstance(call.layer, Dropout) and call.layer.rate:
            found[call.name] = jax.random.key_data(call.keywords["key"])
        return call.run()

    params = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(model.init, jax.random.key(0)))
    with watching(watcher):
        model.forward(params, jnp.zeros((1, words.tokens), jnp.int32), key=key)
    return jnp.stack([found[name] for name in words.drops])


def must_draw_as_c_does() -> None:
    """C has one of JAX's generators."""
    if jax.random.key_data(jax.random.key(0)).shape != (2,) or not jax.config.jax_threefry_partitionable:  # pyright: ignore[reportAttributeAccessIssue]
        raise EngineError("the native engine drops out by threefry keys, partitionable, and JAX is set to others")
