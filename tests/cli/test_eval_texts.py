"""glassformer eval with runs that read texts or a table: the numbers are those of the run's own answers."""

import json
from collections.abc import Iterator
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from glassformer.cli import eval as eval_module
from glassformer.cli.eval import eval_
from glassformer.data.iris import load_iris
from glassformer.data.text_sources import KNOWN_TEXTS
from glassformer.data.texts import Example, Part
from glassformer.errors import DataError, EngineError, ShapeError
from glassformer.predict.run import Run
from glassformer.predict.weights_cost import cost_of

from ..programs import forward
from ..train.small_texts import small_texts
from ..train.text_runs import NUMBERS, direct, framed_ids, shares, untrained

app = typer.Typer()
app.command("eval")(eval_)

TEST = small_texts().test


@pytest.fixture(scope="module", autouse=True)
def numbers_are_known() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(KNOWN_TEXTS, "numbers", NUMBERS)
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    kinds = ("classify", "tag", "span", "masked", "gpt", "t5", "iris")
    return {kind: untrained(tmp_path_factory.mktemp(kind), kind) for kind in kinds}


def invoke(run: Run, *words: str | Path) -> Any:
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    return runner.invoke(app, [str(run.path), *map(str, words)])


def printed(run: Run, *words: str | Path) -> str:
    result = invoke(run, *words)
    assert result.exit_code == 0, result.output
    return result.stdout


def answered(run: Run, *words: str | Path) -> dict[str, Any]:
    return json.loads(printed(run, *words, "--json").splitlines()[-1])


def test_texts_of_classes(runs: dict[str, Run]) -> None:
    run = runs["classify"]
    found = answered(run)
    confusion = np.zeros((2, 2), int)
    losses = []
    for example, answer in zip(TEST, run.answer([example.text for example in TEST]), strict=True):
        confusion[example.label, run.classes.index(answer.name)] += 1  # pyright: ignore[reportAttributeAccessIssue]
        losses.append(-np.log(list(answer.probabilities.values())[example.label]))  # pyright: ignore
    assert found["confusion"] == confusion.tolist()
    assert found["accuracy"] == confusion.trace() / 10
    assert found["loss"] == pytest.approx(np.mean(losses), abs=1e-5)
    assert (found["count"], found["task"], found["data"], found["classes"]) == (
        10,
        "classify",
        "numbers",
        [*run.classes],
    )
    assert [row["count"] for row in found["per_class"]] == confusion.sum(axis=1).tolist()
    lines = printed(run).splitlines()
    assert lines[0] == f"{run.path.name} on the 10 test texts of numbers"
    assert lines[1] == f"accuracy {100 * found['accuracy']:.2f} %   loss {found['loss']:.4f}"
    assert lines[3].split() == ["class", "count", "recall", "precision"]
    assert lines[7].startswith("confusion: ")
    assert run.evaluate().confusion.tolist() == found["confusion"]


def test_rows_of_a_table(runs: dict[str, Run], tmp_path: Path) -> None:
    run, test = runs["iris"], load_iris().test
    found = answered(run, "--png", tmp_path / "c.png")
    predicted = np.asarray(forward(run.model, run.params, test.x)).argmax(axis=-1)
    assert found["accuracy"] == np.mean(predicted == test.labels)
    assert np.array(found["confusion"]).sum(axis=0).tolist() == np.bincount(predicted, minlength=3).tolist()
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    assert printed(run).splitlines()[0] == f"{run.path.name} on the 45 test rows of iris"
    other = answered(run, "--data", "iris:3")
    assert (other["data"], other["count"]) == ("iris:3", 45)
    assert other["loss"] != found["loss"]


