"""A mesh of devices: what lies where, what is refused, and (in a process of its own) training on eight of them."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from tests.train.small import small_data, small_recipe

from glassformer import registry
from glassformer.errors import SettingError
from glassformer.layers.contract import param_shapes
from glassformer.layers.layout import in_order
from glassformer.models import BERT, GPT, Llama, Text, ViT
from glassformer.shapes import Array, Float
from glassformer.train import fit
from glassformer.train.mesh_report import mesh_report
from glassformer.train.optimiser import Optimiser
from glassformer.train.placement import Placement, head_widths, letters_of, parse_mesh
from glassformer.train.recipe import Engine, Recipe, Training
from glassformer.train.settings import with_changes

HERE = Path(__file__).parent
EIGHT = "--xla_force_host_platform_device_count=8"
SMALL_LLAMA = Llama(
    Text(256, 8), 16, 24, heads=4, key_heads=2, head_width=6, depth=2, bias="qkv", head_norm=True, tied=False
)
SMALL = GPT(Text(vocabulary=256, context=8), width=16, hidden=24, heads=4, depth=2)


@pytest.mark.slow
def test_on_eight_devices() -> None:
    """One process for all of it: devices are counted when JAX begins."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} {EIGHT}"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "eight_devices.py"]
    done = subprocess.run(
        command, env=os.environ | {"XLA_FLAGS": flags}, cwd=HERE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def placed(model: Any, mesh: str) -> dict[str, Any]:
    return {row.name: row.on for row in mesh_report(Recipe(model=model, training=Training(batch=8)), mesh).rows}


def test_where_parameters_lie_follows_from_the_letters() -> None:
    on = placed(SMALL, "data=2,fsdp=2,model=2")
    assert on["embed.emb"] == ("model", "fsdp")
    assert on["blocks.*.attn.w_q"] == ("fsdp", "model")
    assert on["blocks.*.attn.w_o"] == ("model", "fsdp")
    assert on["blocks.*.attn.b_q"] == ("model",)
    assert on["blocks.*.ff.w_down"] == ("model", "fsdp")
    assert on["blocks.*.norm1.gain"] == ("fsdp",)
    assert set(placed(SMALL, "data=8").values()) == {(None,), (None, None)}


def test_an_axis_that_does_not_divide_is_whole() -> None:
    on = placed(replace(SMALL, heads=2), "model=4")  # A = 16 divides by 4, two heads do not
    assert on["blocks.*.attn.w_q"] == (None, None)
    assert on["blocks.*.ff.w_up"] == (None, "model")
    report = mesh_report(Recipe(model=replace(SMALL, text=Text(vocabulary=257, context=8))), "model=2")
    assert "does not divide, so whole on every device: embed.emb over model" in report.table()
    assert placed(BERT(Text(vocabulary=256, context=8), width=16, hidden=24, heads=4, depth=1), "model=2")[
        "segment.emb"
    ] == (None, None)  # two rows


class Lettered(NamedTuple):
    w: Float[Array, "C F"]


class Unlettered(NamedTuple):
    w: Any


def test_a_layer_of_ones_own_is_placed_by_its_letters_and_whole_without() -> None:
    placement = Placement("fsdp=2,model=2", parse_mesh("fsdp=2,model=2"))
    params = {"own": Lettered(jnp.zeros((4, 6))), "other": Unlettered(jnp.zeros((4, 6))), "bare": jnp.zeros(4)}
    letters = letters_of(params)
    assert placement.stored(letters["own"].w, (4, 6)) == P("fsdp", "model")
    assert placement.at_use(letters["own"].w, (4, 6)) == P(None, "model")
    assert placement.stored(letters["other"].w, (4, 6)) == P(None, None)
    assert placement.stored(letters["own"].w, (3, 4, 6)) == P(None, "fsdp", "model")  # of three layers, stacked


def test_every_parameter_of_every_model_has_letters() -> None:
    for name in registry.names("model"):
        cls: Any = registry.find("model", name)
        try:
            params = param_shapes(cls())
        except TypeError:  # it has no defaults
            continue
        without = [letters for letters in jax.tree.leaves(letters_of(params)) if not letters]
        assert not without, name


def test_heads_are_as_wide_as_the_structure_says() -> None:
    assert head_widths(SMALL) == (4,)
    assert head_widths(ViT(width=12, heads=3, hidden=8)) == (4,)
    assert head_widths(SMALL_LLAMA) == (6,)


def test_where_the_parameters_of_a_llama_lie() -> None:
    on = placed(SMALL_LLAMA, "data=2,fsdp=2,model=2")
    assert on["embed.emb"] == on["head.emb"] == ("model", "fsdp")
    assert {on[f"blocks.*.attn.w_{part}"] for part in "qkv"} == {("fsdp", "model")}
    assert {on[f"blocks.*.attn.b_{part}"] for part in "qkv"} == {("model",)}
    assert on["blocks.*.attn.w_o"] == on["blocks.*.ff.w_down"] == ("model", "fsdp")
    assert on["blocks.*.ff.w_gate"] == on["blocks.*.ff.w_up"] == ("fsdp", "model")
    assert on["blocks.*.attn.norm_q.gain"] == (None,)  # one for all heads


def test_no_layout_is_asked_for_on_a_mesh(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA's partitioner gathers what has one."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")

    def asked(x: Any) -> bool:
        return "layout_constraint" in str(jax.make_jaxpr(lambda x: in_order(x))(x))

    assert asked(jnp.zeros((2, 3)))
    with jax.set_mesh(jax.make_mesh((1,), ("data",), axis_types=(AxisType.Auto,))):
        assert not asked(jnp.zeros((2, 3)))


def test_what_is_sent_in_a_step() -> None:
    """On paper: GPT of one block, C = 16, in float32."""
    recipe = Recipe(model=replace(SMALL, depth=1), training=Training(batch=8), optimiser=Optimiser(name="adamw"))
    weights = 4 * sum(leaf.size for leaf in jax.tree.leaves(param_shapes(recipe.model)))
    (data,) = mesh_report(recipe, "data=4").traffic
    assert data.bytes == round(2 * 3 / 4 * weights)
    gathered, scattered = mesh_report(recipe, "fsdp=4").traffic[-2:]
    assert gathered.bytes == 2 * scattered.bytes
    (y, dx) = mesh_report(recipe, "data=4,model=2").traffic[1:]
    stream = 4 * 8 / 4 * 8 * 16  # bytes of the residual stream of 2 samples of 8 tokens
    assert y.bytes == round(3 * stream)  # embedding, w_o, w_down
    assert dx.bytes == round(5 * stream)  # head, w_up, w_q, w_k, w_v
    half = replace(recipe, engine=Engine(precision="bf16"))
    assert mesh_report(half, "data=4,model=2").traffic[1].bytes == y.bytes / 2
    report = mesh_report(recipe, "fsdp=4")
    assert report.state < report.whole / 3.9


@pytest.mark.parametrize(
    ("mesh", "message"),
    [
        ("dta=2", r"'dta' is no axis of a mesh \(did you mean 'data'\?\); expected data, fsdp, model"),
        ("data=2,data=4", "data came twice"),
        ("data=two", "data is 'two', expected a number of devices from 1, such as data=4,model=2"),
        ("data", "data is ''"),
        ("data=0", "data is '0'"),
    ],
)
def test_a_mesh_that_is_none_is_refused(mesh: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        with_changes(Recipe(), [f"engine.mesh={mesh}"])


def on(mesh: str, **settings: Any) -> Recipe:
    return replace(small_recipe("sgd", **settings), engine=Engine(name="jax", mesh=mesh))


def test_too_few_devices_are_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"data=64 needs 64 devices, and there are .*device_count=64 before"):
        fit.run_recipe(on("data=64"), small_data(), lambda recipe: recipe, out=tmp_path / "run")


def test_a_batch_that_does_not_divide_is_refused() -> None:
    with pytest.raises(
        SettingError, match=r"data=4 splits a batch into 4 parts, and training\.batch is 6; try --batch 8"
    ):
        mesh_report(on("", batch=6), "data=4")


def test_several_seeds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="data=1 is for one run, and 2 seeds came"):
        fit.run_recipe(on("data=1"), small_data(), lambda recipe: recipe, out=tmp_path / "run", seeds=(1, 2))


def test_the_native_engine_has_no_mesh() -> None:
    with pytest.raises(SettingError, match="the native engine computes on one CPU; take --engine jax"):
        with_changes(Recipe(), ["engine.name=native", "engine.mesh=data=2"])


def test_a_mesh_of_one_device_is_one_device(tmp_path: Path) -> None:
    """Also with `auto`, which would have taken the native engine."""
    recipe = replace(small_recipe("momentum"), engine=Engine(mesh="data=1"))
    result = fit.run_recipe(recipe, small_data(), lambda recipe: recipe, out=tmp_path / "run")
    assert result["engine"] == "jax"
