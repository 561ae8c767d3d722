"""Training on a mesh of eight simulated devices. Run by test_mesh.py, in a process of its own that has them."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from tests.collectives import Collective, collectives
from tests.train.small import small_data, small_recipe

from glassformer.layers import BandedAttention, BlockwiseAttention, LinearAttention, Rotary, ScaledRotary, attention
from glassformer.layers.contract import param_shapes
from glassformer.layers.rope_scaling import YarnScaling
from glassformer.losses import HeadAndLoss
from glassformer.models import BERT, GPT, Llama, Text, ViT
from glassformer.models.bert import BERTFor
from glassformer.models.bert_heads import MaskedHead
from glassformer.models.images import Images
from glassformer.predict.run import load
from glassformer.shapes import Static
from glassformer.train import fit, gradient
from glassformer.train.jax_engine import JaxEngine, loss_of_batch, take_step
from glassformer.train.limits import bytes_of
from glassformer.train.mesh_report import mesh_report
from glassformer.train.optimiser import Optimiser
from glassformer.train.placement import letters_of, parse_mesh
from glassformer.train.recipe import Engine, Recipe, Training
from glassformer.train.stream_engine import StreamEngine, crops
from glassformer.train.tasks import Masked, NextToken
from glassformer.train.tasks.masked import Rows
from glassformer.train.tasks.next_token import Stream

VOCABULARY, TOKENS, BATCH = 256, 12, 8
SIZES: dict[str, Any] = {"width": 32, "hidden": 48, "heads": 4}
TEXT = Text(vocabulary=VOCABULARY, context=TOKENS)
MODELS = {
    "gpt": GPT(TEXT, **SIZES, depth=1, dropout=0.1),
    "llama": Llama(
        TEXT,
        width=32,
        hidden=48,
        heads=8,
        key_heads=4,
        depth=1,
        head_norm=True,
        bias="qkv",
        window=5,
        rotary=ScaledRotary(YarnScaling(4.0, context=6)),
    ),
    "bert": BERTFor(BERT(TEXT, **SIZES, depth=1, dropout=0.1), MaskedHead(32, VOCABULARY)),
    "vit": ViT(Images((8, 8, 1), 3), **SIZES, patch_size=2, depth=1),
}
TASKS = {"gpt": NextToken(), "llama": NextToken(), "bert": Masked(), "vit": Recipe().task}
MESHES = ("data=8", "fsdp=8", "data=2,model=4", "data=2,fsdp=2,model=2")


def samples(kind: str) -> Any:
    rng = np.random.default_rng(0)
    ids = rng.integers(0, VOCABULARY, (4 * BATCH, TOKENS)).astype(np.int32)
    if kind in ("gpt", "llama"):
        return Stream(np.append(ids.ravel(), ids[0, :1]), Static(TOKENS))
    if kind == "bert":
        keep = np.arange(TOKENS) < rng.integers(4, TOKENS + 1, (4 * BATCH, 1))
        return Rows(ids, keep, Static(1), Static(VOCABULARY))
    return small_data(4 * BATCH).train


def recipe_of(kind: str, mesh: str, model: Any = None, *, scan: bool = False) -> Recipe:
    return Recipe(
        model=model or MODELS[kind],
        task=TASKS[kind],
        training=Training(batch=BATCH, ema=0.9),
        optimiser=Optimiser(name="adamw", lr=0.01, clip=1.0),
        engine=Engine(name="jax", mesh=mesh, scan=scan),
    )


def random_params(model: Any) -> Any:
    """No zeros and ones, which hide mistakes."""
    params = model.init(jax.random.key(0))
    leaves, tree = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    noise = [leaf + 0.1 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    return jax.tree.unflatten(tree, noise)


@cache
def gradient_of(kind: str, mesh: str, model: Any = None, *, scan: bool = False) -> tuple[float, Any, list[Collective]]:
    """Loss and gradient of a batch, and what the program that computes them sends."""
    recipe = recipe_of(kind, mesh, model, scan=scan)
    engine = JaxEngine(recipe, samples(kind), (1,))
    params = engine.place(random_params(recipe.model))
    batches = engine.batches([np.arange(engine.count)], 1)
    program = jax.jit(lambda params, batches: loss_of_batch(recipe, params, batches, 0)[:2])
    with jax.set_mesh(engine.placement.mesh) if engine.placement else jax.default_device(jax.devices()[0]):
        compiled = program.lower(params, batches).compile()
    loss, dparams = compiled(params, batches)
    return float(loss), jax.device_get(dparams), collectives(compiled.as_text() or "")


def assert_as_on_one_device(kind: str, mesh: str, model: Any = None, *, scan: bool = False) -> list[Collective]:
    alone, dalone, nothing = gradient_of(kind, "", model, scan=scan)
    loss, dparams, sent = gradient_of(kind, mesh, model, scan=scan)
    assert not nothing
    assert abs(loss - alone) < 1e-5
    largest = max(np.abs(leaf).max() for leaf in jax.tree.leaves(dalone))
    for one, other in zip(*map(jax.tree.leaves, (dalone, dparams)), strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-5 * largest)
    return sent


def of_activations(sent: list[Collective], kind: str) -> list[Collective]:
    """Floats with an axis of tokens; a weight has none."""
    return [one for one in sent if one.kind == kind and any(len(shape) > 2 for _, shape in one.arrays)]


def gathered(sent: list[Collective]) -> set[tuple[int, ...]]:
    """The shapes of the floats that are gathered."""
    arrays = [array for one in sent if one.kind == "all-gather" for array in one.arrays]
    return {shape for dtype, shape in arrays if dtype in ("f32", "bf16")}


def of_weights(kind: str, mesh: str) -> set[tuple[int, ...]]:
    """The shapes of what a layer has of a parameter while it is at work."""
    placement = recipe_of(kind, mesh).placement
    assert placement is not None
    params = param_shapes(MODELS[kind])
    leaves = zip(*map(jax.tree.leaves, (params, letters_of(params))), strict=True)
    parts = [(leaf.shape, placement.sharding(placement.at_use(letters, leaf.shape))) for leaf, letters in leaves]
    return {sharding.shard_shape(shape) for shape, sharding in parts}


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("kind", MODELS)
def test_losses_and_gradients_are_those_of_one_device(kind: str, mesh: str) -> None:
    sent = assert_as_on_one_device(kind, mesh)
    assert sent
    assert gathered(sent) <= (of_weights(kind, mesh) if "fsdp" in mesh else set())
    assert not [one for one in sent if one.kind in ("all-to-all", "collective-permute")]


@pytest.mark.parametrize("kind", MODELS)
def test_data_the_gradients_are_reduced_once(kind: str) -> None:
    sent = [one for one in gradient_of(kind, "data=8")[2] if one.bytes > 64]  # without the sums of the loss
    gradients = bytes_of(param_shapes(MODELS[kind]))
    tied = 0 if kind == "vit" else 4 * VOCABULARY * SIZES["width"]  # XLA for CPUs reduces both its gradients
    assert [one.kind for one in sent] == ["all-reduce"]
    assert gradients <= sum(one.bytes for one in sent) <= gradients + tied + 64


def test_model_only_what_sums_over_a_split_axis_is_sent() -> None:
    """The table of `info --mesh` is what the compiled program does."""
    recipe = recipe_of("gpt", "model=4")
    _, _, sent = gradient_of("gpt", "model=4")
    assert {one.kind for one in sent} == {"all-reduce"}
    table = {one.what: one.bytes for one in mesh_report(recipe, "model=4").traffic}
    ring = 2 * 3 / 4
    reduced = sum(one.bytes for one in of_activations(sent, "all-reduce"))
    assert reduced == pytest.approx(sum(table.values()) / ring, rel=0.05)  # the loss reduces a few numbers a token


@pytest.mark.parametrize(
    ("mesh", "parts", "rest"),
    [("fsdp=2", 2, 0.01), ("fsdp=8", 8, 0.01), ("fsdp=4,model=2", 8, 0.05)],  # a bias has one axis, for one of both
)
def test_fsdp_bytes_of_the_state_fall_as_1_over_n(mesh: str, parts: int, rest: float) -> None:
    recipe = recipe_of("gpt", mesh, GPT(TEXT, width=64, hidden=256, heads=4, depth=1))
    engine = JaxEngine(recipe, samples("gpt"), (1,))
    state = engine.start(recipe.model.init(jax.random.key(0)))
    for _ in range(2):  # at first, and after steps
        here = sum(leaf.addressable_shards[0].data.nbytes for leaf in jax.tree.leaves(state))
        assert here == pytest.approx(bytes_of(state) / parts, rel=rest)
        assert here == mesh_report(recipe, mesh).state
        state, _ = engine.run(state, engine.batches([np.arange(engine.count)], 1), 0, 2)


def test_fsdp_weights_are_gathered_in_forward_and_again_in_backward() -> None:
    _, _, sent = gradient_of("gpt", "fsdp=8")
    gathered = [shape for one in sent if one.kind == "all-gather" for _, shape in one.arrays]
    weights = [leaf.shape for leaf in jax.tree.leaves(param_shapes(MODELS["gpt"]))]
    assert {shape: gathered.count(shape) / weights.count(shape) for shape in {*weights} if len(shape) > 1} == {
        (VOCABULARY, SIZES["width"]): 1,  # its gradient needs no table
        (TOKENS, SIZES["width"]): 1,
        (SIZES["width"], SIZES["width"]): 2,
        (SIZES["width"], SIZES["hidden"]): 2,
        (SIZES["hidden"], SIZES["width"]): 2,
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"attend": BlockwiseAttention(block=5)},
        {"attend": BandedAttention(), "window": 3, "global_tokens": 1},
        {"attend": LinearAttention(block=5)},
        {"rotary": Rotary(), "checkpoint": True, "tied": False},
    ],
    ids=("blockwise", "banded", "linear", "rotary"),
)
def test_batch_and_heads_stay_apart_in_every_way_to_attend(changes: dict[str, Any]) -> None:
    model = replace(GPT(TEXT, **SIZES, depth=1), **changes)
    sent = assert_as_on_one_device("gpt", "data=2,model=4", model)
    assert not of_activations(sent, "all-gather")


def test_key_heads_that_do_not_divide_are_whole() -> None:
    """Two of them serve eight heads of q on four devices."""
    model = replace(MODELS["llama"], key_heads=2, tied=False)
    on = {row.name: row.on for row in mesh_report(recipe_of("llama", "", model), "model=4").rows}
    assert (on["blocks.*.attn.w_k"], on["blocks.*.ff.w_gate"]) == ((None, None), (None, "model"))
    assert_as_on_one_device("llama", "data=2,model=4", model)


def test_scanned_llama() -> None:
    assert_as_on_one_device("llama", "data=2,fsdp=2,model=2", replace(MODELS["llama"], depth=2), scan=True)


def test_scanned_each_block_gathers_its_own_weights() -> None:
    sent = assert_as_on_one_device("gpt", "fsdp=4,model=2", GPT(TEXT, **SIZES, depth=3), scan=True)
    gathered = [one for one in sent if one.kind == "all-gather"]
    inside = [one for one in gathered if "while/body" in one.where]
    assert inside
    assert max(one.bytes for one in inside) == 4 * SIZES["width"] * SIZES["hidden"] // 2  # w_up of one block
    assert not [one for one in gathered if any(shape[:1] == (3,) for _, shape in one.arrays)]  # of all three


def test_joined_batch_and_heads_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "is_sharded", lambda: False)
    _, _, sent = gradient_of("gpt", "data=2,model=4", GPT(TEXT, **SIZES, depth=1))
    assert of_activations(sent, "all-gather")


def test_head_and_loss_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradient, "LARGE", 1)
    monkeypatch.setattr(gradient, "HeadAndLoss", lambda: HeadAndLoss(piece=5))
    model = GPT(TEXT, **SIZES, depth=1)
    sent = assert_as_on_one_device("gpt", "data=2,fsdp=2,model=2", model)
    assert not of_activations(sent, "all-gather")
    table = (VOCABULARY // 2, SIZES["width"])
    reduced = [one for one in sent if one.kind == "all-reduce" and ("f32", table) in one.arrays]
    assert reduced
    assert not [one for one in reduced if "loss/while" in one.where]  # once, not for each piece


@pytest.mark.parametrize("mesh", ["data=8", "data=4,model=2"])
def test_every_device_reads_its_own_rows_of_a_step(mesh: str) -> None:
    recipe = replace(recipe_of("gpt", mesh), training=Training(batch=BATCH, accumulate=2, steps=4, score_every=4))
    engine = StreamEngine(recipe, samples("gpt"), (3,))
    rows, whole = engine.rows(1000), crops(samples("gpt").ids, 3, 1000, 2 * BATCH, TOKENS + 1)
    parts = parse_mesh(mesh)["data"]
    for shard in rows.addressable_shards:
        assert shard.data.shape == (2 * BATCH / parts, TOKENS + 1)
        np.testing.assert_array_equal(shard.data, whole[shard.index])
    state, epoch = engine.start(random_params(recipe.model)), engine.batches([], 1)
    program = jax.jit(lambda *given: take_step(recipe, engine.optimiser, given[0], engine.of_step(*given[1:]), 0))
    assert engine.placement is not None
    with jax.set_mesh(engine.placement.mesh):
        sent = collectives(program.lower(state, rows, epoch.keys, 0).compile().as_text() or "")
    integers = [one for one in sent if one.arrays[0][0] != "f32"]
    assert [(one.kind, one.arrays) for one in integers] == [("all-gather", (("s32", whole.shape),))]  # and no others


def test_a_run_ends_with_whole_weights(tmp_path: Path) -> None:
    """With shifts, dropout, accumulated gradients, scores and a checkpoint, as on one device."""
    recipe = replace(small_recipe("adamw", epochs=1, batch=16, accumulate=2), model=replace(MODELS["vit"], dropout=0.1))
    losses = []
    for name, mesh in (("one", ""), ("mesh", "data=2,fsdp=2,model=2")):
        there = replace(recipe, engine=Engine(name="jax", mesh=mesh))
        fit.run_recipe(there, small_data(), lambda recipe: recipe, out=tmp_path / name)
        rows = (tmp_path / name / "log.csv").read_text().splitlines()[1:]
        losses.append([float(row.split(",")[1]) for row in rows])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)
    one, other = (load(tmp_path / name) for name in ("one", "mesh"))
    assert jax.tree.map(np.shape, one.params) == jax.tree.map(np.shape, other.params)
