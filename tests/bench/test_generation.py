"""`glassformer bench generate`: all sides write the same text, and the command says what it measured."""

import json
import sys
from typing import Any

import jax
import numpy as np
import pytest

from glassformer.bench import generation
from glassformer.bench.bandwidth import Reading
from glassformer.bench.generation import SMALL, Contest, Result
from glassformer.cli.bench_generate import generation_notes, generation_table
from glassformer.errors import SettingError

from .bench_command import NO_COMPILER, answer_of, bench, needs_c_compiler, take_the_c_compiler_away

QUICKLY = ("--small", "--rounds", "1", "--tokens", "3")
BEST, OTHER = "transformers sdpa", "transformers eager"


def greedy(prompt: np.ndarray, tokens: int) -> list[int]:
    """By the whole forward for every token; what stands behind the text so far, it does not see."""
    params, ids = generation.talkative(SMALL), np.zeros((1, SMALL.text.context), np.int32)
    ids[0, : len(prompt)] = prompt
    forward = jax.jit(lambda ids: SMALL.forward(params, ids)[0])
    for place in range(len(prompt), len(prompt) + tokens):
        ids[0, place] = forward(ids)[0, place - 1].argmax()
    return ids[0, len(prompt) :][:tokens].tolist()


def written(write: generation.Write, prompt: np.ndarray, tokens: int) -> list[int]:
    heard: list[int] = []
    write(prompt, tokens, heard.append)
    return heard


@needs_c_compiler
@pytest.mark.slow
def test_all_sides_write_what_the_model_says() -> None:
    pytest.importorskip("transformers")
    contest = Contest(SMALL, tokens=3)
    assert [*contest.sides][:6] == ["native", "native bf16", "native int8", "jax", BEST, OTHER]
    assert contest.contexts == [4, 16, 32, 60]
    prompt = contest.prompt[:13]
    expected = greedy(prompt, 6)
    assert len(set(expected)) > 3
    for side, write in contest.sides.items():
        if not side.endswith(generation.FEWER_BITS):
            assert written(write, prompt, 6) == expected, side


@pytest.mark.slow
def test_a_turn_is_counted_from_the_first_token(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 13.0, 14.0, 15.0, 19.0])
    monkeypatch.setattr(generation.time, "perf_counter", lambda: next(clock))
    contest = Contest(SMALL, tokens=3, with_peers=False)

    def write(prompt: np.ndarray, tokens: int, heard: generation.Heard) -> None:
        for _ in range(tokens):
            heard(len(prompt))

    contest.sides = {"jax": write}
    contest.take_turn("jax", 16, counts=True)
    assert contest.reading == {("jax", 16): [3.0]}
    assert contest.seconds == {("jax", 16): [2.0]}
    assert contest.written == {16: {"jax": [16, 16, 16, 16]}}


@needs_c_compiler
@pytest.mark.slow
def test_the_command_beside_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    monkeypatch.setattr(generation, "FAR", 0)
    answer = answer_of(bench("generate", *QUICKLY, "--json"))
    assert answer["transformers"] is not None
    assert (answer["rounds"], answer["tokens"], answer["contexts"]) == (1, 3, [4, 16, 32, 60])
    ms = answer["token_ms"]
    assert list(ms) == list(answer["prompt_ms"])
    assert [*ms][:6] == ["native", "native bf16", "native int8", "jax", BEST, OTHER]
    assert answer["ratios"]["int8_to_float32"] == pytest.approx(sum(ms["native"]) / sum(ms["native int8"]))
    together = answer["batch_ms"]["native int8"]
    assert answer["ratios"]["batch_native int8"] == pytest.approx(8 * ms["native int8"][0] / together)
    assert answer["others"] == []
    rate = answer["tokens_per_s"]
    assert rate["jax"] == pytest.approx(4e3 / sum(ms["jax"]))
    assert rate[answer["best"]] == max(rate[BEST], rate[OTHER])
    assert answer["ratios"]["native_to_transformers"] == pytest.approx(rate["native"] / rate[answer["best"]])
    assert answer["weight_bytes"] > 4 * 48 * (257 + 2 * (4 * 48 + 2 * 96))
    fastest = max(answer["bandwidth"].values())
    assert answer["share"] == pytest.approx(answer["weight_bytes"] / (ms["native"][0] / 1e3) / fastest)


