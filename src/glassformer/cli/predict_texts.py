"""The part of glassformer predict that reads texts and rows of numbers: where they come from, and how answers look."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from glassformer.predict.answers import Answer, Guess
    from glassformer.predict.run import Run

LONGEST = 100  # characters of a text that are shown
BEST = 3  # classes that are shown


class Given(NamedTuple):
    name: str  # the text itself, or where it came from: -:3, @file.txt:3, test:17
    text: str
    expected: Any = None  # the right answer, where it is known


def predict_texts(run: "Run", words: list[str]) -> tuple[dict[str, Any], str]:
    """The result, and the same for people."""
    from glassformer.errors import DataError

    given = [one for word in words for one in read(run, word)]
    if not given:
        raise DataError(f"{' '.join(words)}: no line with anything in it came; expected one or more")
    answers = run.answer([one.text for one in given])
    task = run.recipe.task.name
    rows = [as_plain(*both) for both in zip(given, answers, strict=True)]
    result = {"run": str(run.path), "task": task, "answers": rows}
    return result, "\n".join(as_lines(given, answers))


def read(run: "Run", word: str) -> Iterator[Given]:
    """What a word of the command line stands for: a text, or several."""
    if word == "-":
        return lines_of("-", sys.stdin.read())
    if word.startswith("@"):
        return lines_of(word, text_file(word))
    name, _, number = word.partition(":")
    if name == "test" and number.isdecimal():
        return iter([test_sample(run, word, int(number))])
    return iter([Given(word, word)])


def lines_of(name: str, content: str) -> Iterator[Given]:
    """Blank lines are left out, and counted."""
    for i, line in enumerate(content.splitlines(), start=1):
        if line.strip():
            yield Given(f"{name}:{i}", line)


def text_file(word: str) -> str:
    from glassformer.errors import DataError
    from glassformer.reading import expanded, read_text

    try:
        return read_text(expanded(word[1:]), error=DataError).replace("\r\n", "\n")
    except DataError as error:
        advice = "@ stands before the name of a file of texts; a text that begins with @ can come through -"
        raise DataError(f"{error}; {advice}") from None


def test_sample(run: "Run", word: str, number: int) -> Given:
    from glassformer.errors import DataError
    from glassformer.predict.examples import read_test_examples

    try:
        known = read_test_examples(run)
    except DataError as error:
        raise DataError(f"{word}: {error}") from None
    if number >= len(known):
        raise DataError(f"{word}: there are {len(known):,} test samples, numbered 0 to {len(known) - 1:,}")
    return Given(word, *known[number])


def as_plain(given: Given, answer: "Answer") -> dict[str, Any]:
    """For --json. A class is called as it is for images."""
    from glassformer.predict.answers import ClassAnswer, Found, NextAnswer, PromptAnswer, TranslateAnswer

    row = {"input": given.name, "text": given.text}
    if isinstance(answer, ClassAnswer):
        found = {"class": answer.name, "probability": answer.probability, "probabilities": answer.probabilities}
        return {**row, **found, "label": given.expected}
    if isinstance(answer, Found):
        found = {"span": asdict(answer)}
    elif isinstance(answer, TranslateAnswer):
        found = {"translation": answer.text, "ended": answer.ended}
    elif isinstance(answer, PromptAnswer):
        found = {"answer": answer.text, "ended": answer.ended}
    elif isinstance(answer, NextAnswer):
        found = {**asdict(answer), "perplexity": answer.perplexity}
    else:
        found = asdict(answer)
    return {**row, **found, "expected": given.expected}


def as_lines(given: list[Given], answers: list["Answer"]) -> Iterator[str]:
    from glassformer.predict.answers import ClassAnswer, NextAnswer

    width = max((len(heading(one)) for one in given), default=0)
    for one, answer in zip(given, answers, strict=True):
        if isinstance(answer, ClassAnswer):
            label = "" if one.expected is None else f"   labelled {one.expected}"
            yield f"{heading(one):{width}}  {best_classes(answer.probabilities)}{label}"
        else:
            yield heading(one)
            yield from (f"  {line}" for line in body(answer))
            if one.expected is not None:
                yield f"  expected: {expected_text(one.expected, quoted=isinstance(answer, NextAnswer))}"


def heading(given: Given) -> str:
    text = given.text.replace("\n", "\\n")
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    return text if given.name == given.text else f"{given.name}  {text}"


def body(answer: "Answer") -> Iterator[str]:
    """Everything but classes, which take one line with the text."""
    from glassformer.predict.answers import (
        Found,
        MaskedAnswer,
        NextAnswer,
        NumbersAnswer,
        PromptAnswer,
        TagAnswer,
        TranslateAnswer,
    )

    if isinstance(answer, TagAnswer | Found):
        parts = answer.parts if isinstance(answer, TagAnswer) else (answer,)
        widths = [max((len(getattr(part, column)) for part in parts), default=0) for column in ("name", "text")]
        for part in parts:
            place = f"{part.start}-{part.end}"
            yield f"{part.name:{widths[0]}}  {part.text:{widths[1]}}  {place:>7}  {percent(part.probability)}"
        if not parts:
            yield "no part was found"
    if isinstance(answer, MaskedAnswer):
        for gap in answer.gaps:
            yield f"<mask> at {gap.start}: {guesses(gap.best)}"
    if isinstance(answer, NextAnswer):
        yield f"next: {guesses(answer.best)}"
        if answer.loss is not None:
            yield f"loss of the text: {answer.loss:.4f} nats a symbol, perplexity {answer.perplexity:.2f}"
    if isinstance(answer, NumbersAnswer):
        yield ", ".join(f"{value:.6g}" for value in answer.values)
    if isinstance(answer, TranslateAnswer | PromptAnswer):
        yield answer.text if answer.ended else f"{answer.text}   (it did not end)"


def best_classes(probabilities: dict[str, float]) -> str:
    """The best of them, with the share of each."""
    order = sorted(probabilities.items(), key=lambda item: -item[1])
    width = max(map(len, probabilities))
    first, *others = (f"{name:{width}} {percent(share)}" for name, share in order[:BEST])
    return f"{first}   then {', '.join(others)}" if others else first


def guesses(best: tuple["Guess", ...]) -> str:
    return "   ".join(f"{guess.symbol!r} {percent(guess.probability)}" for guess in best)


def expected_text(expected: Any, *, quoted: bool) -> str:
    """Parts by name, symbols in quotes, and a translation as it is."""
    if isinstance(expected, dict):
        return f"{expected['name']} {expected['text']}"
    if isinstance(expected, list):
        return ", ".join(expected_text(one, quoted=True) for one in expected) or "nothing"
    return repr(expected) if quoted else expected


def percent(share: float) -> str:
    return f"{100 * share:5.1f} %"
