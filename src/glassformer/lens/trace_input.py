"""What a model is shown, ready to be traced: its input, what counts as right, and what each token is called.

Where nobody knows the right answer, the model's own stands in for it: the gradient then says what would make the model
more sure of what it says.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from glassformer.data.dataset import IMAGES, TEXTS
from glassformer.errors import DataError
from glassformer.layers import ClassToken, Patches
from glassformer.lens.attention import patch_grid
from glassformer.lens.encode_input import as_batch, encode_input
from glassformer.predict.reading import Reading, check_lengths, context_of, tokeniser_of
from glassformer.predict.run import Run
from glassformer.structure import structure
from glassformer.train.tasks import Answering, Masked, NextToken, Translate
from glassformer.train.tasks.sequences import symbol

CLASS = "class"  # the token in front of the patches


@dataclass(frozen=True)
class TraceInput:
    kind: str  # image, text or row
    name: str
    x: Any  # a batch of one
    labels: np.ndarray
    is_known: bool  # the labels are right, not the model's own answer
    tokens: tuple[str, ...]  # as they are called; a patch by its row and column
    memory: tuple[str, ...] = ()  # of a second sequence, the one that is read: T5's source
    weights: np.ndarray | None = None
    words: tuple[str, ...] = ()  # what the rows of the logits' last axis are called
    keywords: dict[str, Any] = field(default_factory=dict)


def image_input(run: Run, name: str, image: np.ndarray, label: Any = None) -> TraceInput:
    """One image of the run's shape. `label` is the number of the right class, or the right numbers, if known."""
    x = run.as_batch(image[None])
    dtype = np.float32 if run.gives_numbers else np.int32
    labels = own_answer(run, x) if label is None else np.array([label], dtype)
    tokens: tuple[str, ...] = ()
    if structure(run.model).first(Patches):
        rows, columns = patch_grid(run.model)
        tokens = tuple(f"{row},{column}" for row in range(rows) for column in range(columns))
        tokens = (CLASS, *tokens) if structure(run.model).first(ClassToken) else tokens
    return TraceInput("image", name, x, labels, label is not None, tokens, words=run.classes)


def text_input(run: Run, name: str, text: str, label: Any = None) -> TraceInput:
    """A text, or a row of numbers, as the run's task reads it.

    `label` is the right class, translation or numbers, if known.
    """
    task = run.recipe.task
    if task.together:
        raise DataError(
            f"{run.path}: the loss of {task.name} compares several texts, and one came: there is no gradient to show; "
            f"what it looks at: glassformer attend TEXT --run {run.path}"
        )
    given = encode_input(run, text, label if isinstance(task, Translate) else None)
    tokens, target, _ = map(tuple, given.labels)
    found = TraceInput("text", name, given.x, np.zeros(0), False, tokens, words=run.classes)
    if run.model.input.reads != TEXTS:
        return answered(run, replace(found, kind="row"), label)
    if isinstance(task, Translate):
        labels = as_batch(given.written)
        words = vocabulary(run)
        return replace(found, labels=labels, is_known=label is not None, tokens=target, memory=tokens, words=words)
    if isinstance(task, NextToken) and len(tokens) > 1:
        x, labels = given.x[:, :-1], given.x[:, 1:]
        return replace(found, x=x, labels=labels, is_known=True, tokens=tokens[:-1], words=vocabulary(run))
    if isinstance(task, Answering):
        return answer_input(run, found, label)
    if isinstance(task, Masked):
        found = replace(found, weights=(given.x == symbol(tokeniser_of(run), "mask")).astype(np.float32))
    if isinstance(task, Masked | NextToken):
        found = replace(found, words=vocabulary(run))
    return answered(run, found, label)


def answer_input(run: Run, found: TraceInput, label: str | None) -> TraceInput:
    """A prompt with the right answer, of which every symbol counts; without one, the first symbol that it writes."""
    found = replace(found, words=vocabulary(run))
    if label is None:
        found = answered(run, found, None)
        return replace(found, weights=(np.arange(found.x.shape[1]) == found.x.shape[1] - 1).astype(np.float32)[None])
    tokeniser, prompt = tokeniser_of(run), len(found.tokens)
    answer = [*tokeniser.encode(label), symbol(tokeniser, "end")]
    row = np.concatenate([found.x, as_batch(answer)], axis=1)
    tokens = (*found.tokens, *map(tokeniser.symbol, answer[:-1]))
    check_lengths([Reading(label, answer[:-1], [], "the answer")], [row[0, :-1].tolist()], context_of(run))
    weights = (np.arange(len(tokens)) >= prompt - 1).astype(np.float32)[None]
    return replace(found, x=row[:, :-1], labels=row[:, 1:], is_known=True, tokens=tokens, weights=weights)


def vocabulary(run: Run) -> tuple[str, ...]:
    """A model's table may have more rows than there are symbols, and fewer."""
    tokeniser, text = tokeniser_of(run), run.model.input
    rows = min(tokeniser.size, text.vocabulary)  # pyright: ignore[reportAttributeAccessIssue]
    return tuple(map(tokeniser.symbol, range(rows)))


def answered(run: Run, trace_input: TraceInput, label: Any) -> TraceInput:
    """With the right class or numbers, where they are known; else with what the model itself says."""
    if run.gives_numbers and label is not None:
        labels, is_known = np.array([label], np.float32), True
    elif label in run.classes:
        labels, is_known = np.array([run.classes.index(label)], np.int32), True
    else:
        labels, is_known = own_answer(run, trace_input.x), False
    return replace(trace_input, labels=labels, is_known=is_known)


def own_answer(run: Run, x: Any) -> np.ndarray:
    y = np.asarray(logits_of(run.model, run.params, x))
    return y if run.gives_numbers else y.argmax(axis=-1).astype(np.int32)


@partial(jax.jit, static_argnums=0)
def logits_of(model: Any, params: Any, x: Any) -> Any:
    """Compiled once for a model and a shape, however often its weights are loaded anew."""
    return model.forward(params, x)[0]


def reads_images(run: Run) -> bool:
    return run.model.input.reads == IMAGES
