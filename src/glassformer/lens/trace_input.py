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
from glassformer.layers import Patches
from glassformer.lens.attention import patch_grid, tokens_in_front
from glassformer.lens.encode_input import as_batch, encode_input
from glassformer.predict.reading import Reading, check_lengths, context_of, tokeniser_of
from glassformer.predict.run import Run
from glassformer.structure import structure
from glassformer.train.tasks import Masked, NextToken, Prompted, Translate, Vectors
from glassformer.train.tasks.sequences import symbol


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
    dy: np.ndarray | None = None  # of a model without a loss: where the gradient begins
    asked: tuple[int, ...] = ()  # tokens at which the answer is a symbol: behind the last one, or at every mask
    question: str = ""  # what is asked there: next, mask, or the first symbol of an answer
    written: str = ""  # what a T5 writes, as a text


def image_input(run: Run, name: str, image: np.ndarray, label: Any = None) -> TraceInput:
    """One image of the run's shape. `label` is the number of the right class, or the right numbers, if known."""
    x = run.as_batch(image[None])
    dtype = np.float32 if run.gives_numbers else np.int32
    labels = own_answer(run, x) if label is None else np.array([label], dtype)
    tokens: tuple[str, ...] = ()
    if structure(run.model).first(Patches):
        rows, columns = patch_grid(run.model)
        tokens = tuple(f"{row},{column}" for row in range(rows) for column in range(columns))
        tokens = (*tokens_in_front(run.model), *tokens)
    return TraceInput("image", name, x, labels, label is not None, tokens, words=run.classes)


def text_input(run: Run, name: str, text: str, label: Any = None) -> TraceInput:
    """A text, or a row of numbers, as the run's task reads it.

    `label` is the right class, translation or numbers, if known.
    """
    task = run.recipe.task
    given = encode_input(run, text, label if isinstance(task, Translate) else None)
    tokens, target, _ = map(tuple, given.labels)
    found = TraceInput("text", name, given.x, np.zeros(0), False, tokens, words=run.classes)
    if isinstance(task, Vectors):
        return vector_input(run, found)
    if run.model.input.reads != TEXTS:
        return answered(run, replace(found, kind="row"), label)
    if isinstance(task, Translate):
        labels = as_batch(given.written)
        text = tokeniser_of(run).decode([one for one in given.written if one != symbol(tokeniser_of(run), "end")])
        found = replace(found, tokens=target, memory=tokens, words=vocabulary(run), written=text)
        return replace(found, labels=labels, is_known=label is not None)
    if isinstance(task, NextToken):
        return next_token_input(run, found)
    if isinstance(task, Prompted):
        return answer_input(run, found, label)
    if isinstance(task, Masked):
        is_mask = given.x == symbol(tokeniser_of(run), "mask")
        places = tuple(np.flatnonzero(is_mask[0]).tolist())
        found = replace(found, weights=is_mask.astype(np.float32), asked=places, question="mask", words=vocabulary(run))
    return answered(run, found, label)


def vector_input(run: Run, found: TraceInput) -> TraceInput:
    """An encoder has no loss for one text: the gradient is that of the sum of all numbers that it gives."""
    y = jax.eval_shape(lambda params, x: run.model.forward(params, x)[0], run.params, found.x)
    return replace(found, dy=np.ones(y.shape, np.float32))


def next_token_input(run: Run, found: TraceInput) -> TraceInput:
    found = continued(replace(found, words=vocabulary(run)))
    return found if found.is_known else answered(run, found, None)


def continued(found: TraceInput) -> TraceInput:
    """Each token is followed by the next one; what follows the last is asked, and counts nothing in the loss."""
    last = len(found.tokens) - 1
    found = replace(found, asked=(last,), question="next")
    if not last:
        return found
    labels = np.pad(found.x[:, 1:], ((0, 0), (0, 1)))
    weights = (np.arange(last + 1) < last).astype(np.float32)[None]
    return replace(found, labels=labels, is_known=True, weights=weights)


def answer_input(run: Run, found: TraceInput, label: str | None) -> TraceInput:
    """A prompt with the right answer, of which every symbol counts; without one, the first symbol that it writes."""
    found = replace(found, words=vocabulary(run))
    if label is None:
        last = found.x.shape[1] - 1
        found = replace(answered(run, found, None), asked=(last,), question="answer")
        return replace(found, weights=(np.arange(last + 1) == last).astype(np.float32)[None])
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
