"""Embeddings: one vector for each text, image or row, of what the model knows before its head.

The value that goes into the head is found in the model's own structure; a model of numbers without a head gives it
itself. Where it has a vector for each token they are pooled:

mean     over the tokens that are no padding; <start> and <end> count
first    the first token's
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.data.dataset import TEXTS
from glassformer.errors import DataError, SettingError
from glassformer.layers.contract import keywords_for
from glassformer.names import recording, visiting
from glassformer.predict.batches import computed
from glassformer.predict.encoding import native_encoder
from glassformer.predict.reading import check_lengths, context_of, encoded, named, tokeniser_of
from glassformer.structure import Node, Value, structure
from glassformer.train.tasks import Embed, NextToken, Prompted, Vectors
from glassformer.train.tasks.embed import Pooling, check_pooling
from glassformer.train.tasks.sequences import framed

if TYPE_CHECKING:
    from glassformer.predict.run import Run

SMALLEST = 1e-12  # a vector of zeros stays one when it is normalised


def embed(
    run: "Run",
    inputs: Sequence[str] | np.ndarray,
    pooling: Pooling | None,
    normalise: bool | None,
    *,
    cut: bool = False,
    listener: Callable[[int], None] = lambda count: None,
) -> np.ndarray:
    """(N, C), in the order of the inputs. None: as the run's task says, else the mean, not normalised.

    `cut`: of a text that is too long the beginning is taken. The listener is told how many are done with each batch.
    """
    if isinstance(inputs, str):
        raise DataError("embed: one text came, expected a list of texts: [text]")
    if len(inputs) == 0:
        raise DataError("embed: nothing came, expected one text or more (or images, or rows of numbers)")
    usual = run.recipe.task if isinstance(run.recipe.task, Vectors) else Embed()
    value = embedded_value(run)
    if pooling is not None:
        check_pooling(pooling)
        if len(value.shape) == 2:
            raise SettingError(
                f"{run.path}: {type(run.model).__name__} pools its tokens itself; leave out pooling={pooling!r}"
            )
    how = {"name": value.names[0], "pooling": pooling or usual.pooling or "mean"}
    compute = partial(vectors, **how, normalise=usual.normalise if normalise is None else normalise)
    if run.model.input.reads != TEXTS:
        return run.in_parts(partial(compute, run.model, keep=None), np.asarray(inputs), listener)
    readings = [encoded(run, *one) for one in named(check_texts(inputs), "text")]
    most = min(usual.longest or context_of(run), context_of(run))
    # a run that goes on with texts has learned them without a frame
    frame = list if isinstance(run.recipe.task, NextToken | Prompted) else partial(framed, tokeniser_of(run))
    room = most - len(frame([]))
    rows = [frame(one.ids[:room] if cut else one.ids) for one in readings]
    encoder = native_encoder(run, value) if len(value.shape) == 3 else None
    if encoder is None:
        return np.stack(computed(run, readings, rows, compute, most, listener))
    check_lengths(readings, rows, most)
    found = encoder.encode(rows, listener)
    pooled = np.stack([one[0] if how["pooling"] == "first" else one.mean(axis=0) for one in found])
    if not compute.keywords["normalise"]:
        return pooled
    return pooled / np.maximum(np.linalg.norm(pooled, axis=-1, keepdims=True), SMALLEST)


def check_texts(inputs: Any) -> list[str]:
    for one in inputs:
        if not isinstance(one, str):
            raise DataError(f"embed: {one!r:.60} came, expected a text: this run reads texts")
    return list(inputs)


def embedded_value(run: "Run") -> Value:
    """(B, C), or (B, T, C) where there is a vector for each token."""
    model = run.model
    root = structure(model)
    heads = [part for part in root.parts if isinstance(part, Node) and part.name in model.task_parts]
    if not isinstance(model.example(1), jax.ShapeDtypeStruct):
        raise no_embedding(run, "it reads a pair of texts")
    if not heads and (model.output_axis != "numbers" or run.model.input.reads != TEXTS):
        raise no_embedding(run, f"no part of it is called {' or '.join(model.task_parts)}")
    value = jax.tree.leaves(heads[0].x if heads else root.y)[0]
    if len(value.shape) not in (2, 3) or not value.names:
        raise no_embedding(run, f"what goes into its head has the shape {value.shape}")
    return value


def no_embedding(run: "Run", why: str) -> DataError:
    return DataError(
        f"{run.path}: {type(run.model).__name__} has no vector to embed by: {why}; expected a model with a head behind "
        "one vector for each sample or token, or an encoder without a head"
    )


@partial(jax.jit, static_argnames=("model", "name", "pooling", "normalise"))
def vectors(model: Any, params: Any, x: Any, keep: Any, *, name: str, pooling: Pooling, normalise: bool) -> Any:
    seen: dict[str, Any] = {}
    with visiting(recording(seen)):
        model.forward(params, x, **keywords_for(model, keep=keep))
    pooled = seen[name]  # what comes behind it is not computed
    if pooled.ndim == 3:
        pooled = pooled[:, 0] if pooling == "first" else mean(pooled, keep)
    return pooled / jnp.maximum(jnp.linalg.norm(pooled, axis=-1, keepdims=True), SMALLEST) if normalise else pooled


def mean(tokens: Any, keep: Any) -> Any:
    return tokens.mean(axis=1) if keep is None else tokens.mean(axis=1, where=keep[:, :, None])
