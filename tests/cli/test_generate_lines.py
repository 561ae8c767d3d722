"""glassformer generate --jsonl: prompts in, texts out, line by line, in order; and what it says of bad lines."""

import json
import os
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from glassformer.cli.generate import generate
from glassformer.cli.generate_lines import Asked, Refused, batches, write_batch
from glassformer.data.tokeniser_training import Characters
from glassformer.errors import DataError, SettingError
from glassformer.generate.prompts import Prompt
from glassformer.generate.text import Row, Writing
from glassformer.models import GPT, T5, Text
from glassformer.predict.run import Run, load
from glassformer.predict.writer import written
from glassformer.train.recipe import Recipe
from glassformer.train.run_folder import RunFolder
from glassformer.train.tasks import NextToken, Translate

app = typer.Typer()
app.command()(generate)

TOKENISER = Characters().train(["abcdefghijklmnopqrstuvwxyz .é\n"])
TEXT = Text(TOKENISER.size, 32)
SIZES: dict[str, Any] = {"width": 12, "hidden": 24, "heads": 2, "depth": 1}
RUNS = {"gpt": (GPT(TEXT, **SIZES), NextToken()), "t5": (T5(TEXT, **SIZES, head_width=6), Translate())}


@pytest.fixture(scope="module", autouse=True)
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Untrained, with weights so large that every text is another."""
    root = tmp_path_factory.mktemp("runs")
    for name, (model, task) in RUNS.items():
        recipe = Recipe(model=model, task=task, tokeniser=Characters())
        folder = RunFolder(root / name)
        folder.create(recipe)
        draw, shapes = np.random.default_rng(3), jax.eval_shape(model.init, jax.random.key(0))
        params = jax.tree.map(lambda leaf, draw=draw: draw.normal(0, 0.6, leaf.shape).astype(np.float32), shapes)
        folder.save_model(recipe, params, (), 1)
        folder.save_tokeniser(TOKENISER)
    return root


@pytest.fixture(autouse=True)
def among_runs(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs)


@pytest.fixture(scope="module")
def gpt(runs: Path) -> Run:
    return load(runs / "gpt")


def invoke(*arguments: str, lines: list[Any]) -> Any:
    """Each line is an object, or what stands there as it is."""
    content = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}).invoke(
        app, [*arguments, "--jsonl", "-"], input=content
    )


def answered(*arguments: str, lines: list[Any]) -> list[dict[str, Any]]:
    result = invoke(*arguments, lines=lines)
    assert result.exit_code == 0, result.output + repr(result.exception)
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_each_line_is_written_by_its_own_settings(gpt: Run) -> None:
    lines: list[dict[str, Any]] = [
        {"prompt": "the cat", "id": "first"},
        {"prompt": "a", "max_tokens": 25, "seed": 9, "temperature": 1.5, "min_p": 0.01},
        {"prompt": "no more of this", "greedy": True, "length": 5, "logit_bias": {"e": -3}, "id": [3]},
        {"prompt": "b", "top_k": 12, "top_p": 0.9, "repetition_penalty": 1.2, "stop": "e", "id": None},
    ]
    rows = answered("gpt", "-n", "8", "--seed", "40", lines=lines)
    assert [row["line"] for row in rows] == [1, 2, 3, 4]
    assert [row.get("id") for row in rows] == ["first", None, [3], None]
    assert [row["seed"] for row in rows] == [40, 9, 42, 43], "of the command, one more with each line, or its own"
    for line, row in zip(lines, rows, strict=True):
        settings = {key: value for key, value in line.items() if key not in ("prompt", "id", "max_tokens")}
        settings = {"length": line.get("max_tokens", 8), "seed": row["seed"]} | settings
        settings["stop"] = [settings["stop"]] if "stop" in settings else []
        (alone,) = gpt.generate([line["prompt"]], **settings)
        assert {key: row[key] for key in ("prompt", "text", "tokens", "stopped", "seed")} == alone._asdict()
    assert {row["stopped"] for row in rows} >= {"length"}


@pytest.mark.parametrize("batch", ["1", "3", "64"])
def test_the_batch_changes_nothing(batch: str, gpt: Run) -> None:
    prompts = ["the cat", "a", "no more of this", "xyz", "the cat", "q", "."]
    rows = answered("gpt", "-n", "9", "--batch", batch, lines=[{"prompt": prompt} for prompt in prompts])
    assert [row["text"] for row in rows] == [one.text for one in gpt.generate(prompts, length=9)]
    assert rows[0]["text"] != rows[4]["text"], "another line, another seed"


def test_a_file_is_read_as_stdin_is(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"prompt": "née"}\r\n\n  \n{"prompt": "b"}', encoding="utf-8")
    result = CliRunner().invoke(app, ["gpt", "--jsonl", str(file), "-n", "5"])
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["line"], row["prompt"], row["seed"]) for row in rows] == [(1, "née", 0), (4, "b", 3)]
    assert rows == answered("gpt", "-n", "5", lines=['{"prompt": "née"}', "", "", '{"prompt": "b"}'])


def test_answers_of_a_t5_are_greedy_unless_a_line_draws() -> None:
    run = load("t5")
    rows = answered("t5", "-n", "6", lines=[{"prompt": "abc"}, {"prompt": "abc", "temperature": 3.0}, {"prompt": "de"}])
    assert [row["text"] for row in rows] == [
        *(one.text for one in run.generate(["abc"], length=6)),
        *(one.text for one in run.generate(["abc"], length=6, temperature=3.0, seed=1)),
        *(one.text for one in run.generate(["de"], length=6)),
    ]


BAD = [
    ("{", r"damaged or cut short: not JSON"),
    ("[1]", r'\[1\] came, expected an object: {"prompt": "…"}'),
    ({"text": "a"}, "'text' came, known: prompt, id, length"),
    ({"prompt": "a", "temprature": 1}, "'temprature' came \\(did you mean 'temperature'\\?\\)"),
    ({"seed": 1}, "there is no prompt"),
    ({"prompt": 5}, "prompt is 5, expected a text"),
    ({"prompt": "a", "length": 2.5}, "length is 2.5, expected a whole number"),
    ({"prompt": "a", "seed": True}, "seed is True, expected a whole number"),
    ({"prompt": "a", "seed": -1}, "seed is -1, expected 0 or more"),
    ({"prompt": "a", "max_tokens": 0}, "length is 0, expected 1 or more"),
    ({"prompt": "a", "temperature": 0}, "temperature is 0, expected a number above 0"),
    ({"prompt": "a", "greedy": True, "top_k": 3}, "greedy takes the likeliest token; leave out top_k"),
    ({"prompt": "a", "stop": [1]}, r"stop is \[1\], expected a text or a list of texts"),
    ({"prompt": "a", "stop": ""}, "texts that are not empty"),
    ({"prompt": "a", "logit_bias": {"abc": 1}}, "'abc' is no token of the model"),
    ({"prompt": "a", "logit_bias": [1]}, "logit_bias is .*, expected biases by token"),
    ({"prompt": "A"}, "the prompt: the model's tokeniser does not know 'A'"),
    ({"prompt": "a" * 33}, "the prompt: 33 tokens, the model's context is 32"),
    ('{"prompt": "\\ud800"}', "is half of one"),
]  # fmt: skip


def test_bad_lines_are_named_and_the_others_written() -> None:
    result = invoke("gpt", "-n", "4", lines=[{"prompt": "a"}, *(line for line, _ in BAD), {"prompt": "b"}])
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["line"] for row in rows] == [*range(1, len(BAD) + 3)]
    assert ["text" in row for row in rows] == [True, *(False for _ in BAD), True]
    for row, (_, message) in zip(rows[1:], BAD, strict=False):
        assert re.match(rf"-:{row['line']}: .*{message}", row["error"]), row["error"]
    with pytest.raises(DataError, match=rf"^{len(BAD)} of {len(BAD) + 2} lines could not be read; the first: -:2: dam"):
        raise result.exception


def test_bytes_that_are_no_text() -> None:
    result = CliRunner().invoke(app, ["gpt", "--jsonl", "-"], input=b'{"prompt": "\xff"}\n')
    assert "-:1: not UTF-8 text" in json.loads(result.stdout)["error"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prompt", "a"], "leave out --prompt"),
        (["--json"], "leave out --json"),
        (["--beams", "2"], "leave out --beams"),
        (["--batch", "0"], "Invalid value for '--batch'"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    result = invoke("gpt", *arguments, lines=[{"prompt": "a"}])
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_what_all_lines_have_is_refused_at_once() -> None:
    result = invoke("gpt", "-t", "0", lines=[{"prompt": "a"}])
    assert result.stdout == ""
    with pytest.raises(SettingError, match="temperature is 0"):
        raise result.exception
    with pytest.raises(DataError, match=r"gone.jsonl: there is no such file"):
        CliRunner().invoke(app, ["gpt", "--jsonl", "gone.jsonl"], catch_exceptions=False)


def test_lines_of_a_pipe_are_taken_as_they_arrive() -> None:
    """A program may wait for its answer before it sends the next line."""
    read, write = os.pipe()
    with os.fdopen(read, "rb") as file:
        taken = batches(file, 4)
        os.write(write, b"1\n")
        assert next(taken) == [(1, b"1\n")]
        os.write(write, b"2\n\n4\n")
        first = next(taken)
        rest = [] if len(first) == 2 else next(taken)
        assert [*first, *rest] == [(2, b"2\n"), (4, b"4\n")]
        os.write(write, b"".join(b"%d\n" % number for number in range(5, 30)))
        os.close(write)
        found = [*taken]
    assert [number for batch in found for number, _ in batch] == [*range(5, 30)]
    assert {len(batch) for batch in found} <= {1, 2, 4}


def test_a_text_is_printed_when_all_before_it_are(capsys: pytest.CaptureFixture[str]) -> None:
    prompt = Prompt(read=[5], before=[5])
    row = Row(TOKENISER, prompt, Writing(1))
    row.add(TOKENISER.encode("a")[0])

    class OutOfOrder:
        def write(self, prompts: Any, how: Any, on_row: Any) -> None:
            assert capsys.readouterr().out == '{"line": 1, "error": "no"}\n'
            for i, printed in [(1, []), (0, [2, 3, 4]), (2, [5])]:
                on_row(i, row)
                assert [json.loads(line)["line"] for line in capsys.readouterr().out.splitlines()] == printed

    asked = {number: Asked({"line": number}, "x", prompt, Writing(1)) for number in (2, 4, 5)}
    refused = {number: Refused({"line": number, "error": "no"}) for number in (1, 3)}
    both: dict[int, Any] = asked | refused
    writer: Any = OutOfOrder()
    write_batch(writer, [both[number] for number in sorted(both)])
    assert written("x", row) == ("x", "a", TOKENISER.encode("a"), "length", 0)
