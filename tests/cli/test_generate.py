"""glassformer generate: what it prints, where prompts come from, and what it says when something is wrong."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from glassformer.cli.generate import generate
from glassformer.data.tokeniser_training import Characters
from glassformer.errors import CheckpointError, DataError, EngineError, SettingError
from glassformer.generate import BeamSearch, Sampling, answer_text, best_answers, continue_text
from glassformer.generate.jax_decoder import JaxDecoder
from glassformer.models import BERT, GPT, T5, BERTFor, MaskedHead, RecurrentLM, Text, ViT
from glassformer.models.model import Network
from glassformer.predict.run import load
from glassformer.train.recipe import Recipe
from glassformer.train.run_folder import RunFolder
from glassformer.train.tasks import Classify, Masked, NextToken, Task, Translate

app = typer.Typer()
app.command()(generate)

TOKENISER = Characters().train(["abcdefghijklmnopqrstuvwxyz .é\n"])
TEXT = Text(TOKENISER.size, 32)
SIZES: dict[str, Any] = {"width": 12, "hidden": 24, "heads": 2, "depth": 2}
RUNS: dict[str, tuple[Network, Task]] = {
    "gpt": (GPT(TEXT, **SIZES), NextToken()),
    "lstm": (RecurrentLM(TEXT, width=16, hidden=16), NextToken()),
    "t5": (T5(TEXT, **SIZES, head_width=6), Translate()),
    "bert": (BERTFor(BERT(TEXT, **SIZES), MaskedHead(12, TEXT.vocabulary)), Masked()),
    "vit": (ViT(width=8, hidden=8, heads=2), Classify()),
}


def large(leaf: Any) -> np.ndarray:
    draw = np.random.default_rng(leaf.shape)
    return draw.normal(0.0 if leaf.ndim == 2 else 0.3, 0.4, leaf.shape).astype(np.float32)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Untrained, with weights so large that every text is another."""
    root = tmp_path_factory.mktemp("runs")
    for name, (model, task) in RUNS.items():
        recipe = Recipe(model=model, task=task, tokeniser=None if name == "vit" else Characters())
        folder = RunFolder(root / name)
        folder.create(recipe)
        params = jax.tree.map(large, jax.eval_shape(model.init, jax.random.key(0)))
        folder.save_model(recipe, params, (), 1)
        if name != "vit":
            folder.save_tokeniser(TOKENISER)
    return root


@pytest.fixture(autouse=True)
def among_runs(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs)


def invoke(*arguments: str, stdin: str | bytes = "") -> Any:
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}).invoke(app, [*arguments], input=stdin)


