"""Weights in several files, in half precision, with tied heads; and what is said of each that is bad."""

from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from glassformer.errors import CheckpointError
from glassformer.hub import roberta
from glassformer.hub.folder import read_folder, write_folder
from glassformer.hub.run import write_run
from glassformer.models import BERTFor, MaskedHead
from glassformer.predict.run import load
from glassformer.train.recipe import Recipe
from glassformer.train.run_folder import RunFolder
from glassformer.train.tasks import TASKS
from glassformer.train.weights import types_in

from .builders import MODELS, build, drawn, tensors_of, write_json

KINDS = ("masked", "llama", "mistral", "qwen2", "qwen3", "roberta", "distilbert", "deit", "teacher")
TABLES = ("position_embeddings.weight", "position_embeddings", "model.embed_tokens.weight")
NARROW = np.dtype(ml_dtypes.bfloat16)
INDEX = "model.safetensors.index.json"
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def sharded(path: Path, kind: str, changes: dict[str, Any] | None = None, **config: Any) -> Path:
    """The first tensors in bfloat16, the others in float16, with an index."""
    tensors = tensors_of(kind) | (changes or {})
    names = sorted(tensors)
    half = len(names) // 2
    (build(path, kind, **config) / "model.safetensors").unlink()
    save_file({name: tensors[name].astype(ml_dtypes.bfloat16) for name in names[:half]}, path / FIRST)
    save_file({name: tensors[name].astype(np.float16) for name in names[half:]}, path / SECOND)
    places = dict.fromkeys(names[:half], FIRST) | dict.fromkeys(names[half:], SECOND)
    write_json(path / INDEX, {"metadata": {"total_size": 1}, "weight_map": places})
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_shards_in_half_precision_are_widened(kind: str, tmp_path: Path) -> None:
    found = read_folder(sharded(tmp_path, kind))
    assert [note for note in found.notes if note.endswith("here")] == [
        "bfloat16 in the file, float32 here",
        "float16 in the file, float32 here",
    ]
    assert {leaf.dtype for leaf in jax.tree.leaves(found.params)} == {np.dtype(np.float32)}
    there = {**load_file(tmp_path / FIRST), **load_file(tmp_path / SECOND)}
    write_folder(tmp_path / "out", found.model, found.params, classes=found.classes)
    for name, value in load_file(tmp_path / "out/model.safetensors").items():
        np.testing.assert_array_equal(value, there[name].astype(np.float32), strict=True)


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_stays(kind: str, tmp_path: Path) -> None:
    """`import --precision bf16`: bit for bit what lies in the file, at half the size; what was wider is rounded."""
    given = {name: value.astype(NARROW) for name, value in tensors_of(kind).items()}
    save_file(given, build(tmp_path / "in", kind) / "model.safetensors")
    found = read_folder(tmp_path / "in", dtype="bfloat16")
    assert found.precision == "bf16"
    assert not [note for note in found.notes if note.endswith("here")]
    assert {leaf.dtype for leaf in jax.tree.leaves(found.params)} == {NARROW}
    write_run(tmp_path / "run", found)
    recipe, run = RunFolder(tmp_path / "run").recipe(), load(tmp_path / "run")
    assert recipe.engine.precision == "bf16"
    assert types_in(tmp_path / "run/model.safetensors") == {"BF16"}
    wide = read_folder(tmp_path / "in").params
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b, strict=True), run.params, wide)
    write_folder(tmp_path / "out", found.model, run.params, classes=found.classes, dtype="bfloat16")
    after = load_file(tmp_path / "out/model.safetensors")
    assert {name: value.tobytes() for name, value in given.items()} == {name: after[name].tobytes() for name in after}


def test_what_is_wider_is_rounded_to_bfloat16(tmp_path: Path) -> None:
    found = read_folder(build(tmp_path / "in", "llama"), dtype="bfloat16")
    assert found.notes[0] == "float32 in the file, bfloat16 here (rounded)"
    exact = read_folder(tmp_path / "in").params
    jax.tree.map(np.testing.assert_array_equal, found.params, jax.tree.map(lambda leaf: leaf.astype(NARROW), exact))
    headed = read_folder(build(tmp_path / "head", "roberta"), architecture=roberta.CLASSES, dtype="bfloat16")
    assert {leaf.dtype for leaf in jax.tree.leaves(headed.params)} == {NARROW}  # the new head too
    recipe = Recipe(model=found.model, task=TASKS["next-token"](), data="")  # and nobody else's weights may be
    RunFolder(tmp_path / "run").save_model(recipe, found.params, (), 0)
    with pytest.raises(
        CheckpointError, match=r"model\.safetensors: 'embed\.emb' is bfloat16, the model expects float32"
    ):
        RunFolder(tmp_path / "run").load_model(recipe)


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert"])
def test_a_tied_head_is_not_in_the_file(kind: str, tmp_path: Path) -> None:
    bert = MODELS[kind].bert
    for tied in True, False:
        model = BERTFor(bert, MaskedHead(6, 11, tied, bert.eps))
        params = drawn(model)
        folder = tmp_path / f"{kind} {tied}"
        write_folder(folder, model, params)
        names = set(load_file(folder / "model.safetensors"))
        assert any(name.endswith(("decoder.weight", "vocab_projector.weight")) for name in names) is not tied
        found = read_folder(folder)
        assert found.model == model
        jax.tree.map(np.testing.assert_array_equal, found.params, params)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lost", [FIRST, SECOND])
