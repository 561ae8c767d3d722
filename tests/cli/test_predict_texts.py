"""glassformer predict with runs that read texts or a table: where inputs come from, and what is printed of answers."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from glassformer.cli.attend import attend
from glassformer.cli.predict import predict
from glassformer.data.iris import load_iris
from glassformer.data.text_sources import KNOWN_TEXTS
from glassformer.errors import DataError
from glassformer.predict.answers import ClassAnswer, Found, MaskedAnswer, NextAnswer, TagAnswer, TranslateAnswer
from glassformer.predict.run import Run
from glassformer.train.settings import to_plain, to_toml

from ..train.small_texts import small_texts
from ..train.text_runs import NUMBERS, untrained

app = typer.Typer()
app.command()(predict)
app.command()(attend)

TEXT = "<up> one two"
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


def invoke(run: Run, *words: str, command: str = "predict", stdin: str | None = None) -> Any:
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    return runner.invoke(app, [command, *words, "--run", str(run.path)], input=stdin)


def printed(run: Run, *words: str, stdin: str | None = None) -> list[str]:
    result = invoke(run, *words, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def answered(run: Run, *words: str, stdin: str | None = None) -> list[dict[str, Any]]:
    answer = json.loads(printed(run, *words, "--json", stdin=stdin)[-1])
    assert answer["run"] == str(run.path)
    return answer["answers"]


def test_a_class(runs: dict[str, Run]) -> None:
    (found,) = runs["classify"].answer([TEXT])
    assert isinstance(found, ClassAnswer)
    (row,) = answered(runs["classify"], TEXT)
    assert row == {
        "input": TEXT,
        "text": TEXT,
        "class": found.name,
        "probability": found.probability,
        "probabilities": found.probabilities,
        "label": None,
    }
    (line,) = printed(runs["classify"], TEXT)
    other = next(name for name in ("even", "odd") if name != found.name)
    share, rest = (100 * found.probabilities[name] for name in (found.name, other))
    assert line == f"{TEXT}  {found.name:4} {share:5.1f} %   then {other:4} {rest:5.1f} %"


def test_a_row_of_a_table(runs: dict[str, Run]) -> None:
    row, test = answered(runs["iris"], "5.1,3.5,1.4,0.2", "test:7")
    assert row["class"] in ("setosa", "versicolor", "virginica")
    data = load_iris().test
    assert [float(cell) for cell in test["text"].split(",")] == pytest.approx(data.x[7].tolist())
    assert (test["input"], test["label"]) == ("test:7", load_iris().classes[data.labels[7]])
    lines = printed(runs["iris"], "5.1,3.5,1.4,0.2", "test:7")
    assert lines[0].startswith("5.1,3.5,1.4,0.2  ")
    assert lines[1].startswith(f"test:7  {test['text']}  {test['class']}")
    assert lines[1].endswith(f"labelled {test['label']}")


def test_parts(runs: dict[str, Run]) -> None:
    (found,) = runs["tag"].answer([TEXT])
    assert isinstance(found, TagAnswer)
    assert found.parts
    (row,) = answered(runs["tag"], TEXT)
    assert [(p["name"], p["text"], p["start"], p["end"], p["probability"]) for p in row["parts"]] == [
        (p.name, p.text, p.start, p.end, p.probability) for p in found.parts
    ]
    first, *lines = printed(runs["tag"], TEXT)
    assert first == TEXT
    assert [line.split()[:3] for line in lines] == [[p.name, p.text, f"{p.start}-{p.end}"] for p in found.parts]


def test_a_span(runs: dict[str, Run]) -> None:
    (found,) = runs["span"].answer([TEXT])
    assert isinstance(found, Found)
    (row,) = answered(runs["span"], TEXT)
    assert (row["text"], row["span"]["text"], row["span"]["name"]) == (TEXT, found.text, "tens")
    assert (row["span"]["start"], row["span"]["end"]) == (found.start, found.end)
    assert f"  tens  {found.text}  " in printed(runs["span"], TEXT)[1]


def test_masks(runs: dict[str, Run]) -> None:
    text = "<up> o<mask>e t[MASK]o"
    (found,) = runs["masked"].answer([text])
    assert isinstance(found, MaskedAnswer)
    (row,) = answered(runs["masked"], text)
    assert [gap["start"] for gap in row["gaps"]] == [6, 15] == [text.index("<mask>"), text.index("[MASK]")]
    assert [guess["symbol"] for guess in row["gaps"][1]["best"]] == [guess.symbol for guess in found.gaps[1].best]
    _, first, second = printed(runs["masked"], text)
    assert first.startswith(f"  <mask> at 6: {found.gaps[0].best[0].symbol!r} ")
    assert second.count("%") == 5


def test_the_next_symbol(runs: dict[str, Run]) -> None:
    (found,) = runs["gpt"].answer([TEXT])
    assert isinstance(found, NextAnswer)
    (row,) = answered(runs["gpt"], TEXT)
    assert (row["loss"], row["perplexity"]) == (found.loss, found.perplexity)
    assert [guess["symbol"] for guess in row["best"]] == [guess.symbol for guess in found.best]
    _, following, loss = printed(runs["gpt"], TEXT)
    assert following.startswith(f"  next: {found.best[0].symbol!r} ")
    assert loss == f"  loss of the text: {found.loss:.4f} nats a symbol, perplexity {found.perplexity:.2f}"
    assert len(printed(runs["gpt"], "o")) == 2  # one symbol has no loss


def test_a_translation(runs: dict[str, Run]) -> None:
    for text in ("<up> one one", "<down> one one"):
        (found,) = runs["t5"].answer([text])
        assert isinstance(found, TranslateAnswer)
        (row,) = answered(runs["t5"], text)
        assert (row["text"], row["translation"], row["ended"]) == (text, found.text, found.ended)
        assert printed(runs["t5"], text)[1] == f"  {found.text}" + "   (it did not end)" * (not found.ended)


def test_lines_of_stdin_and_of_a_file(runs: dict[str, Run], tmp_path: Path) -> None:
    lines = f"{TEXT}\n\n<down> two one\n"
    file = tmp_path / "texts.txt"
    file.write_text(lines)
    rows = answered(runs["classify"], "-", f"@{file}", "one", stdin=lines)
    assert [row["input"] for row in rows] == ["-:1", "-:3", f"@{file}:1", f"@{file}:3", "one"]
    assert [row["text"] for row in rows] == [TEXT, "<down> two one"] * 2 + ["one"]
    assert rows[0]["probability"] == rows[2]["probability"]
    assert printed(runs["classify"], "-", stdin=lines)[1].startswith("-:3  <down> two one  ")


@pytest.mark.parametrize(
    ("kind", "key", "expected", "shown"),
    [
        ("classify", "label", ("even", "odd")[TEST[3].label], None),
        ("t5", "expected", TEST[3].target, f"  expected: {TEST[3].target}"),
    ],
)
def test_a_test_sample_comes_with_what_is_right(
    runs: dict[str, Run], kind: str, key: str, expected: str, shown: str | None
) -> None:
    (row,) = answered(runs[kind], "test:3")
    assert (row["input"], row["text"], row[key]) == ("test:3", TEST[3].text, expected)
    lines = printed(runs[kind], "test:3")
    assert lines[0].startswith(f"test:3  {TEST[3].text}")
    assert lines[-1] == shown if shown else lines[0].endswith(f"   labelled {expected}")


def test_the_right_parts_of_a_test_sample(runs: dict[str, Run]) -> None:
    text, parts = TEST[3].text, TEST[3].parts
    plain = [{"name": p.name, "text": text[p.start : p.end], "start": p.start, "end": p.end} for p in parts]
    assert answered(runs["tag"], "test:3")[0]["expected"] == plain
    assert printed(runs["tag"], "test:3")[-1] == "  expected: " + ", ".join(f"{p['name']} {p['text']}" for p in plain)
    (tens,) = [part for part in plain if part["name"] == "tens"]
    assert answered(runs["span"], "test:3")[0]["expected"] == tens
    assert printed(runs["span"], "test:3")[-1] == f"  expected: tens {tens['text']}"


def test_a_piece_of_the_test_text_with_some_covered_up(runs: dict[str, Run]) -> None:
    """A fifth of the symbols, as the run learned by: the third, the eighth."""
    (row,) = answered(runs["masked"], "test:3")
    text = TEST[3].text  # <down> or <up> is one symbol
    mark = text.index(">") + 1
    symbols = [text[:mark], *text[mark:]]
    covered = range(2, len(symbols), 5)
    assert row["expected"] == [symbols[i] for i in covered]
    assert row["text"] == "".join("<mask>" if i in covered else symbol for i, symbol in enumerate(symbols))
    assert len(row["gaps"]) == len(covered) > 1
    assert printed(runs["masked"], "test:3")[-1] == "  expected: " + ", ".join(map(repr, row["expected"]))


def test_a_stretch_of_the_test_text_and_what_really_follows(
    runs: dict[str, Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "".join(example.text for example in TEST).replace("<up>", "x").replace("<down>", "u")
    monkeypatch.setitem(
        KNOWN_TEXTS,
        "numbers",
        NUMBERS._replace(load=lambda name, cache: small_texts()._replace(test=(TEST[0]._replace(text=long),))),
    )
    (row,) = answered(runs["gpt"], "test:2")
    assert (row["text"], row["expected"]) == (long[26:39], long[39])
    assert printed(runs["gpt"], "test:2")[-1] == f"  expected: {long[39]!r}"
    last = len(long) // 13
    (row,) = answered(runs["gpt"], f"test:{last}")
    assert (row["text"], row["expected"]) == (long[13 * last :], None)
    with pytest.raises(DataError, match=f"there are {last + 1} test samples, numbered 0 to {last}"):
        raise invoke(runs["gpt"], f"test:{last + 1}").exception


@pytest.mark.parametrize(
    ("kind", "words", "message"),
    [
        ("tag", ["test:10"], "test:10: there are 10 test samples, numbered 0 to 9"),
        ("iris", ["test:45"], "test:45: there are 45 test samples, numbered 0 to 44"),
        ("tag", ["@gone.txt"], r"gone\.txt: there is no such file; @ stands before the name"),
        ("tag", ["@bytes"], "bytes: damaged: not UTF-8 text"),
        ("tag", ["@blank"], "@blank: no line with anything in it came"),
        ("tag", [""], "there is nothing in it to read"),
        ("tag", [TEXT, "zebra"], "text 2: 'zebra' has 'z', 'b', 'a', which the run's tokeniser does not know"),
        ("masked", [TEXT], "write <mask> where a symbol is to be found"),
        ("iris", ["1,2"], "the row: '1,2' came, expected 4 numbers"),
    ],
)
def test_mistakes_are_explained(
    runs: dict[str, Run], kind: str, words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bytes").write_bytes(b"\xff\xfe")
    Path("blank").write_text("\n \n")
    with pytest.raises(DataError, match=message):
        raise invoke(runs[kind], *words).exception


def test_a_run_from_python_has_no_test_samples(runs: dict[str, Run], tmp_path: Path) -> None:
    for file in runs["tag"].path.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "recipe.toml").write_text(to_toml(to_plain(replace(runs["tag"].recipe, data="arrays"))))
    with pytest.raises(DataError, match=r"test:3: the data of .* was given in Python, which no file holds; write the"):
        raise invoke(replace(runs["tag"], path=tmp_path), "test:3").exception


def test_what_is_for_images_only(runs: dict[str, Run]) -> None:
    result = invoke(runs["tag"], TEXT, "--invert", "yes")
    assert result.exit_code == 2
    assert "reads no images" in result.output


@pytest.mark.parametrize("kind", ["classify", "tag", "span", "masked"])
def test_both_engines_answer_the_same(runs: dict[str, Run], kind: str) -> None:
    word = "<up> <mask> two" if kind == "masked" else TEXT
    texts = [word, word[:-4], word]
    native, by_jax = (replace(runs[kind], engine=engine).answer(texts) for engine in ("native", "jax"))
    for one, other in zip(native, by_jax, strict=True):
        assert rounded(to_plain(one)) == rounded(to_plain(other))


def rounded(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {name: rounded(value) for name, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [rounded(value) for value in plain]
    return pytest.approx(plain, abs=1e-4) if isinstance(plain, float) else plain


def test_an_engine_that_cannot_says_so(runs: dict[str, Run]) -> None:
    said = str(invoke(runs["gpt"], TEXT, "--engine", "native").exception)
    assert "the native encoder has no CausalSelfAttention yet (blocks.0.attn)" in said
    notes: list[str] = []
    windowed = replace(runs["tag"].recipe.model, bert=replace(runs["tag"].model.backbone, window=3))  # pyright: ignore
    run = replace(runs["tag"], recipe=replace(runs["tag"].recipe, model=windowed), notice=notes.append)
    assert len(run.answer([TEXT])) == 1
    assert notes == ["the native encoder has no SelfAttention with mask yet (bert.blocks.0.attn); jax is used"]
