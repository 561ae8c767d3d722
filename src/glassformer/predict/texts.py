"""What a run makes of texts, by its task; of rows of numbers, "5.1,3.5,1.4,0.2", a class or numbers.

classify     a class, and how likely each is
tag          the parts that were found: neighbouring tokens of one class, joined
span         the piece with the largest p(start) p(end) of all whose start is not behind their end
masked       for every <mask> the likeliest symbols
next-token   the likeliest symbols to come next, and how well the text itself was foreseen
translate    the text that is written when every time the likeliest symbol is taken
answer       the same, behind the prompt
chat         the same, as the assistant's answer to a message of the user
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.data.dataset import IMAGES, TEXTS
from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import DataError
from glassformer.generate.jax_decoder import JaxDecoder
from glassformer.generate.prompts import Prompt
from glassformer.generate.sampling import Sampling
from glassformer.generate.text import Row, Writing, write
from glassformer.predict.answers import (
    Answer,
    ClassAnswer,
    Gap,
    Guess,
    MaskedAnswer,
    NextAnswer,
    NumbersAnswer,
    PromptAnswer,
    TranslateAnswer,
)
from glassformer.predict.batches import framed_logits, in_batches, logits_of, room
from glassformer.predict.reading import (
    Reading,
    check_lengths,
    context_of,
    must_answer,
    named,
    read,
    row_of,
    tokeniser_of,
)
from glassformer.predict.spans import spanned, tagged
from glassformer.probabilities import softmax
from glassformer.train.score import score_of_logits
from glassformer.train.tasks import Answering, Chat, Classify, Masked, NextToken, Prompted, Span, Tag, Task, Translate
from glassformer.train.tasks.sequences import symbol

if TYPE_CHECKING:
    from glassformer.predict.run import Run

BEST = 5  # symbols that are named


def predict_texts(run: "Run", texts: Sequence[str]) -> list[Answer]:
    """One for each text, in order."""
    if isinstance(texts, str):
        raise DataError("answer: one text came, expected a list of texts: [text]")
    if run.model.input.reads == IMAGES:
        raise DataError(f"{run.path}: {type(run.model).__name__} reads images; give them to run.predict(images)")
    if run.model.input.reads != TEXTS:
        return of_rows(run, [row_of(run, *one) for one in named(texts, "row")])
    must_answer(run)
    task = run.recipe.task
    answer = next((answer for kind, answer in OF_TEXTS.items() if isinstance(task, kind)), None)
    if answer is None:
        known = ", ".join(kind().name for kind in OF_TEXTS)
        raise DataError(f"{run.path}: the task {task.name} has no answers; {known} have")
    return answer(run, [read(run, *one) for one in named(texts, "text")])


def of_rows(run: "Run", rows: list[np.ndarray]) -> list[Answer]:
    if not rows:
        return []
    results = np.asarray(run.compiled_logits(run.params, np.stack(rows)))
    if run.gives_numbers:
        return [NumbersAnswer(tuple(np.atleast_1d(one).tolist())) for one in results]
    return [class_answer(run.classes, p) for p in softmax(results)]


def classified(run: "Run", readings: list[Reading]) -> list[Answer]:
    return [class_answer(run.classes, softmax(logits)) for logits in framed_logits(run, readings)]


def class_answer(classes: tuple[str, ...], p: np.ndarray) -> ClassAnswer:
    best = int(p.argmax())
    return ClassAnswer(classes[best], float(p[best]), dict(zip(classes, p.tolist(), strict=True)))


def filled_in(run: "Run", readings: list[Reading]) -> list[Answer]:
    tokeniser = tokeniser_of(run)
    mask = symbol(tokeniser, "mask")

    def gaps(reading: Reading, logits: np.ndarray) -> Iterator[Gap]:
        for i, number in enumerate(reading.ids):
            if number == mask:
                yield Gap(start=reading.places[i][0], best=likeliest(tokeniser, logits[1 + i]))

    rows = zip(readings, framed_logits(run, readings), strict=True)
    return [MaskedAnswer(tuple(gaps(reading, logits))) for reading, logits in rows]


def continued(run: "Run", readings: list[Reading]) -> list[Answer]:
    tokeniser = tokeniser_of(run)
    found = []
    for reading, logits in zip(readings, logits_of(run, readings, [one.ids for one in readings]), strict=True):
        following = np.array(reading.ids[1:])
        count = len(following)
        loss = score_of_logits(logits[:count], following).loss if count else None
        found.append(NextAnswer(likeliest(tokeniser, logits[count]), loss))
    return found


def likeliest(tokeniser: Tokeniser, logits: np.ndarray) -> tuple[Guess, ...]:
    """A model's table may have more rows than there are symbols: those are nothing that could be said."""
    p = softmax(logits)
    best = np.argsort(-p[: tokeniser.size], kind="stable")[:BEST]
    return tuple(Guess(tokeniser.symbol(int(number)), float(p[number])) for number in best)


def translated(run: "Run", readings: list[Reading]) -> list[Answer]:
    tokeniser, context = tokeniser_of(run), context_of(run)
    pad, end = symbol(tokeniser, "pad"), symbol(tokeniser, "end")
    sources = [[*reading.ids, end] for reading in readings]
    check_lengths(readings, sources, context)
    rows = written(run, [Prompt(read=source, before=[pad]) for source in sources])  # <pad>: as in training
    return [TranslateAnswer(tokeniser.decode(row.written), row.ended) for row in rows]


def answered(run: "Run", readings: list[Reading]) -> list[Answer]:
    tokeniser, task = tokeniser_of(run), run.recipe.task
    assert isinstance(task, Prompted)
    prompts = task.prompts(tokeniser, [reading.ids for reading in readings])
    check_lengths(readings, prompts, context_of(run))
    rows = written(run, [Prompt(read=prompt, before=prompt) for prompt in prompts])
    return [PromptAnswer(tokeniser.decode(row.written), row.ended) for row in rows]


def written(run: "Run", prompts: list[Prompt]) -> list[Row]:
    """What follows each, when every time the likeliest symbol is taken; as many as fit at most."""
    tokeniser, context = tokeniser_of(run), context_of(run)
    decoder = JaxDecoder(run.model, run.params, start_token=tokeniser.id_of("pad") or 0)
    found: list[Any] = [None] * len(prompts)
    for numbers, copies in in_batches([prompt.read for prompt in prompts], partial(room, most=context)):
        how = [Writing(context, Sampling(greedy=True))] * len(copies)
        rows = write(decoder, tokeniser, [prompts[i] for i in copies], how)
        for i, row in zip(numbers, rows, strict=False):  # there may be copies behind
            found[i] = row
    return found


OF_TEXTS: dict[type[Task], Callable[["Run", list[Reading]], list[Answer]]] = {
    Classify: classified,
    Tag: tagged,
    Span: spanned,
    Masked: filled_in,
    NextToken: continued,
    Translate: translated,
    Answering: answered,
    Chat: answered,
}
