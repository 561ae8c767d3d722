"""`glassformer bench train`: both sides compute the same losses, and the command says what it measured. No times."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from glassformer.bench import measure, peers, training
from glassformer.cli.bench import training_notes
from glassformer.train.presets import preset
from glassformer.train.recipe import Recipe

WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; "  # importing it now fails
STEPS = 5
needs_compiler = pytest.mark.skipif(not training.has_compiler(), reason="no C++ compiler")


def bench_train(*arguments: str, before: str = "", cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"{before}from glassformer.cli import main; main()", "bench", "train", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1", "TERM": "dumb", "TORCHINDUCTOR_CACHE_DIR": str(cache)},
    )


def small(name: str) -> Recipe:
    recipe = training.comparable(preset(name))
    return dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, batch=3))


def losses(recipe: Recipe, theirs: Recipe, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """Of the same few steps, by ours and by PyTorch, each with its recipe."""
    samples = training.random_samples(recipe, STEPS)
    params = recipe.model.init(jax.random.key(1))
    peer = peers.training(theirs, samples, params, mode)  # first: ours gives the params away
    return training.ours(recipe, samples, params)(), peer()


@pytest.mark.parametrize("mode", ["eager", "fused"])
@pytest.mark.parametrize("name", training.PRESETS)
def test_pytorch_computes_the_same_losses(name: str, mode: str) -> None:
    pytest.importorskip("torch")
    recipe = small(name)
    ours, theirs = losses(recipe, recipe, mode)
    assert ours.shape == theirs.shape == (STEPS,)
    assert np.abs(ours - theirs).max() < 1e-5


@needs_compiler
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # importing PyTorch's compiler warns
@pytest.mark.parametrize("name", ["attention-pool", "vit-pico"])
def test_compiled_pytorch_computes_the_same_losses(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    recipe = small(name)
    ours, theirs = losses(recipe, recipe, "compiled")
    assert np.abs(ours - theirs).max() < 1e-5


@pytest.mark.parametrize(
    ("name", "setting", "value"), [("attention-pool", "lr", 0.0101), ("vit-pico", "b2", 0.97), ("vit-pico", "lr", 0.02)]
)
def test_a_slightly_different_optimiser_would_be_noticed(name: str, setting: str, value: Any) -> None:
    pytest.importorskip("torch")
    recipe = small(name)
    other = dataclasses.replace(recipe, optimiser=dataclasses.replace(recipe.optimiser, **{setting: value}))
    ours, theirs = losses(recipe, other, "eager")
    assert np.abs(ours - theirs).max() > 1e-5


@needs_compiler
@pytest.mark.slow
def test_the_command_beside_pytorch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    result = bench_train("attention-pool", "--rounds", "1", "--steps", "2", "--json", cache=tmp_path)
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout.splitlines()[-1])
    (row,) = answer["presets"]
    assert answer["torch"] is not None
    assert (row["preset"], row["batch"]) == ("attention-pool", 32)
    assert list(row["peers_ms"]) == ["eager", "fused", "compiled"]
    assert row["best"] == min(row["peers_ms"], key=row["peers_ms"].get)
    assert row["ratio"] == row["peers_ms"][row["best"]] / row["ours_ms"] > 0
    assert row["compile_s"].keys() == {"ours", "eager", "fused", "compiled"}


def test_the_command_without_pytorch() -> None:
    arguments = ("attention-pool", "--rounds", "1", "--steps", "2")
    result = bench_train(*arguments, before=WITHOUT_TORCH)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["ms", "per", "step", "batch", "ours"]
    assert lines[1].split()[:2] == ["attention-pool", "32"]
    assert lines[2] == "median of 1 runs of 2 steps, taking turns on the CPU; compiling is not counted"
    assert lines[3:] == ["PyTorch is not installed, so ours stands alone: `pip install glassformer[parity]`"]
    answer = json.loads(bench_train(*arguments, "--json", before=WITHOUT_TORCH).stdout.splitlines()[-1])
    (row,) = answer["presets"]
    assert answer["torch"] is row["best"] is row["ratio"] is None
    assert row["peers_ms"] == {}
    assert row["ours_ms"] > 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("vit-nno",), 1, "bench train: 'vit-nno' is not compared (did you mean 'vit-nano'?); known: attention-pool, "),
        (("mlp",), 1, "bench train: 'mlp' is not compared; known: attention-pool, "),
        (("--rounds", "0"), 2, "Invalid value for '--rounds'"),
        (("--steps", "0"), 2, "Invalid value for '--steps'"),
    ],
)
def test_mistakes_get_a_message(arguments: tuple[str, ...], code: int, message: str) -> None:
    result = bench_train(*arguments)
    assert result.returncode == code
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_the_help_shows_an_example() -> None:
    assert "Example: glassformer bench train attention-pool" in bench_train("--help").stdout


def result(**peers_ms: float) -> training.Result:
    return training.Result("vit-pico", batch=32, ours_ms=2.0, peers_ms=peers_ms, compile_s={})


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
