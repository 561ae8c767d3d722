"""States of a run on a mesh: written whole by orbax, read onto another mesh, and never taken when they are damaged."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer.errors import CheckpointError, TrainingError
from glassformer.train import fit, loop
from glassformer.train.loop import InterruptedRunError, Loop
from glassformer.train.recipe import Recipe
from glassformer.train.run_folder import RunFolder
from glassformer.train.sharded_state import ShardedStates, checksums_of, steps_of
from glassformer.train.weights import load_arrays

from .small import Stop, small_data, small_recipe

pytest.importorskip("orbax.checkpoint")


def on_mesh(kind: str = "sgd", **training: Any) -> Recipe:
    recipe = small_recipe(kind, **training)
    return replace(recipe, engine=replace(recipe.engine, name="jax", mesh="data=1"))


def tree(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"w": jnp.asarray(rng.normal(size=(40, 30)), jnp.float32), "count": jnp.asarray(seed, jnp.int32)}


def like(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), tree)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A run folder with three states, of which two are kept."""
    states = ShardedStates(tmp_path)
    for step in (0, 10, 20):
        states.save(step, tree(step), {"at": step})
    states.wait()
    return tmp_path


def loaded(folder: Path) -> tuple[Any, int, list[str]]:
    said: list[str] = []
    state, about = ShardedStates(folder).load(like(tree(0)), said.append)
    return state, about["at"], said


def test_a_state_comes_back_to_the_bit(saved: Path) -> None:
    state, at, said = loaded(saved)
    assert steps_of(saved) == [20, 10]
    assert at == 20
    assert said == []
    for name, leaf in tree(20).items():
        np.testing.assert_array_equal(state[name], leaf)


def test_one_that_was_not_finished_is_not_seen(saved: Path) -> None:
    (saved / "state" / "20").rename(saved / "state" / "20.orbax-checkpoint-tmp")
    assert steps_of(saved) == [10]
    assert loaded(saved)[1:] == (10, [])


def largest(folder: Path) -> Path:
    return max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)


def damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(content if how == "flipped" else content[:-1000])


@pytest.mark.parametrize("how", ["flipped", "cut", "gone"])
def test_the_state_before_a_damaged_one_is_taken(saved: Path, how: str) -> None:
    damage(largest(saved / "state" / "20"), how)
    state, at, (said,) = loaded(saved)
    assert at == 10
    np.testing.assert_array_equal(state["w"], tree(10)["w"])
    assert f"{saved / 'state' / '20'}: damaged (" in said
    assert said.endswith("); the state before it is taken")
    assert steps_of(saved) == [10]  # and the step can be written again
    states = ShardedStates(saved)
    states.save(20, tree(20), {"at": 20})
    states.wait()
    assert loaded(saved)[1:] == (20, [])


def test_where_all_are_damaged_nothing_is_taken(saved: Path) -> None:
    for step in (10, 20):
        (saved / "state" / str(step) / "about" / "metadata").write_text("{}")
    with pytest.raises(
        CheckpointError,
        match=r"state: none of its 2 states can be read .its list of arrays is incomplete.*; bring back a copy",
    ):
        loaded(saved)
    assert steps_of(saved) == [20, 10]  # else it would look like a run that has not begun


def test_the_state_of_another_model_is_refused_by_name(saved: Path) -> None:
    other = {**tree(0), "w": jnp.zeros((40, 31))}
    with pytest.raises(CheckpointError, match=r"20: 'w' has shape \(40, 30\), the model expects \(40, 31\)"):
        ShardedStates(saved).load(like(other), print)
    assert steps_of(saved) == [20, 10]  # nothing is wrong with it


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "bool", "uint8"])
def test_a_checksum_sees_every_bit_and_every_place(dtype: str) -> None:
    one = np.random.default_rng(0).integers(0, 2, (6, 4))
    changed, signs = one.copy(), np.where(one, -1, 1)
    changed[2, 3] = 1 - one[2, 3]

    def checksum(array: np.ndarray) -> int:
        return checksums_of({"w": jnp.asarray(array, dtype)})["w"]

    assert checksum(one) == checksum(one.copy())
    assert checksum(one) not in [checksum(changed), checksum(one[::-1]), checksum(one[:, ::-1])]
    assert dtype in ("bool", "uint8") or checksum(np.abs(signs)) != checksum(signs)


def test_without_orbax_a_run_on_a_mesh_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "orbax", None)
    monkeypatch.setitem(sys.modules, "orbax.checkpoint", None)
    with pytest.raises(TrainingError, match=r"orbax-checkpoint, which is missing; pip install 'glassformer\[scale\]'"):
        fit.train(on_mesh(), small_data(), tmp_path / "run", loop.Listener())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", ["sgd", "xorshift"])
def test_a_run_on_a_mesh_goes_on_to_the_bit(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, data = on_mesh(kind), small_data()
    plain = replace(recipe, engine=replace(recipe.engine, mesh=""))
    fit.train(plain, data, tmp_path / "plain", loop.Listener())
    monkeypatch.setattr(loop, "LARGE", 0 if kind == "xorshift" else loop.LARGE)  # all is written meanwhile
    with pytest.raises(InterruptedRunError):
        fit.train(recipe, data, tmp_path / "stopped", Stop(1))
    assert not (tmp_path / "stopped" / "state.safetensors").exists()
    assert not (tmp_path / "stopped" / "model.safetensors").exists()
    with pytest.raises(CheckpointError, match="weights come with the end of the first epoch"):
        RunFolder(tmp_path / "stopped").load_model(recipe)
    fit.resume(tmp_path / "stopped", data=data)
    assert_same_model(tmp_path / "plain", tmp_path / "stopped")


def assert_same_model(one: Path, other: Path) -> None:
    arrays, others = (load_arrays(path / "model.safetensors")[0] for path in (one, other))
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name], err_msg=name)


def test_a_run_leaves_its_mesh_and_takes_another(tmp_path: Path) -> None:
    recipe, data = on_mesh(epochs=3), small_data()
    plain = replace(recipe, engine=replace(recipe.engine, mesh=""))
    fit.train(plain, data, tmp_path / "plain", loop.Listener())
    run = tmp_path / "run"
    with pytest.raises(InterruptedRunError):
        fit.train(recipe, data, run, Stop(2))
    with pytest.raises(InterruptedRunError):
        fit.resume(run, Stop(1), data=data, mesh="")
    assert (run / "state.safetensors").exists()
    assert not (run / "state").exists()
    fit.resume(run, data=data, mesh="data=1")
    assert not (run / "state.safetensors").exists()
    assert steps_of(run)
    assert_same_model(tmp_path / "plain", run)


def test_weights_that_were_being_written_when_it_was_killed_are_written_again(tmp_path: Path) -> None:
    recipe, data = on_mesh(epochs=2), small_data()
    folder = RunFolder(tmp_path / "run")
    with folder.locked():
        stopped = Loop(recipe, data, folder, loop.Listener())
        stopped.begin()
        stopped.run_epoch()
        stopped.wait()
    before = load_arrays(tmp_path / "run" / "model.safetensors")[0]
    (tmp_path / "run" / "model.safetensors").unlink()
    with folder.locked():
        Loop(recipe, data, folder, loop.Listener()).resume()
    after = load_arrays(tmp_path / "run" / "model.safetensors")[0]
    assert all((array == after[name]).all() for name, array in before.items())