def test_recall_and_precision_of_every_tag(runs: dict[str, Run]) -> None:
    """By the symbols of the text, each of which is one character, or the mark."""
    run, confusion, log_p = runs["tag"], np.zeros((3, 3), int), []
    for example in TEST:
        p = shares(direct(run, framed_ids(run, example.text)))[1:-1]
        starts = [0, *range(example.text.index(">") + 1, len(example.text))]
        for start, one in zip(starts, p, strict=True):
            names = [part.name for part in example.parts if part.start <= start < part.end]
            label = 1 + ("tens", "ones").index(names[0]) if names else 0
            confusion[label, one.argmax()] += 1
            log_p.append(np.log(one[label]))
    found = answered(run)
    assert found["confusion"] == confusion.tolist()
    assert found["classes"] == ["other", "tens", "ones"]
    assert found["loss"] == pytest.approx(-np.mean(log_p), abs=1e-5)
    assert found["per_class"][1]["recall"] == pytest.approx(confusion[1, 1] / confusion[1].sum())
    assert found["count"] == 10
    assert "each symbol counts by itself" in printed(run).splitlines()[1]


@pytest.mark.parametrize("kind", ["span", "t5", "masked"])
def test_tasks_without_classes(runs: dict[str, Run], kind: str) -> None:
    run = runs[kind]
    score, (heading, text) = run.score(), printed(run).splitlines()
    words = "accuracy" if kind == "masked" else "exact match"
    assert heading.endswith(f" on the 10 test {'pieces' if kind == 'masked' else 'texts'} of numbers")
    assert text == f"{words} {100 * score.accuracy:.2f} %   loss {score.loss:.4f} nats"


