"""glassformer attend with runs that read texts or a table: whose numbers are shown, and what they are called."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

from glassformer.cli.attend import attend
from glassformer.data.text_sources import KNOWN_TEXTS
from glassformer.errors import DataError, SettingError, UnknownNameError
from glassformer.lens.attention import attention_maps
from glassformer.lens.gradient_attention import gradient_attention, gradient_rollout
from glassformer.lens.trace import trace
from glassformer.models.t5 import Inputs
from glassformer.predict.run import Run

from ..programs import forward
from ..train.small_texts import small_texts
from ..train.text_runs import NUMBERS, framed_ids, untrained

app = typer.Typer()
app.command()(attend)

TEXT = "<up> one two"
SYMBOLS = ["<up>", *" one two"]
KINDS = ("classify", "tag", "span", "masked", "gpt", "t5", "iris", "reader")


@pytest.fixture(scope="module", autouse=True)
def numbers_are_known() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(KNOWN_TEXTS, "numbers", NUMBERS)
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    return {kind: untrained(tmp_path_factory.mktemp(kind), kind) for kind in KINDS}


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def invoke(*words: str | Path) -> Any:
    return CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}).invoke(app, [*map(str, words)])


def printed(*words: str | Path) -> list[str]:
    result = invoke(*words)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout.splitlines()


def answered(*words: str | Path) -> dict[str, Any]:
    return json.loads(printed(*words, "--json")[-1])


def onehot(logits: Any, *places: tuple[int, ...]) -> np.ndarray:
    dy = np.zeros(np.shape(logits), np.float32)
    for place in places:
        dy[place] = 1
    return dy


def same_as(answer: dict[str, Any], maps: dict[str, np.ndarray]) -> None:
    assert [(head["name"], head["head"]) for head in answer["heads"]] == [
        (name, head) for name, pattern in maps.items() for head in range(pattern.shape[1])
    ]
    for head in answer["heads"]:
        np.testing.assert_allclose(head["weights"], maps[head["name"]][0, head["head"]], atol=1e-5)


def test_the_maps_of_a_language_model(runs: dict[str, Run]) -> None:
    run = runs["gpt"]
    assert run.tokeniser
    ids = np.array([run.tokeniser.encode(TEXT)], np.int32)
    answer = answered(TEXT, "--run", run.path)
    same_as(answer, attention_maps(run.model, run.params, ids))
    assert {head["kind"] for head in answer["heads"]} == {"causal"}
    assert (answer["tokens"], answer["target"], answer["query"], answer["shows"]) == (SYMBOLS, [], "last", "attention")
    logits = np.asarray(forward(run.model, run.params, ids), np.float64)[0, -1]
    best = int(logits.argmax())
    assert answer["answer"] == repr(run.tokeniser.symbol(best))
    assert answer["probability"] == pytest.approx(float(np.exp(logits[best]) / np.exp(logits).sum()), rel=1e-4)
    with Image.open("attention.png") as picture:
        assert picture.format == "PNG"
        assert picture.width > picture.height, "two heads side by side"


def test_lines_stand_beneath_the_tokens_they_are_about(runs: dict[str, Run]) -> None:
    answer = answered(runs["gpt"].path, TEXT)
    lines = printed(runs["gpt"].path, TEXT)
    assert lines[0] == (
        f"{runs['gpt'].path.name} expects {answer['answer']} ({100 * answer['probability']:.1f} %) for {TEXT!r}"
    )
    assert lines[1] == "of token 8, 'o':"
    assert lines[3] == "causal attention: a token may look at itself and at what came before"
    margin = len("block 0 · head 0  ")
    assert lines[4] == " " * margin + "<up>␣one␣two"
    for head, line in enumerate(lines[5:7]):
        row = np.array(answer["heads"][head]["weights"][-1])
        heat, note = line[margin : margin + 12], line[margin + 12 :]
        assert line.startswith(f"block 0 · head {head}  ")
        widths = [4, *[1] * 8]
        by_token = [heat[sum(widths[:i])] for i in range(9)]
        assert [len(set(heat[sum(widths[:i]) : sum(widths[: i + 1])])) for i in range(9)] == [1] * 9
        assert by_token[int(row.argmax())] == "█"
        order = sorted(range(9), key=lambda i: row[i])
        heights = [" ▁▂▃▄▅▆▇█".index(by_token[i]) for i in order]
        assert heights == sorted(heights), "higher where it looks more"
        most = SYMBOLS[int(row.argmax())].replace(" ", "␣")
        assert note == f"  most at {most!r}, {100 * row.max():.0f} %"
    assert lines[-1] == "wrote attention.png"


@pytest.mark.parametrize("kind", ["classify", "tag", "span"])
def test_a_reader_looks_in_both_directions(runs: dict[str, Run], kind: str) -> None:
    run = runs[kind]
    answer = answered(run.path, TEXT)
    same_as(answer, attention_maps(run.model, run.params, np.array([framed_ids(run, TEXT)], np.int32)))
    assert {head["kind"] for head in answer["heads"]} == {"self"}
    assert answer["tokens"] == ["<start>", *SYMBOLS, "<end>"]
    assert answer["query"] == "mean"
    lines = printed(run.path, TEXT)
    assert lines[1] == "of the mean over all tokens that look:"
    assert "self-attention: every token may look at every token" in lines


def test_three_kinds_of_a_translator(runs: dict[str, Run]) -> None:
    run = runs["t5"]
    assert run.tokeniser
    answer = answered(run.path, TEXT, "1246")
    source, target = [*run.tokeniser.encode(TEXT), 3], [0, *run.tokeniser.encode("1246")]
    x = Inputs(source=np.array([source], np.int32), target=np.array([target], np.int32))  # pyright: ignore
    same_as(answer, attention_maps(run.model, run.params, x))
    assert [head["kind"] for head in answer["heads"]] == ["self"] * 2 + ["causal"] * 2 + ["cross"] * 2
    assert answer["tokens"] == [*SYMBOLS, "<end>"]
    assert answer["target"] == ["<pad>", *"1246"]
    assert answer["written"] == [*"1246", "<end>"]
    assert answer["answer"] == "'1246'"
    only = answered(run.path, TEXT, "1246", "--kind", "cross", "--head", "1")
    assert only["heads"] == [answer["heads"][5]]
    lines = printed(run.path, TEXT, "1246")
    headings = [line for line in lines if "attention:" in line]
    assert [line.split(":")[0] for line in headings] == ["self-attention", "causal attention", "cross-attention"]


def test_a_translator_writes_by_itself(runs: dict[str, Run]) -> None:
    run = runs["t5"]
    assert run.tokeniser
    (own,) = run.answer([TEXT])
    answer = answered(run.path, TEXT)
    written = [run.tokeniser.symbol(i) for i in run.tokeniser.encode(own.text)] + ["<end>"] * own.ended  # pyright: ignore
    assert answer["written"] == written
    assert answer["target"] == ["<pad>", *written[:-1]]


def score_of(kind: str, logits: np.ndarray, ids: list[int]) -> np.ndarray:
    """The answer's own logits, chosen once more by hand."""
    if kind == "classify":
        return onehot(logits, (0, int(logits[0].argmax())))
    if kind == "gpt":
        return onehot(logits, (0, len(ids) - 1, int(logits[0, -1].argmax())))
    if kind == "masked":
        return onehot(logits, *((0, i, int(logits[0, i].argmax())) for i, number in enumerate(ids) if number == 4))
    if kind == "tag":
        return onehot(logits, *((0, i, int(logits[0, i].argmax())) for i in range(1, len(ids) - 1)))
    pairs = [(i, j) for i in range(1, len(ids) - 1) for j in range(i, len(ids) - 1)]
    start, end = max(pairs, key=lambda pair: logits[0, 0, pair[0]] + logits[0, 1, pair[1]])
    return onehot(logits, (0, 0, start), (0, 1, end))