def test_a_missing_shard(kind: str, lost: str, tmp_path: Path) -> None:
    (sharded(tmp_path, kind) / lost).unlink()
    with pytest.raises(CheckpointError, match=f"{lost} is missing, which {INDEX} names; copy it again"):
        read_folder(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_shard(kind: str, tmp_path: Path) -> None:
    file = sharded(tmp_path, kind) / SECOND
    good = file.read_bytes()
    for bad in (good[:-2], good[:20], b"", good + b"\0\0", b"\xff" * 8 + good[8:], good.replace(b"F16", b"F99", 1)):
        file.write_bytes(bad)
        with pytest.raises(CheckpointError, match=f"{SECOND}: damaged, cut short or not a safetensors file"):
            read_folder(tmp_path)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (
            "masked",
            {"intermediate_size": 8},
            r"intermediate.dense.weight' has shape \(7, 6\), the settings say \(8, 6\)",
        ),
        ("roberta", {"max_position_embeddings": 12}, r"position_embeddings.weight' has shape \(11, 6\), .* \(12, 6\)"),
        (
            "roberta",
            {"type_vocab_size": 1},
            r"token_type_embeddings.weight' has shape \(3, 6\), the settings say \(1, 6\)",
        ),
        ("distilbert", {"hidden_dim": 8}, r"ffn.lin1.weight' has shape \(7, 6\), the settings say \(8, 6\)"),
        ("llama", {"vocab_size": 12}, r"'model.embed_tokens.weight' has shape \(11, 6\), the settings say \(12, 6\)"),
        ("llama", {"num_key_value_heads": 3}, r"k_proj.weight' has shape \(2, 6\), the settings say \(6, 6\)"),
        ("llama", {"head_dim": 4}, r"q_proj.weight' has shape \(6, 6\), the settings say \(12, 6\)"),
        ("llama", {"attention_bias": True}, "'model.layers.0.self_attn.q_proj.bias' is missing"),
        ("llama", {"tie_word_embeddings": False}, "'lm_head.weight' is missing"),
        ("mistral", {"intermediate_size": 8}, r"gate_proj.weight' has shape \(7, 6\), the settings say \(8, 6\)"),
        ("mistral", {"num_hidden_layers": 2}, "'model.layers.1.self_attn.q_proj.weight' is missing"),
        ("qwen2", {"hidden_size": 4}, r"embed_tokens.weight' has shape \(11, 8\), the settings say \(11, 4\)"),
        (
            "qwen2",
            {"model_type": "llama", "architectures": ["LlamaForCausalLM"]},
            r"'model.layers.0.self_attn.\w_proj.bias' has no place in Llama",
        ),
        (
            "mistral",
            {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]},
            "'model.layers.0.self_attn.q_norm.weight' is missing",
        ),
        ("qwen3", {"num_attention_heads": 3}, r"q_proj.weight' has shape \(8, 6\), the settings say \(12, 6\)"),
        ("deit", {"image_size": 8}, r"position_embeddings' has shape \(1, 4, 6\), the settings say \(1, 6, 6\)"),
        ("deit", {"num_labels": 3, "id2label": {"0": "a"}}, r"classifier.weight' has shape \(3, 6\), .* \(1, 6\)"),
        ("deit", {"architectures": ["DeiTForImageClassificationWithTeacher"]}, "'cls_classifier.weight' is missing"),
        ("distilbert", {"n_layers": 2}, r"'distilbert.transformer.layer.1.attention.q_lin.weight' is missing"),
    ],
    ids=str,
)
def test_shapes_that_contradict_the_settings(kind: str, changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_folder(sharded(tmp_path, kind, **changes))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_tensors_that_are_not_finite(kind: str, value: float, tmp_path: Path) -> None:
    tensors = tensors_of(kind)
    names = [name for name in tensors if name.endswith(TABLES)]
    tensors[names[0]][..., 1, 2] = value
    folder = sharded(tmp_path, kind, {names[0]: tensors[names[0]]})
    with pytest.raises(CheckpointError, match=rf"1 of \d+ tensors hold values that are not finite.*{names[0]}; copy"):
        read_folder(folder)