def printed(*arguments: str, stdin: str | bytes = "") -> str:
    result = invoke(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.stdout


def answered(*arguments: str) -> dict[str, Any]:
    return json.loads(printed(*arguments, "--json").splitlines()[-1])


def expected(prompts: list[str], **settings: Any) -> list[str]:
    run = load("gpt")
    return continue_text(JaxDecoder(RUNS["gpt"][0], run.params), TOKENISER, prompts, **settings)  # pyright: ignore[reportArgumentType]


def test_one_text_is_written_behind_its_prompt() -> None:
    (text,) = expected(["the cat"], length=9)
    assert printed("gpt", "--prompt", "the cat", "--length", "9", "--engine", "jax") == f"the cat{text}\n"
    assert len(text) > 1


def test_every_setting_arrives() -> None:
    bias = {"e": -2.0, "7": 1.5}
    sampling = Sampling(temperature=1.7, top_k=20, top_p=0.95, min_p=0.01, repetition_penalty=1.3, logit_bias=bias)
    (text,) = expected(["the cat"], length=15, sampling=sampling, seed=5)
    draws = ["-t", "1.7", "--top-k", "20", "--top-p", "0.95", "--min-p", "0.01", "--repetition-penalty", "1.3"]
    biases = ["--logit-bias", "e=-2", "--logit-bias", "7=1.5"]
    arguments = ["gpt", "-p", "the cat", "-n", "15", *draws, *biases, "--seed", "5", "--engine", "jax"]
    answer = answered(*arguments)
    [row] = answer["texts"]
    assert (row["prompt"], row["text"], row["seed"]) == ("the cat", text, 5)
    assert TOKENISER.decode(row["tokens"]) == text
    assert row["stopped"] == ("end" if len(row["tokens"]) < 15 else "length")
    assert answer["engine"] == "jax"
    assert Sampling(**{name: answer[name] for name in asdict(sampling)}) == sampling
    stopped = answered(*arguments, "--stop", text[4], "--stop", text[9])
    assert stopped["texts"][0]["text"] == text[: min(text.index(text[4]), text.index(text[9]))]


def test_biases_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "bias.json"
    file.write_text('{"e": -2, "7": 1.5, "a": "-inf"}')
    arguments = ("gpt", "-p", "the cat", "-n", "9", "-t", "2")
    assert answered(*arguments, "--logit-bias", str(file))["texts"] == answered(
        *arguments, "--logit-bias", "e=-2", "--logit-bias", "7=1.5", "--logit-bias", "a=-inf"
    )["texts"]  # fmt: skip
    file.write_text("[1, 2]")
    with pytest.raises(DataError, match=r"bias.json: \[1, 2\] came, expected biases by token: {"):
        raise invoke(*arguments, "--logit-bias", str(file)).exception


def test_several_prompts_each_under_a_heading() -> None:
    texts = expected(["one", "two"], length=5, sampling=Sampling(greedy=True))
    shown = printed("gpt", "-p", "one", "-p", "two", "-n", "5", "--greedy", "--engine", "jax")
    assert shown == f"== prompt 1 ==\none{texts[0]}\n\n== prompt 2 ==\ntwo{texts[1]}\n"


def test_both_engines_write_the_same() -> None:
    arguments = ("gpt", "-p", "the cat", "-p", "a", "-n", "12", "--seed", "3")
    native, jax_ = answered(*arguments, "--engine", "native"), answered(*arguments, "--engine", "jax")
    assert (native.pop("engine"), jax_.pop("engine")) == ("native", "jax")
    assert native == jax_
    assert answered(*arguments)["engine"] == ("native" if jax.default_backend() == "cpu" else "jax")


@pytest.mark.parametrize("arguments", [(), ("--prompt", "-")])
def test_a_prompt_from_stdin(arguments: tuple[str, ...]) -> None:
    wanted = ("gpt", "-n", "6", "--engine", "jax")
    assert printed(*wanted, *arguments, stdin="née\n\n") == printed(*wanted, "--prompt", "née\n")


def test_without_a_prompt_a_text_begins() -> None:
    shown = printed("gpt", "--engine", "jax")
    assert shown == expected([""], length=200)[0] + "\n"


def test_a_recurrent_model_writes_on_beyond_its_context() -> None:
    texts = [answered("lstm", "-p", "abc", "--length", "90")["texts"][0]["text"] for _ in range(2)]
    assert texts[0] == texts[1]
    assert len(texts[0]) > TEXT.context


def test_t5_answers() -> None:
    decoder = JaxDecoder(RUNS["t5"][0], load("t5").params)  # pyright: ignore[reportArgumentType]
    texts = answer_text(decoder, TOKENISER, ["abc", "de"], length=8)
    assert printed("t5", "-p", "abc", "-n", "8") == f"abc -> {texts[0]}\n"
    assert printed("t5", "-p", "abc", "-p", "de", "-n", "8") == f"abc -> {texts[0]}\nde -> {texts[1]}\n"
    assert answered("t5", "-p", "abc", "-n", "8")["greedy"] is True
    drawn = answered("t5", "-p", "abc", "-n", "8", "-t", "3")
    assert drawn["greedy"] is False
    assert drawn["texts"][0]["text"] != texts[0]
    best = best_answers(decoder, TOKENISER, ["abc"], length=8, search=BeamSearch(3))
    assert printed("t5", "-p", "abc", "-n", "8", "--beams", "3") == f"abc -> {best[0]}\n"
    assert answered("t5", "-p", "abc", "-n", "8", "--beams", "3")["beams"] == 3
    assert answered("t5", "-p", "abc")["length"] == 32


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["gpt", "-p", "abc", "-t", "0"], SettingError, "temperature is 0.0, expected a number above 0.* use greedy"),
        (["gpt", "-p", "abc", "--top-p", "1.5"], SettingError, "top_p is 1.5"),
        (["gpt", "-p", "abc", "--top-k", "-1"], SettingError, "top_k is -1"),
        (["gpt", "-p", "abc", "--min-p", "2"], SettingError, "min_p is 2.0, expected a share from 0 to 1"),
        (["gpt", "-p", "abc", "--logit-bias", "the=1"], SettingError, "'the' is no token of the model"),
        (["gpt", "-p", "abc", "--logit-bias", "99=1"], SettingError, "token 99 came, the tokeniser has 35"),
        (["gpt", "-p", "abc", "--logit-bias", "a=x"], SettingError, "'a=x' came, expected TOKEN=BIAS, such as 17=-5"),
        (["gpt", "-p", "abc", "--logit-bias", "gone.json"], DataError, "gone.json: there is no such file"),
        (["gpt", "-p", "abc", "-n", "0"], SettingError, "length is 0"),
        (["gpt", "-p", "a" * 33], DataError, "the prompt: 33 tokens, the model's context is 32; shorten it by 1"),
        (["gpt", "-p", "ABC"], DataError, "does not know 'A', 'B', 'C'"),
        (["gpt", "-p", "abc", "--stop", ""], SettingError, "expected a list of texts that are not empty"),
        (["gpt", "-p", "abc", "--seed", "-1"], SettingError, "seed is -1"),
        (["t5"], DataError, "the prompt: it is empty, and there is nothing to answer"),
        (["t5", "-p", "abc", "--engine", "native"], EngineError, "no T5 yet"),
        (
            ["bert", "-p", "abc"],
            DataError,
            r"bert: BERTFor \(task masked\) .* predict INPUT --run bert` says what stands",
        ),
        (["vit", "-p", "abc"], DataError, r"vit: ViT \(task classify\) does not write text; .* says which class"),
        (["gone", "-p", "abc"], CheckpointError, "gone: not a run folder"),
    ],
)
def test_mistakes_are_explained(arguments: list[str], error: type[Exception], message: str) -> None:
    result = invoke(*arguments)
    assert result.stdout == ""
    with pytest.raises(error, match=message):
        raise result.exception


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(DataError, match="stdin: not UTF-8 text"):
        raise invoke("gpt", stdin=b"\xff\xfe").exception