@pytest.mark.parametrize("kind", ["classify", "tag", "span", "masked", "gpt"])
def test_gradient_x_attention_is_of_the_answer(runs: dict[str, Run], kind: str) -> None:
    run = runs[kind]
    assert run.tokeniser
    text = "<up> o<mask>e t<mask>o" if kind == "masked" else TEXT
    ids = run.tokeniser.encode(text) if kind == "gpt" else framed_ids(run, text)
    x = np.array([ids], np.int32)
    logits = np.asarray(forward(run.model, run.params, x))
    seen = trace(run.model, run.params, x, dy=score_of(kind, logits, ids))
    answer = answered(run.path, text, "--gradient", "--rollout")
    assert answer["shows"] == "gradient x attention"
    same_as(answer, gradient_attention(seen))
    (rolled,) = answer["rollout"]
    (expected,) = gradient_rollout(seen).values()
    np.testing.assert_allclose(rolled["weights"], expected[0] - np.eye(len(ids)), atol=1e-5)


def test_gradient_x_attention_of_a_translator_is_of_all_it_writes(runs: dict[str, Run]) -> None:
    run = runs["t5"]
    assert run.tokeniser
    source, written = [*run.tokeniser.encode(TEXT), 3], [*run.tokeniser.encode("1246"), 3]
    x = Inputs(source=np.array([source], np.int32), target=np.array([[0, *written[:-1]]], np.int32))  # pyright: ignore
    logits = forward(run.model, run.params, x)
    seen = trace(run.model, run.params, x, dy=onehot(logits, *((0, i, number) for i, number in enumerate(written))))
    answer = answered(run.path, TEXT, "1246", "--gradient", "--rollout")
    same_as(answer, gradient_attention(seen))
    cross = next(one for one in answer["rollout"] if one["kind"] == "cross")
    np.testing.assert_allclose(cross["weights"], gradient_rollout(seen)["cross"][0], atol=1e-5)


