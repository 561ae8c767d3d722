"""`glassformer bench train`: both sides compute the same losses, and the command says what it measured. No times."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from typer.testing import CliRunner
from typer.testing import Result as Output

from glassformer.bench import measure, peers, training
from glassformer.cli import app
from glassformer.cli.bench import training_notes
from glassformer.errors import UnknownNameError
from glassformer.train.presets import preset
from glassformer.train.recipe import Recipe

STEPS = 5
needs_compiler = pytest.mark.skipif(not training.has_compiler(), reason="no C++ compiler")


def bench_train(*arguments: str) -> Output:
    return CliRunner().invoke(app, ["bench", "train", *arguments], env={"NO_COLOR": "1", "TERM": "dumb"})


def small(name: str) -> Recipe:
    recipe = training.comparable(preset(name))
    return dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, batch=3))


def differences(recipe: Recipe, theirs: Recipe, *modes: str) -> list[float]:
    """The largest between ours and each mode of PyTorch, over the losses of the same few steps."""
    samples, params = training.random_samples(recipe, STEPS), recipe.model.init(jax.random.key(1))
    contestants = [peers.training(theirs, samples, params, mode) for mode in modes]
    losses = training.ours(recipe, samples, params)()
    assert losses.shape == (STEPS,)
    return [np.abs(train() - losses).max() for train in contestants]


@pytest.mark.parametrize("name", training.PRESETS)
def test_pytorch_computes_the_same_losses(name: str) -> None:
    pytest.importorskip("torch")
    assert max(differences(small(name), small(name), "eager", "fused")) < 1e-5


@needs_compiler
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # importing PyTorch's compiler warns
def test_compiled_pytorch_computes_the_same_losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    assert max(differences(small("vit-pico"), small("vit-pico"), "compiled")) < 1e-5


@pytest.mark.parametrize(("name", "setting", "value"), [("attention-pool", "lr", 0.0101), ("vit-pico", "b2", 0.97)])
def test_a_slightly_different_optimiser_would_be_noticed(name: str, setting: str, value: float) -> None:
    pytest.importorskip("torch")
    recipe = small(name)
    other = dataclasses.replace(recipe, optimiser=dataclasses.replace(recipe.optimiser, **{setting: value}))
    assert min(differences(recipe, other, "eager")) > 1e-5


@needs_compiler
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_command_beside_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    output = bench_train("attention-pool", "--rounds", "1", "--steps", "2", "--json")
    assert output.exit_code == 0, output.output
    answer = json.loads(output.stdout.splitlines()[-1])
    (row,) = answer["presets"]
    assert answer["torch"] is not None
    assert (row["preset"], row["batch"]) == ("attention-pool", 32)
    assert list(row["peers_ms"]) == ["eager", "fused", "compiled"]
    assert row["best"] == min(row["peers_ms"], key=row["peers_ms"].get)
    assert row["ratio"] == row["peers_ms"][row["best"]] / row["ours_ms"] > 0
    assert row["compile_s"].keys() == {"ours", "eager", "fused", "compiled"}


def test_the_command_without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # importing it now fails
    arguments = ("attention-pool", "--rounds", "1", "--steps", "2")
    output = bench_train(*arguments)
    assert output.exit_code == 0, output.output
    head, row, *notes = output.stdout.splitlines()
    assert head.split() == ["ms", "per", "step", "batch", "ours"]
    assert row.split()[:2] == ["attention-pool", "32"]
    assert notes == [  # one run cannot be unsteady
        "median of 1 runs of 2 steps, taking turns on the CPU; compiling is not counted",
        "PyTorch is not installed, so ours stands alone: `pip install glassformer[parity]`",
    ]
    answer = json.loads(bench_train(*arguments, "--json").stdout.splitlines()[-1])
    (measured,) = answer["presets"]
    assert answer["torch"] is measured["best"] is measured["ratio"] is None
    assert measured["peers_ms"] == {}
    assert measured["ours_ms"] > 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("vit-nno", "bench train: 'vit-nno' is not compared (did you mean 'vit-nano'?); known: attention-pool, "),
        ("mlp", "bench train: 'mlp' is not compared; known: attention-pool, "),
    ],
)
def test_what_is_not_compared_is_refused_before_anything_is_measured(name: str, message: str) -> None:
    error = bench_train("vit-tiny", name).exception
    assert isinstance(error, UnknownNameError)
    assert str(error).startswith(message)


@pytest.mark.parametrize("option", ["--rounds", "--steps"])
def test_nothing_to_measure_is_wrong_usage(option: str) -> None:
    output = bench_train(option, "0")
    assert output.exit_code == 2
    assert f"Invalid value for '{option}'" in output.stderr


def test_the_help_shows_an_example() -> None:
    assert "Example: glassformer bench train attention-pool" in bench_train("--help").stdout


def result(spread: float = 1.1, **peers_ms: float) -> training.Result:
    return training.Result("vit-pico", batch=32, ours_ms=2.0, peers_ms=peers_ms, compile_s={}, spread=spread)


def test_the_ratio_is_that_of_the_best_mode() -> None:
    measured = result(eager=4.0, fused=3.0, compiled=5.0)
    assert (measured.best, measured.ratio) == ("fused", 1.5)
    assert measured.plain()["ratio"] == 1.5


def test_without_a_compiler_the_compiled_mode_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "torch_version", lambda: "2")
    monkeypatch.setattr(training.shutil, "which", lambda name: None)
    assert training.modes() == ("eager", "fused")
    assert "no C++ compiler" in training_notes([result(eager=4.0, fused=3.0)])[-1]
    assert not any("compiler" in note for note in training_notes([result(eager=4.0, fused=3.0, compiled=1.0)]))


def test_a_busy_machine_is_mentioned() -> None:
    assert training_notes([result(eager=4.0), result(eager=4.0, spread=8.25)])[-1] == (
        "unsteady: the slowest run of one side took 8.2 times its fastest; is the machine busy?"
    )


def test_contestants_take_turns_and_the_first_turn_is_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    now, seen = 0.0, []
    lasting = {"a": iter([9.0, 1.0, 3.0, 2.0]), "b": iter([5.0, 5.0, 5.0, 5.0])}

    def contestant(name: str) -> Any:
        def run() -> None:
            nonlocal now
            now += next(lasting[name])
            seen.append(name)

        return run

    monkeypatch.setattr(measure.time, "perf_counter", lambda: now)
    turns = measure.Turns({name: contestant(name) for name in lasting})
    assert list(turns.run(3)) == [0, 1, 2, 3]
    assert seen == ["a", "b"] * 4
    assert turns.medians() == {"a": 2.0, "b": 5.0}
    assert turns.compiling() == {"a": 7.0, "b": 0.0}
    assert turns.spread() == 3.0
