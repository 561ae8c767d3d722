"""What a run makes of one text, and the score of that answer: the logits whose sum its gradient is taken of.

classify     the logit of the likeliest class; of a regression all its numbers
next-token   the logit of the likeliest symbol behind the last one; so of `answer`, behind the prompt
masked       the logits of the likeliest symbol at every <mask>
tag          the logits of the likeliest class at every symbol of the text
span         the logits of the start and of the end
translate    the logits of every symbol that is written, <end> included
embed        all numbers of every token
"""

from typing import NamedTuple

import numpy as np

from glassformer.lens.encode_input import EncodedInput
from glassformer.lens.token_maps import shown
from glassformer.predict.reading import tokeniser_of
from glassformer.predict.run import Run
from glassformer.probabilities import softmax
from glassformer.train.tasks import Masked, Span, Tag, Translate, Vectors
from glassformer.train.tasks.sequences import symbol


class AnswerTarget(NamedTuple):
    text: str  # the answer, in a few words
    probability: float | None  # None: it is made of several
    dy: np.ndarray  # 1 at every logit of it, 0 elsewhere: where its gradient begins


def answer_target(run: Run, given: EncodedInput, logits: np.ndarray) -> AnswerTarget:
    """Of the logits of that text."""
    task, dy = run.recipe.task, np.zeros(logits.shape, np.float32)
    if isinstance(task, Vectors):
        return AnswerTarget("an embedding", None, dy + 1)
    if run.gives_numbers:
        found = ", ".join(f"{name} {value:.6g}" for name, value in zip(run.classes, logits[0], strict=True))
        return AnswerTarget(found, None, dy + 1)
    if logits.ndim == 2:  # one answer for the whole input
        best = int(logits[0].argmax())
        dy[0, best] = 1
        return AnswerTarget(run.classes[best], float(softmax(logits[0])[best]), dy)
    if isinstance(task, Span):
        return span_target(given, logits, dy)
    if isinstance(task, Tag):
        inside = range(1, logits.shape[1] - 1)
        best = logits[0].argmax(axis=-1)
        dy[0, inside, best[inside]] = 1
        parts = [name for i, name in enumerate(run.classes) if i and i in best[inside]]
        return AnswerTarget(", ".join(parts) or "no part", None, dy)
    if isinstance(task, Translate):
        dy[0, range(len(given.written)), given.written] = 1
        return AnswerTarget(repr(tokeniser_of(run).decode(given.written)), None, dy)
    places = [logits.shape[1] - 1]
    if isinstance(task, Masked):
        places = np.flatnonzero(np.asarray(given.x)[0] == symbol(tokeniser_of(run), "mask")).tolist()
    return symbols_target(run, places, logits, dy)


def symbols_target(run: Run, places: list[int], logits: np.ndarray, dy: np.ndarray) -> AnswerTarget:
    """A model's table may have more rows than there are symbols."""
    tokeniser = tokeniser_of(run)
    best = logits[0, places, : tokeniser.size].argmax(axis=-1)
    dy[0, places, best] = 1
    names = ", ".join(repr(shown(tokeniser.symbol(number))) for number in best)
    sure = float(softmax(logits[0, places[0]])[best[0]]) if len(places) == 1 else None
    return AnswerTarget(names, sure, dy)


def span_target(given: EncodedInput, logits: np.ndarray, dy: np.ndarray) -> AnswerTarget:
    """The likeliest piece of the text's own symbols whose start is not behind its end."""
    p = softmax(logits[0, :, 1:-1])
    together = np.triu(np.outer(p[0], p[1]))
    first, last = (1 + int(i) for i in np.unravel_index(together.argmax(), together.shape))
    dy[0, 0, first] = dy[0, 1, last] = 1
    return AnswerTarget(repr("".join(given.labels.source[first : last + 1]).strip()), float(together.max()), dy)
