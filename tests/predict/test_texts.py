"""What a run makes of texts, compared with the model's own forward of each text alone."""

import itertools
import re
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glassformer
from glassformer.errors import CheckpointError, DataError
from glassformer.predict import batches, spans
from glassformer.predict.answers import ClassAnswer, Found, MaskedAnswer, NextAnswer, TagAnswer, TranslateAnswer
from glassformer.predict.reading import Reading
from glassformer.predict.run import Run
from glassformer.predict.spans import piece

from ..programs import forward
from ..train.small_texts import KINDS, OF_TEXTS, small_text_recipe, small_texts
from ..train.text_runs import direct, framed_ids, shares, untrained

WORDS = ("one", "two", "six")
SAME = [  # of one length: nothing else is compiled for the model's own forward
    f"{mark} {one} {other}" for mark in ("<up>", "<down>") for one in WORDS for other in WORDS
]
TEXTS = SAME[1::8]
ROWS = ["5.1,3.5,1.4,0.2", "6, 3, 4.8, 1.8", "-1,0,1e-3,7"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    return {kind: untrained(tmp_path_factory.mktemp(kind), kind) for kind in KINDS}


def inputs(kind: str) -> list[str]:
    if kind == "iris":
        return ROWS
    return [text[:-1] + "<mask>" for text in TEXTS] if kind == "masked" else TEXTS


def flat(value: Any) -> list[Any]:
    """Everything in an answer, in order."""
    if isinstance(value, dict):
        value = [*value.items()]
    if isinstance(value, list | tuple):
        return [leaf for part in value for leaf in flat(part)]
    return [value]


@pytest.mark.parametrize("kind", ["classify", "reader"])
def test_a_class_and_how_likely_each_is(runs: dict[str, Run], kind: str) -> None:
    run = runs[kind]
    for text, answer in zip(TEXTS, run.answer(TEXTS), strict=True):
        p = shares(direct(run, framed_ids(run, text)))
        assert isinstance(answer, ClassAnswer)
        assert list(answer.probabilities) == ["even", "odd"]
        np.testing.assert_allclose(list(answer.probabilities.values()), p, atol=1e-5)
        assert answer.name == ("even", "odd")[p.argmax()]
        assert answer.probability == max(answer.probabilities.values())


def test_a_row_of_numbers(runs: dict[str, Run]) -> None:
    run = runs["iris"]
    for row, answer in zip(ROWS, run.answer(ROWS), strict=True):
        numbers = np.array([[float(cell) for cell in row.split(",")]], np.float32)
        p = shares(np.asarray(forward(run.model, run.params, numbers)[0], np.float64))
        assert isinstance(answer, ClassAnswer)
        np.testing.assert_allclose(list(answer.probabilities.values()), p, atol=1e-5)
        assert answer.name == ("setosa", "versicolor", "virginica")[p.argmax()]


def test_neighbouring_tokens_of_one_class_are_one_part(runs: dict[str, Run]) -> None:
    run, several = runs["tag"], 0
    for text, answer in zip(SAME, run.answer(SAME), strict=True):
        p = shares(direct(run, framed_ids(run, text)))[1:-1]
        mark = text.index(">") + 1  # the mark is one token, every other character one of its own
        letters = "".join(str(kind) for kind in [p[0].argmax()] * mark + [*p[1:].argmax(axis=-1)])
        expected = []
        for match in re.finditer(r"([12])\1*", letters):
            found = text[match.start() : match.end()]
            start = match.start() + len(found) - len(found.lstrip())
            if found.strip():
                expected.append((("tens", "ones")[int(match[1]) - 1], found.strip(), start, start + len(found.strip())))
        assert isinstance(answer, TagAnswer)
        assert [astuple(part)[:4] for part in answer.parts] == expected
        for part in answer.parts:
            assert text[part.start : part.end] == part.text
            assert 1 / 3 < part.probability <= 1
        several += len(expected) > 1
    assert several, "weights that find no parts test nothing"


def test_the_probability_of_a_part_is_the_mean_over_its_tokens() -> None:
    p = np.array([[0.1, 0.9, 0.0], [0.3, 0.7, 0.0], [0.2, 0.2, 0.6]])
    reading = Reading("a bc", [7, 8, 9], [(0, 1), (1, 3), (3, 4)], "the text")
    found = list(spans.parts_in(reading, p, ("other", "x", "y")))
    assert [astuple(part)[:4] for part in found] == [("x", "a b", 0, 3), ("y", "c", 3, 4)]
    assert [part.probability for part in found] == pytest.approx([0.8, 0.6])


def test_a_piece_has_no_white_space_around_it() -> None:
    """Byte pairs carry the space before a word."""
    reading = Reading("in May  2024", [5, 6, 7], [(0, 2), (2, 6), (6, 12)], "the text")
    assert piece(reading, "month", 1, 1, 0.5) == Found("month", "May", 3, 6, 0.5)
    assert piece(reading, "all", 1, 2, 0.5) == Found("all", "May  2024", 3, 12, 0.5)


def test_the_best_span_of_all_that_do_not_end_before_they_start(runs: dict[str, Run]) -> None:
    run, turned = runs["span"], 0
    for text, answer in zip(SAME, run.answer(SAME), strict=True):
        start, end = shares(direct(run, framed_ids(run, text))[:, 1:-1])
        mark = text.index(">") + 1
        places = [(0, mark), *((i, i + 1) for i in range(mark, len(text)))]
        pairs = [(i, j) for i, j in itertools.product(range(len(places)), repeat=2) if i <= j]
        first, last = max(pairs, key=lambda pair: start[pair[0]] * end[pair[1]])
        found = text[places[first][0] : places[last][1]]
        assert isinstance(answer, Found)
        assert (answer.name, answer.text) == ("tens", found.strip())
        assert text[answer.start : answer.end] == answer.text
        assert answer.probability == pytest.approx(start[first] * end[last], rel=1e-4)
        turned += start.argmax() > end.argmax()
    assert turned, "some best start must lie behind the best end, or the rule is not tested"


@pytest.mark.parametrize("mask", ["<mask>", "[MASK]"])
def test_what_stands_under_a_mask(runs: dict[str, Run], mask: str) -> None:
    run = runs["masked"]
    (answer,) = run.answer([f"<up> {mask}ne tw{mask}"])
    assert run.tokeniser
    ids = framed_ids(run, "<up> one two")
    covered = [3, 9]  # behind <start> and the mark, which is one token
    for place in covered:
        ids[place] = 4
    p = shares(direct(run, ids))
    assert isinstance(answer, MaskedAnswer)
    assert [gap.start for gap in answer.gaps] == [5, 5 + 6 + 5]
    for gap, place in zip(answer.gaps, covered, strict=True):
        order = sorted(range(len(p[place])), key=lambda number: -p[place][number])[:5]
        assert [guess.symbol for guess in gap.best] == [run.tokeniser.symbol(number) for number in order]
        np.testing.assert_allclose([guess.probability for guess in gap.best], p[place][order], atol=1e-5)


@pytest.mark.parametrize("kind", ["gpt", "lstm"])
def test_what_comes_next_and_how_well_the_text_was_foreseen(runs: dict[str, Run], kind: str) -> None:
    run = runs[kind]
    assert run.tokeniser
    for text, answer in zip(TEXTS, run.answer(TEXTS), strict=True):
        ids = run.tokeniser.encode(text)
        p = shares(direct(run, ids))
        order = sorted(range(len(p[-1])), key=lambda number: -p[-1][number])[:5]
        assert isinstance(answer, NextAnswer)
        assert [guess.symbol for guess in answer.best] == [run.tokeniser.symbol(number) for number in order]
        np.testing.assert_allclose([guess.probability for guess in answer.best], p[-1][order], atol=1e-5)
        loss = -np.mean([np.log(p[i][ids[i + 1]]) for i in range(len(ids) - 1)])
        assert answer.loss == pytest.approx(loss, abs=1e-5)
        assert answer.perplexity == pytest.approx(np.exp(loss), rel=1e-4)


def test_one_symbol_foresees_nothing(runs: dict[str, Run]) -> None:
    (answer,) = runs["gpt"].answer(["o"])
    assert isinstance(answer, NextAnswer)
    assert (answer.loss, answer.perplexity) == (None, None)
    assert len(answer.best) == 5


def test_a_translation_takes_the_likeliest_symbol_every_time(runs: dict[str, Run]) -> None:
    """A model that is told the answer so far must choose each of its symbols again."""
    run, lengths = runs["t5"], set()
    assert run.tokeniser
    for text, answer in zip(SAME, run.answer(SAME), strict=True):
        assert isinstance(answer, TranslateAnswer)
        source = [*run.tokeniser.encode(text), 3]
        chosen = direct(run, source, greedy(run, source)).argmax(axis=-1).tolist()
        assert answer.ended == (3 in chosen)
        assert answer.text == run.tokeniser.decode(itertools.takewhile(lambda number: number != 3, chosen))
        lengths.add(len(answer.text) if answer.ended else None)
    assert None in lengths, "some must fill the context"
    assert len(lengths) > 3, "and others end, some sooner, some later"


def greedy(run: Run, source: list[int]) -> list[int]:
    """The whole target of a greedy answer, from one forward over ever more right symbols: it settles from the left."""
    target = [0] * 13
    for _ in target:
        following = [0, *direct(run, source, target).argmax(axis=-1).tolist()][:13]
        if following == target:
            break
        target = following
    return target


@pytest.fixture(scope="module")
def by_heart(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A T5 that has learned some of its four texts."""
    few = small_texts(by_heart=True)
    few = few._replace(train=few.train[:4], test=few.test[:4])
    recipe = small_text_recipe("t5", epochs=30, share=0.0)
    return glassformer.fit(recipe, few, out=tmp_path_factory.mktemp("by_heart") / "run")


@pytest.mark.slow
def test_as_many_translations_are_right_as_training_says(by_heart: Run) -> None:
    examples = small_texts(by_heart=True).test[:4]
    found = by_heart.answer([example.text for example in examples])
    right = [one == TranslateAnswer(example.target, ended=True) for one, example in zip(found, examples, strict=True)]
    assert sum(right) / 4 == by_heart.metrics["test_accuracy"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_does_not_depend_on_what_else_is_asked(runs: dict[str, Run], kind: str) -> None:
    run, texts = runs[kind], inputs(kind)[:2]
    if kind != "iris":
        texts.insert(1, "one<mask>" if kind == "masked" else "one")  # shorter: the others are filled up further
    check_alone(run, texts, run.answer(texts))


def test_many_texts_are_read_in_parts(runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "AT_ONCE", 32)  # two at a time
    check_alone(runs["tag"], SAME[:5], runs["tag"].answer(SAME[:5]))


def check_alone(run: Run, texts: list[str], together: list[Any]) -> None:
    assert len(together) == len(texts)
    for text, answer in zip(texts, together, strict=True):
        alone, beside = flat(astuple(run.answer([text])[0])), flat(astuple(answer))
        for one, other in zip(alone, beside, strict=True):
            assert other == (pytest.approx(one, abs=1e-5) if isinstance(one, float) else one)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_asked_nothing_answered(runs: dict[str, Run], kind: str) -> None:
    assert runs[kind].answer([]) == []


@pytest.mark.parametrize("kind", OF_TEXTS)
@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["<up> one<mask>", "<mask>q! zz"], r"^text 2: '<mask>q! zz' has 'q', '!', 'z', which the run's tokeniser"),
        (["<mask> one two four five"], r"^the text: '<mask> one two four five' is 19 symbols long, the run's context"),
    ],
)
def test_texts_that_cannot_be_read(runs: dict[str, Run], kind: str, texts: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        runs[kind].answer(texts)


@pytest.mark.parametrize(("kind", "takes"), [("gpt", 13), ("t5", 12), ("tag", 11), ("masked", 11)])
def test_the_longest_text_is_read(runs: dict[str, Run], kind: str, takes: int) -> None:
    longest = "<mask>" + "o" * (takes - 1)
    assert len(runs[kind].answer([longest])) == 1
    with pytest.raises(DataError, match=f"the run's context takes {takes}; shorten it by 2$"):
        runs[kind].answer([longest + "oo"])


def test_mistakes_are_explained(runs: dict[str, Run], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"one text came, expected a list of texts: \[text\]"):
        runs["tag"].answer("<up> one")
    with pytest.raises(DataError, match=r"^text 2: there is nothing in it to read; write at least one character"):
        runs["tag"].answer(["<up>", ""])
    with pytest.raises(DataError, match=r"^the text: nothing is covered up in 'one'; write <mask> where"):
        runs["masked"].answer(["one"])
    with pytest.raises(DataError, match=r"ViT reads images; give them to run\.predict\(images\)"):
        glassformer.load().answer(["one"])
    with pytest.raises(CheckpointError, match=r"BERTFor reads texts, and there is no tokenizer\.json; copy the whole"):
        replace(runs["tag"], tokeniser=None).answer(["one"])
    with pytest.raises(CheckpointError, match=r"there is no tokenizer\.json"):
        replace(runs["tag"], tokeniser=None).score("numbers")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("5.1,3.5,1.4", r"^row 2: '5\.1,3\.5,1\.4' came, expected 4 numbers with commas between: 5\.1,3\.5,…$"),
        ("5.1,3.5,1.4,setosa", "expected 4 numbers"),
        ("", "row 2: '' came"),
        ("1,2,3,nan", "'1,2,3,nan' has a number that is not finite in 32 bits"),
        ("1,2,3,1e39", "not finite in 32 bits"),
    ],
)
def test_rows_that_cannot_be_read(runs: dict[str, Run], row: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        runs["iris"].answer([ROWS[0], row])