def test_exact_match_of_spans(runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of texts whose part is what the run finds, and of some whose part is elsewhere."""
    run, texts = runs["span"], [example.text for example in small_texts().train if example.text.startswith("<up>")]
    ids = np.zeros((len(texts), 13), np.int32)
    for row, text in zip(ids, texts, strict=True):
        row[: len(framed_ids(run, text))] = framed_ids(run, text)
    logits = np.asarray(forward(run.model, run.params, ids, keep=ids > 0))
    examples, right = [], 0
    for text, (first, last) in zip(texts, logits.argmax(axis=-1).tolist(), strict=True):
        found = 2 <= first <= last < len(framed_ids(run, text)) - 1 and len(examples) % 3 > 0
        start, end = (first + 2, last + 3) if found else (5, 6)  # <start> is a symbol more, <up> three characters fewer
        right += [first, last] == [start - 2, end - 3]
        examples.append(Example(text, parts=(Part("tens", start, end),)))
    data = small_texts()._replace(test=(*examples,))
    monkeypatch.setitem(KNOWN_TEXTS, "up", NUMBERS._replace(load=lambda name, cache: data))
    answer = answered(run, "--data", "up")
    assert answer["exact_match"] == answer["accuracy"] == pytest.approx(right / len(texts))
    assert 0 < right < len(texts), "both must be there"
    assert answer["count"] == len(texts)
    assert "confusion" not in answer


def test_the_loss_of_a_language_model(runs: dict[str, Run]) -> None:
    run = runs["gpt"]
    assert run.tokeniser
    stream = [number for example in TEST for number in (*run.tokeniser.encode(example.text), 3)][:-1]
    log_p, right = [], []
    for at in range(0, len(stream) - 13, 13):
        p = shares(direct(run, stream[at : at + 13]))
        following = stream[at + 1 : at + 14]
        log_p += [np.log(p[i][number]) for i, number in enumerate(following)]
        right += [p[i].argmax() == number for i, number in enumerate(following)]
    found = answered(run)
    assert found["loss"] == pytest.approx(-np.mean(log_p), abs=1e-4)
    assert found["accuracy"] == pytest.approx(np.mean(right))
    assert found["perplexity"] == pytest.approx(exp(found["loss"]))
    assert found["count"] == len(log_p) // 13
    heading, text = printed(run).splitlines()
    assert heading.endswith(f" on the {found['count']} test windows of 13 symbols of numbers")
    assert text.endswith(f"loss {found['loss']:.4f} nats (perplexity {found['perplexity']:.2f})")


def test_a_large_confusion_matrix_is_left_out_of_the_text(
    runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eval_module, "MANY", 2)
    assert "confusion" in printed(runs["classify"])
    assert "confusion" not in printed(runs["tag"])
    assert len(answered(runs["tag"])["confusion"]) == 3


def test_other_classes_and_other_data(runs: dict[str, Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    renamed = small_texts()._replace(classes=("gerade", "ungerade"))
    monkeypatch.setitem(KNOWN_TEXTS, "renamed", NUMBERS._replace(load=lambda name, cache: renamed))
    result = invoke(runs["classify"], "--data", "renamed")
    assert "have other names than the run's; labels are compared by number" in result.stderr
    more = renamed._replace(classes=("a", "b", "c"), test=(Example("<up> one two", label=2),))
    monkeypatch.setitem(KNOWN_TEXTS, "more", NUMBERS._replace(load=lambda name, cache: more))
    with pytest.raises(DataError, match="evaluate: labels 2 to 2 came, the model knows 0 to 1"):
        raise invoke(runs["classify"], "--data", "more").exception
    (tmp_path / "t.csv").write_text("1,2,a\n3,4,b\n1,2,a\n3,4,b\n")
    with pytest.raises(ShapeError, match=r"float32 of shape \(1000, 2\) came, expected floats \(batch, 4\)"):
        raise invoke(runs["iris"], "--data", tmp_path / "t.csv").exception


def test_no_picture_of_what_has_no_classes(runs: dict[str, Run], tmp_path: Path) -> None:
    result = invoke(runs["gpt"], "--png", tmp_path / "c.png")
    assert result.exit_code == 2
    assert "the task next-token has no classes that could be confused" in result.output
    assert not (tmp_path / "c.png").exists()
    with pytest.raises(DataError, match=r"the task next-token has no classes; run\.score\(\) gives its loss"):
        runs["gpt"].evaluate()


@pytest.mark.parametrize("weights", ["bf16", "int8"])
def test_what_narrow_weights_cost(runs: dict[str, Run], weights: str) -> None:
    """The float32 side is what eval says without the option; the interval is that of paired samples."""
    run = runs["gpt"]
    found, plain = answered(run, "--weights", weights), answered(run)
    assert found["float32_loss"] == pytest.approx(plain["loss"], rel=1e-5)
    assert found["difference"] == pytest.approx(found["loss"] - found["float32_loss"], abs=1e-9)
    assert 0 < abs(found["difference"]) < 0.05
    assert found["interval"][0] < found["difference"] < found["interval"][1]
    assert (found["weights"], found["tokens"]) == (weights, found["samples"] * run.model.input.context)  # pyright: ignore
    said = printed(run, "--weights", weights)
    assert f"loss  float32 {found['float32_loss']:.5f}   {weights} {found['loss']:.5f} nats a token" in said
    assert "95 % interval" in said


def test_costs_that_cannot_be_compared(runs: dict[str, Run]) -> None:
    wrong = invoke(runs["classify"], "--weights", "int8").exception
    assert "the task classify; --weights compares models that say which symbol comes next" in str(wrong)
    assert isinstance(invoke(runs["t5"], "--weights", "int8").exception, EngineError)
    both = invoke(runs["classify"], "--weights", "int8", "--int8")
    assert both.exit_code == 2
    assert "--int8 is of devices" in both.output


def test_the_interval_of_a_ratio() -> None:
    """Samples of different lengths, by hand; of one there is none."""
    sums = np.array([[10.0, 20.0, 20.5], [30.0, 60.0, 60.9], [20.0, 40.0, 40.2]])
    cost = cost_of(sums, 4)
    assert (cost.float32_loss, cost.loss, cost.tokens) == (2.0, pytest.approx(121.6 / 60), 60)
    apart = np.array([0.5, 0.9, 0.2]) - 1.6 / 60 * np.array([10, 30, 20])
    wide = 4.302653 * np.sqrt(1.5 * (apart**2).sum()) / 60
    assert cost.interval == pytest.approx((1.6 / 60 - wide, 1.6 / 60 + wide), rel=1e-6)
    assert cost_of(sums[:1], 0).interval is None