def test_a_run_without_its_tokeniser(tmp_path: Path) -> None:
    for name in ("recipe.toml", "model.safetensors"):
        (tmp_path / name).write_bytes(Path("gpt", name).read_bytes())
    with pytest.raises(CheckpointError, match=r"it has no tokenizer\.json"):
        raise invoke(str(tmp_path), "-p", "abc").exception


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gpt", "--greedy", "-t", "0.5", "--top-k", "3"], "leave out --temperature, --top-k"),
        (["gpt", "--greedy", "--min-p", "0.1"], "leave out --min-p"),
        (["t5", "--beams", "2", "--logit-bias", "a=1"], "leave out the settings of drawing"),
        (["gpt", "--beams", "2"], "beams are for a T5"),
        (["t5", "--beams", "2", "--greedy"], "leave out the settings of drawing"),
        (["gpt", "--engine", "gpu"], "Invalid value for '--engine'"),
        ([], "Missing argument"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_help_shows_an_example() -> None:
    assert "Example: `glassformer generate " in printed("--help")


def test_weights_of_fewer_bytes(runs: Path) -> None:
    """The likeliest token stays what it was; int8 weights are kept in the run."""
    settings = ("gpt", "--prompt", "ab", "--greedy", "--length", "12")
    plain, int8, again = (
        answered(*settings),
        answered(*settings, "--weights", "int8"),
        answered(*settings, "--weights", "int8"),
    )
    assert (plain["weights"], int8["weights"], int8["engine"]) == ("float32", "int8", "native")
    assert int8 == again
    assert (runs / "gpt" / "weights-int8.bin").is_file()
    assert len(int8["texts"][0]["tokens"]) == 12
    failed = invoke("gpt", "--weights", "bf16", "--engine", "jax", "--prompt", "ab")
    assert "weights bf16 are read by the native engine only" in str(failed.exception)
