"""The PyTorch side of the GPU benchmark is our model and our recipe; without a GPU the benchmark says so."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.bench.gpu_training import OURS, TORCH, Contest, Result, Setting, autodiff, ours, pytorch
from glassformer.errors import EngineError
from glassformer.train import jax_engine
from glassformer.train.recipe import Recipe


def small(precision: str) -> Recipe:
    recipe = Setting("gpt2-124m", batch=2, context=16, precision=precision, total=20).recipe
    model: Any = recipe.model
    text = replace(model.text, vocabulary=128)
    return replace(recipe, model=replace(model, text=text, width=16, hidden=32, heads=2, depth=2))


@pytest.mark.parametrize(("precision", "most"), [("float32", 2e-5), pytest.param("bf16", 2e-3, marks=pytest.mark.slow)])
def test_both_sides_have_the_same_losses(precision: str, most: float, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    recipe = small(precision)
    curves = [np.array(side(recipe, tmp_path)[0](8)) for side in (ours, pytorch)]
    assert np.abs(curves[0] - curves[1]).max() < most
    assert curves[0][-1] < curves[0][0] - 0.01  # the rates of both have risen


@pytest.mark.slow
def test_autodiff_is_the_other_way_to_the_same_losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax_engine, "loss_and_gradient", jax_engine.loss_and_gradient)  # it is put back
    curves = [np.array(side(small("float32"), tmp_path / side.__name__)[0](3)) for side in (ours, autodiff)]
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-6)


def test_without_a_gpu_it_says_so() -> None:
    contest = Contest(Setting("gpt2-124m"), steps=1, sides=(OURS,))
    with pytest.raises(EngineError, match="gpt2-124m is compared on a GPU, and JAX has none here"):
        list(contest.run(1))


@pytest.mark.slow
def test_two_processes_take_turns() -> None:
    pytest.importorskip("torch")
    contest = Contest(Setting("gpt-nano", batch=2, context=16, precision="float32", total=100, place="cpu"), steps=2)
    assert list(contest.run(2)) == [0, 1, 2]
    result = contest.result()
    assert [len(curve) for curve in result.losses.values()] == [6, 6]
    assert result.difference is not None
    assert result.difference < 2e-3  # gpt-nano shrinks all its parameters, PyTorch's side the matrices
    assert result.tokens == 32


def test_what_is_said_of_a_result() -> None:
    result = Result(
        setting=Setting("gpt2-124m"),
        tokens=32768,
        step_ms={OURS: 50.0, TORCH: 60.0},
        compile_s={OURS: 10.0, TORCH: 30.0},
        memory={OURS: 10, TORCH: 12},
        mfu={OURS: 0.5},
        device="a GPU",
        losses={OURS: [3.0, 2.0, 1.5], TORCH: [3.0, 2.125]},
    )
    plain = json.loads(json.dumps(result.plain()))
    assert (plain["ratio"], plain["difference"], plain["tokens_per_s"][OURS]) == (1.2, 0.125, 655360.0)