@needs_c_compiler
@pytest.mark.slow
def test_the_command_without_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    for peer in ("transformers", "ctranslate2", "llama_cpp"):
        monkeypatch.setitem(sys.modules, peer, None)  # importing it now fails
    output = bench("generate", *QUICKLY)
    assert output.exit_code == 0, output.output
    lines = output.stdout.splitlines()
    assert lines[0].split() == ["native", "native", "bf16", "native", "int8", "jax"]
    assert "median of 1 turns of 3 tokens" in lines[12]
    assert "transformers is left out: it is not installed; `pip install glassformer[parity]`" in lines
    assert not any("memory" in line for line in lines), "a model that stays in the caches"


def test_the_command_with_jax_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    take_the_c_compiler_away(monkeypatch)
    answer = answer_of(bench("generate", *QUICKLY, "--no-peers", "--json"))
    assert list(answer["token_ms"]) == ["jax"]
    assert (answer["share"], answer["best"], answer["bandwidth"]) == (None, None, {})
    assert set(answer["ratios"].values()) == {None}
    lines = bench("generate", *QUICKLY, "--no-peers").stdout.splitlines()
    assert f"native is left out: {NO_COMPILER}" in lines
    assert "transformers is left out, as --no-peers asks" in lines


def measured(**changes: Any) -> Result:
    values: dict[str, Any] = {
        "contexts": [64, 960],
        "tokens": 16,
        "token_ms": {"native": [9.0, 11.0], "jax": [20.0, 20.0], BEST: [35.0, 45.0], OTHER: [40.0, 50.0]},
        "prompt_ms": {"native": [60.0, 900.0], "jax": [90.0, 1300.0], BEST: [120.0, 1250.0], OTHER: [130.0, 1400.0]},
        "weight_bytes": 450_000_000,
        "batch_ms": {"native": 18.0},
        "bandwidth": {"1": 30e9, "2": 55e9},
        "others": [],
        "spread": 1.1,
    }
    return Result(**values | changes)


def test_the_table() -> None:
    result = measured()
    assert generation_table(result) == [
        "                         native       jax  transformers sdpa  transformers eager",
        "tokens a second           100.0      50.0               25.0                22.2",
        "ms a token behind 64       9.00     20.00              35.00               40.00",
        "ms a token behind 960     11.00     20.00              45.00               50.00",
        "slowest and fastest      ± 10 %     ± 0 %             ± 12 %              ± 11 %",
        "ms to read 64              60.0      90.0              120.0               130.0",
        "ms to read 960            900.0    1300.0             1250.0              1400.0",
    ]
    assert generation_notes(result, peers=True) == [
        "native writes 4.00 times as many tokens as transformers sdpa in the same time",
        "native writes 2.00 times as many tokens as jax in the same time",
        "native: eight texts together are 4.0 times the tokens of one",
        "memory is read at 30.0 GB/s with 1 thread, 55.0 GB/s with 2 threads, in the same run",
        "a token reads 450.0 MB of weights; behind 64 native does so at 91 % of that",
    ]
    assert result.share == pytest.approx(50 / 55)
    assert json.dumps(result.plain())


def test_texts_that_differ_are_reported() -> None:
    assert "other tokens were written by jax" in generation_notes(measured(others=["jax"]), peers=True)[5]


def test_more_tokens_than_fit_are_refused() -> None:
    with pytest.raises(SettingError, match="4 tokens came, behind the longest prompt is room for 3"):
        Contest(SMALL, tokens=4)


@needs_c_compiler
def test_reading_reads_everything() -> None:
    array = np.ones(3 * 1024, np.float32)
    assert sum(Reading(array, 3, print, passes=2)()) == 2 * array.size
    assert Reading(array, 3, print, passes=2).bytes == 2 * array.nbytes


def test_the_help_shows_an_example() -> None:
    assert "Example: glassformer bench generate --tokens 32" in bench("generate", "--help").stdout