def test_the_rollout_of_attention_adds_up_to_one(runs: dict[str, Run]) -> None:
    by_kind = {one["kind"]: np.array(one["weights"]) for one in answered(runs["t5"].path, TEXT, "--rollout")["rollout"]}
    np.testing.assert_allclose(by_kind["self"].sum(axis=-1), 1, atol=1e-5)
    np.testing.assert_allclose(by_kind["causal"].sum(axis=-1) + by_kind["cross"].sum(axis=-1), 1, atol=1e-5)


def test_a_query_is_the_number_of_a_token(runs: dict[str, Run]) -> None:
    lines = printed(runs["classify"].path, TEXT, "--query", "3")
    assert lines[1] == "of token 3, 'o':"
    row = np.array(answered(runs["classify"].path, TEXT)["heads"][0]["weights"][3])
    most = ["<start>", *SYMBOLS, "<end>"][int(row.argmax())].replace(" ", "␣")
    assert f"most at {most!r}, {100 * row.max():.0f} %" in lines[5]
    assert answered(runs["classify"].path, TEXT, "--query", "class")["query"] == 0
    assert answered(runs["classify"].path, TEXT, "--query", "last")["query"] == "last"
    several = printed(runs["t5"].path, TEXT, "1246", "--query", "1")
    assert several[1] == "of token 1, '␣' (self), '1' (causal), '2' (cross):"


def test_a_row_of_a_table(runs: dict[str, Run]) -> None:
    run = runs["iris"]
    answer = answered(run.path, "5.1,3.5,1.4,0.2")
    same_as(answer, attention_maps(run.model, run.params, np.array([[5.1, 3.5, 1.4, 0.2]], np.float32)))
    assert answer["tokens"] == ["token 0", "token 1", "token 2", "token 3"]
    assert answer["answer"] in ("setosa", "versicolor", "virginica")
    assert printed(run.path, "5.1,3.5,1.4,0.2")[5].startswith("head 0  ")


def test_a_test_sample_and_a_line_of_a_file(runs: dict[str, Run]) -> None:
    Path("one.txt").write_text(f"\n{TEXT}\n")
    assert answered(runs["tag"].path, "@one.txt")["text"] == TEXT
    assert answered(runs["tag"].path, "test:3")["text"] == small_texts().test[3].text


@pytest.mark.parametrize(
    ("kind", "words", "error", "message"),
    [
        (
            "gpt",
            ["one", "two"],
            DataError,
            "2 texts came .one, two., expected one; a text with spaces stands in quotes",
        ),
        ("t5", ["one", "two", "six"], DataError, "3 texts came .*, expected one, and its target"),
        ("gpt", ["@two.txt"], DataError, "@two.txt: 2 lines with anything in them came, expected one"),
        ("gpt", ["zebra"], DataError, "'zebra' has 'z', 'b', 'a', which the run's tokeniser does not know"),
        ("gpt", ["one two one two"], DataError, "is 15 symbols long, the run's context takes 13; shorten it by 2"),
        (
            "t5",
            ["one", "12" * 8],
            DataError,
            "the target: .* is 16 symbols long, the run's context takes 12; shorten it by 4",
        ),
        ("gpt", [TEXT, "--query", "9"], SettingError, "query: token 9 came, expected 0 to 8: <up> ␣ o n e ␣ t w o"),
        ("gpt", [TEXT, "--kind", "cross"], SettingError, "kind: cross came, and the model has causal"),
        ("gpt", [TEXT, "--head", "2"], SettingError, "head: 2 came, and the model has 0, 1; choose one of them"),
        ("tag", [TEXT, "--block", "1"], SettingError, "block: 1 came, and the model has 0; choose one of them"),
        ("reader", [TEXT], UnknownNameError, "RecurrentClassifier has no attention"),
    ],
)
def test_mistakes_are_explained_and_leave_no_picture(
    runs: dict[str, Run], kind: str, words: list[str], error: type[Exception], message: str
) -> None:
    Path("two.txt").write_text("one\ntwo\n")
    with pytest.raises(error, match=message):
        raise invoke(*words, "--run", runs[kind].path).exception
    assert not Path("attention.png").exists()


@pytest.mark.parametrize("query", ["3,2", "middle", "-1"])
def test_a_query_that_is_none_is_wrong_usage(runs: dict[str, Run], query: str) -> None:
    result = invoke(runs["gpt"].path, TEXT, "--query", query)
    assert result.exit_code == 2
    assert "expected the number of a token from 0, or last, or mean" in result.stderr
