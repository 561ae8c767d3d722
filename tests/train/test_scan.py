"""`engine.scan`: the same losses, weights and files as without it, and a clear word where it cannot be."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.errors import EngineError, SettingError, TrainingError
from glassformer.models import MLP
from glassformer.train import fit
from glassformer.train.engines import choose
from glassformer.train.loop import InterruptedRunError, Listener
from glassformer.train.optimiser import Group, Optimiser
from glassformer.train.recipe import Engine, Recipe
from glassformer.train.resolve import resolved
from glassformer.train.settings import with_changes
from glassformer.train.weights import load_arrays

from .small import Stop, assert_same_run, small_data, small_recipe
from .small_texts import ready, small_text_recipe

OPTIMISER = Optimiser(
    name="adamw", lr=0.01, weight_decay=0.1, decay="matrices", clip=1.0, groups=(Group("blocks.*.w_q", 0.5),)
)


def trained(recipe: Recipe, out: Path, *, scan: bool, data: Any = None, listener: Listener | None = None) -> Path:
    recipe = replace(recipe, engine=Engine(name="jax", scan=scan))
    fit.train(recipe, data or small_data(), out, listener or Listener())
    return out


def assert_close_run(one: Path, other: Path) -> None:
    for name in ("model.safetensors", "state.safetensors"):
        arrays, others = load_arrays(one / name)[0], load_arrays(other / name)[0]
        assert arrays.keys() == others.keys()
        for key, array in arrays.items():
            if "b_k" not in key:  # its gradient is 0 but for rounding, which Adam makes large
                np.testing.assert_allclose(array, others[key], atol=2e-5, rtol=0, err_msg=key)


def test_files_are_the_same(tmp_path: Path) -> None:
    """Weight decay of matrices, groups and clipping see the blocks one by one; dropout draws what it would."""
    recipe = with_changes(small_recipe("adamw", ema=0.5), ["model.depth=2", "model.dropout=0.2"])
    recipe = resolved(replace(recipe, optimiser=OPTIMISER), small_data())
    unrolled, scanned = (trained(recipe, tmp_path / str(scan), scan=scan) for scan in (False, True))
    assert "state.params.blocks.1.attn.w_q" in load_arrays(scanned / "state.safetensors")[0]
    assert_close_run(unrolled, scanned)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt", "llama", "masked", "t5"])
def test_texts_train_alike(kind: str, tmp_path: Path) -> None:
    changes = [f"model.{'bert.' if kind == 'masked' else ''}depth=2"]
    recipe, data = ready(small_text_recipe(kind, epochs=1))
    recipe = with_changes(recipe, changes)
    assert_close_run(*(trained(recipe, tmp_path / str(scan), scan=scan, data=data) for scan in (False, True)))


def test_a_run_that_was_stopped_goes_on_to_the_bit(tmp_path: Path) -> None:
    recipe, data = ready(with_changes(small_text_recipe("gpt"), ["model.depth=2"]))
    trained(recipe, tmp_path / "whole", scan=True, data=data)
    with pytest.raises(InterruptedRunError):
        trained(recipe, tmp_path / "stopped", scan=True, data=data, listener=Stop(1))
    fit.resume(tmp_path / "stopped", data=data)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.slow
def test_a_scanned_run_goes_on_unrolled(tmp_path: Path) -> None:
    recipe, data = ready(with_changes(small_text_recipe("gpt"), ["model.depth=2"]))
    trained(recipe, tmp_path / "whole", scan=True, data=data)
    with pytest.raises(InterruptedRunError):
        trained(recipe, tmp_path / "stopped", scan=True, data=data, listener=Stop(1))
    written = tmp_path / "stopped" / "recipe.toml"
    written.write_text(written.read_text().replace("scan = true", "scan = false"))
    fit.resume(tmp_path / "stopped", data=data)
    assert_close_run(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.slow
def test_what_is_not_finite_is_told_by_block(tmp_path: Path) -> None:
    recipe = with_changes(small_recipe("adamw"), ["model.depth=2", "optimiser.name=sgd", "optimiser.lr=1e30"])
    with pytest.raises(TrainingError, match=r"the parameter \S+ is not finite|such value is blocks\.\d"):
        trained(recipe, tmp_path / "run", scan=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": MLP(hidden=(7,))}, r"engine\.scan: the blocks of MLP are no Stack"),
        ({"optimiser": Optimiser(name="lamb")}, r"goes with sgd, momentum, adam, adamw, and the optimiser is lamb"),
        ({"optimiser": Optimiser(freeze=("blocks.0.*",))}, r"all blocks are trained as one, and optimiser\.groups"),
    ],
)
def test_what_cannot_be_scanned_is_said(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    recipe = with_changes(small_recipe("adamw"), ["model.depth=2"])
    recipe = resolved(replace(recipe, **changes), small_data())
    with pytest.raises(SettingError, match=message):
        trained(recipe, tmp_path / "run", scan=True)
    assert not (tmp_path / "run").exists()


def test_one_run_alone_is_scanned(tmp_path: Path) -> None:
    recipe = with_changes(small_recipe("adamw"), ["engine.scan=true", "engine.name=jax"])
    with pytest.raises(
        SettingError, match=r"engine\.scan: it is for one run, and 2 seeds came; set engine\.scan=false"
    ):
        fit.train_many(recipe, small_data(), tmp_path / "run", (1, 2), Listener())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("engine.scan=true", "the native engine compiles no program that could be scanned"),
        ("engine.precision=bf16", "the native engine computes in float32"),
    ],
)
def test_what_the_native_engine_leaves_to_jax(change: str, message: str) -> None:
    recipe, train, heard = with_changes(small_recipe("vit"), [change]), small_data().train, list[str]()
    assert choose(recipe, train, heard.append).name == "jax"
    assert [line.startswith(f"engine jax: {message}") for line in heard] == [True]
    with pytest.raises(EngineError, match=message):
        choose(with_changes(recipe, ["engine.name=native"]), train, heard.append)
