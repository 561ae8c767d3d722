"""The test samples of a run that reads texts, or rows of numbers, as they would be typed, with the right answer."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from glassformer.data import ARRAYS
from glassformer.data.dataset import TEXTS
from glassformer.data.text_sources import load_texts
from glassformer.data.texts import Example, Texts
from glassformer.errors import DataError
from glassformer.predict.reading import context_of, must_answer, tokeniser_of
from glassformer.train.tasks import Classify, Masked, NextToken, Prompted, Translate

if TYPE_CHECKING:
    from glassformer.predict.run import Run


class LabelledText(NamedTuple):
    text: str
    expected: Any  # the right answer, as the task gives it; None: not known


def read_test_examples(run: "Run") -> list[LabelledText]:
    must_answer(run)
    if run.recipe.data == ARRAYS:
        raise DataError(f"the data of {run.path.name} was given in Python, which no file holds; write the text here")
    if run.model.input.reads != TEXTS:
        data = run.load_data()
        rows = zip(data.test.x, data.test.labels, strict=True)
        return [
            LabelledText(",".join(map(str, row)), label.tolist() if run.gives_numbers else data.classes[label])
            for row, label in rows
        ]
    texts = load_texts(run.recipe.data)
    if isinstance(run.recipe.task, Masked | NextToken):
        return [piece for example in texts.test for piece in pieces_of(run, example.text)]
    return [LabelledText(example.text, expected_of(run, texts, example)) for example in texts.test]


def expected_of(run: "Run", texts: Texts, example: Example) -> Any:
    task = run.recipe.task
    if isinstance(task, Classify):
        return texts.classes[example.label] if example.label >= 0 else None
    if isinstance(task, Translate | Prompted):
        return example.target
    parts = [
        {"name": name, "text": example.text[start:end], "start": start, "end": end}
        for name, start, end in example.parts
        if name in run.classes
    ]
    return next(iter(parts), None) if len(run.classes) == 1 else parts  # span asks for one, tag for all


def pieces_of(run: "Run", text: str) -> Iterator[LabelledText]:
    """A long text, cut to the run's context; of a masked run with as large a share covered up as it learned by."""
    task, tokeniser, context = run.recipe.task, tokeniser_of(run), context_of(run)
    ids, places = tokeniser.offsets(text)
    room = context - 2 if isinstance(task, Masked) else context
    for at in range(0, len(ids), room):
        end = min(at + room, len(ids))
        start, stop = places[at][0], places[end - 1][1]
        if not isinstance(task, Masked):
            yield LabelledText(text[start:stop], tokeniser.symbol(ids[end]) if end < len(ids) else None)
            continue
        step = round(1 / task.share)
        covered = range(at + min(step, end - at) // 2, end, step)
        shown = text[start:stop]
        for i in reversed(covered):
            shown = f"{shown[: places[i][0] - start]}<mask>{shown[places[i][1] - start :]}"
        yield LabelledText(shown, [tokeniser.symbol(ids[i]) for i in covered])
