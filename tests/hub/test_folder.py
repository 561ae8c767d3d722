"""What is read of a folder that came from elsewhere, and what is said of one that is damaged, hostile or not for us."""

import json
import os
import resource
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from glassformer.data.tokeniser import Tokeniser
from glassformer.data.tokeniser_training import Characters
from glassformer.errors import CheckpointError, DataError, FileError, GlassformerError, SettingError, ShapeError
from glassformer.hub import bert, distilbert, gpt2, roberta, safe_files, vit
from glassformer.hub.folder import read_folder, write_folder
from glassformer.layers import Attention, BlockwiseAttention, LinearAttention, ReLU
from glassformer.models import MLP, BERTFor, ClassHead, MaskedHead, ViT
from glassformer.train.tasks import Embed

from .builders import (
    DISTILLED,
    MODELS,
    READER,
    build,
    build_shards,
    drawn,
    halves,
    raw_safetensors,
    tensors_of,
    write_json,
)

LLAMAS = ("llama", "mistral", "qwen2", "qwen3")
NO_FILE = "no tokeniser: the model takes and gives the numbers of symbols"


def equal(one: Any, other: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b, strict=True), one, other)


@pytest.mark.parametrize("kind", MODELS)
def test_there_and_back(kind: str, tmp_path: Path) -> None:
    model, params = MODELS[kind], drawn(MODELS[kind])
    classes = ("cat", "dog", "Löwe") if kind not in ("gpt2", *LLAMAS, "masked", "t5") else ()
    write_folder(tmp_path / "out", model, params, classes=classes)
    found = read_folder(tmp_path / "out")
    assert found.model == model
    assert found.classes == classes
    assert found.notes == ([] if kind in ("vit", "deit", "teacher") else [NO_FILE])
    equal(found.params, jax.tree.map(np.asarray, params))
    with safe_open(tmp_path / "out/model.safetensors", framework="numpy") as file:
        assert file.metadata() == {"format": "pt"}


def test_a_folder_that_holds_a_model_is_not_written_to(tmp_path: Path) -> None:
    build(tmp_path)
    before = (tmp_path / "config.json").read_text()
    with pytest.raises(FileError, match=r"holds a model already .*choose another folder"):
        write_folder(tmp_path, MODELS["t5"], drawn(MODELS["t5"]))
    assert (tmp_path / "config.json").read_text() == before


def test_models_without_a_counterpart_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"MLP has no counterpart .*BERTFor, GPT, Llama, T5, ViT"):
        write_folder(tmp_path, MLP(), None)
    mean = ViT()
    with pytest.raises(SettingError, match="reads a class token; a model that averages"):
        write_folder(tmp_path, mean, drawn(mean))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"model_type": None},
            SettingError,
            "model_type: is missing, supported: gpt2, llama, .*, qwen3, bert, roberta, .*, vit, deit",
        ),
        ({"model_type": "gpt3"}, SettingError, r"model_type: 'gpt3' came \(did you mean 'gpt2'\?\), supported"),
        ({"model_type": ["gpt2"]}, SettingError, r"model_type: \['gpt2'\] came"),
        ({"n_embd": None}, SettingError, "n_embd: is missing, and has no usual value"),
        ({"n_embd": "6"}, SettingError, "n_embd: '6' came, expected a whole number from 1 to"),
        ({"n_embd": 6.0}, SettingError, "n_embd: 6.0 came, expected a whole number"),
        ({"n_layer": True}, SettingError, "n_layer: True came, expected a whole number"),
        ({"n_layer": 0}, SettingError, "n_layer: 0 came, expected a whole number from 1"),
        ({"n_positions": [9]}, SettingError, r"n_positions: \[9\] came"),
        ({"vocab_size": 10**12}, SettingError, "vocab_size: 1000000000000 came, expected .* to 16,777,216"),
        ({"n_embd": 10**7}, SettingError, "n_embd: 10000000 came, expected .* to 262,144"),
        ({"n_layer": 10**6}, SettingError, "n_layer: 1000000 came"),
        ({"vocab_size": 1 << 24}, CheckpointError, r"'transformer.wte.weight' has shape \(11, 6\), .* \(16777216, 6\)"),
        ({"n_embd": 1 << 18}, CheckpointError, r"'transformer.wte.weight' has shape \(11, 6\), .* \(11, 262144\)"),
        ({"n_inner": 1 << 18}, CheckpointError, r"'transformer.h.0.mlp.c_fc.weight' has shape"),
        ({"n_layer": 1 << 10}, CheckpointError, "'transformer.h.1.ln_1.weight' is missing"),
        ({"n_head": 4}, ShapeError, "width 6 does not divide into 4 heads"),
        ({"layer_norm_epsilon": "small"}, SettingError, "layer_norm_epsilon: 'small' came, expected a number from 0"),
        ({"layer_norm_epsilon": float("nan")}, SettingError, "layer_norm_epsilon: nan came"),
        ({"resid_pdrop": -1}, SettingError, "resid_pdrop: -1 came, expected a number from 0 to 1"),
        ({"tie_word_embeddings": "yes"}, SettingError, "tie_word_embeddings: 'yes' came, expected true or false"),
        ({"activation_function": 3}, SettingError, "activation_function: 3 came, expected a word"),
        ({"activation_function": "swish"}, SettingError, "activation_function: 'swish' came"),
        ({"architectures": "GPT2"}, SettingError, "architectures: 'GPT2' came, expected a list"),
        ({"architectures": ["GPT2ForTokens"]}, SettingError, "architecture: 'GPT2ForTokens' came, known: GPT2LMHead"),
    ],
    ids=str,
)
def test_settings_that_cannot_be(changes: dict[str, Any], error: type[Exception], message: str, tmp_path: Path) -> None:
    build(tmp_path, **changes)
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with pytest.raises(error, match=message) as raised:
        read_folder(tmp_path)
    assert str(raised.value).startswith(str(tmp_path / "config.json"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB: nothing was allocated
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("bert", {"id2label": {"0": "a", "2": "c"}}, "id2label: class 1 of 2 has no name"),
        ("bert", {"id2label": ["a", "b", "c"]}, "id2label: .* came, expected the name of each class by number"),
        ("bert", {"id2label": {"0": 1, "1": 2, "2": 3}}, "id2label: class 0 of 3 has no name"),
        ("bert", {"hidden_size": 10**12}, "hidden_size: 1000000000000 came"),
        ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type: 'relative_key' came, only"),
        ("bert", {"architectures": ["BertForMultipleChoice"]}, "architecture: 'BertForMultipleChoice' came"),
        ("llama", {"mlp_bias": True}, "mlp_bias: True came, only False is supported"),
        (
            "llama",
            {"quantization_config": {"bits": 4}},
            "quantization_config: {'bits': 4} came, only None is supported",
        ),
        ("llama", {"hidden_act": "swish"}, "hidden_act: 'swish' came"),
        ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor: 0.5 came, only 1.0 is supported"),
        ("llama", {"rope_theta": -1}, "rope_theta: -1 came, expected a number above 0"),
        (
            "llama",
            {"rope_scaling": {"type": "longrope"}},
            "rope_type: 'longrope' came, known: default, linear, dynamic",
        ),
        ("llama", {"rope_scaling": {"type": "linear"}}, "rope_scaling.factor: is missing, and has no usual value"),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 0.5}}, "factor 0.5 came, expected 1 or more"),
        (
            "llama",
            {"rope_scaling": {"mrope_section": [1]}},
            r"rope_scaling.mrope_section: \[1\] came, which rope of type",
        ),
        (
            "llama",
            {"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "beta_fast": 0.5}},
            "expected 0 < slow < fast",
        ),
        ("llama", {"rope_scaling": [1]}, r"rope_scaling: \[1\] came, expected settings by name"),
        ("qwen3", {"use_sliding_window": True, "layer_types": ["a", "b"]}, "layer_types: .*only blocks of one kind"),
        ("qwen3", {"architectures": ["Qwen3Model"]}, "architecture: 'Qwen3Model' came, known: Qwen3ForCausalLM"),
        ("llama", {"num_hidden_layers": 0}, "num_hidden_layers: 0 came, expected a whole number from 1"),
        ("llama", {"vocab_size": 10**9}, "vocab_size: 1000000000 came, expected a whole number from 1 to 16,777,216"),
        ("llama", {"architectures": ["LlamaForSequenceClassification"]}, "came, known: LlamaForCausalLM"),
        ("mistral", {"sliding_window": 0}, "sliding_window: 0 came, expected a whole number from 1"),
        ("qwen2", {"attention_dropout": 2}, "attention_dropout: 2 came, expected a number from 0 to 1"),
        ("deit", {"architectures": ["DeiTForMaskedImageModeling"]}, "architecture: 'DeiTForMaskedImageModeling' came"),
        ("deit", {"hidden_act": "relu"}, "hidden_act: 'relu' came, only 'gelu' is supported"),
        ("roberta", {"pad_token_id": 11}, "pad_token_id: 11 came, expected a symbol of the vocabulary, 0 to 10"),
        ("roberta", {"pad_token_id": -1}, "pad_token_id: -1 came, expected a whole number from 0 to"),
        ("roberta", {"max_position_embeddings": 2}, "max_position_embeddings: 2 came, expected more than 2: positions"),
        ("roberta", {"is_decoder": True}, "is_decoder: True came, only False is supported"),
        (
            "roberta",
            {"architectures": ["RobertaForCausalLM"]},
            "architecture: 'RobertaForCausalLM' came, known|did you",
        ),
        ("distilbert", {"dim": None}, "dim: is missing"),
        ("distilbert", {"activation": "swish"}, "activation: 'swish' came"),
        ("distilbert", {"architectures": ["DistilBertForMultipleChoice"]}, "'DistilBertForMultipleChoice' came"),
        ("t5", {"d_kv": 10**9}, "d_kv: 1000000000 came"),
        ("t5", {"feed_forward_proj": "gated-swish"}, "feed_forward_proj: 'swish' came"),
        ("t5", {"architectures": ["T5EncoderModel"]}, "architecture: 'T5EncoderModel' came, known: T5ForCondition"),
        ("vit", {"qkv_bias": False}, "qkv_bias: False came, only True is supported"),
        ("vit", {"hidden_act": "relu"}, "hidden_act: 'relu' came, only 'gelu' is supported"),
        ("vit", {"patch_size": [4, 2]}, "patch_size: 4 x 2 came, only square patches are supported"),
        ("vit", {"image_size": [8, 4, 2]}, r"image_size: \[8, 4, 2\] came, expected a whole number"),
        ("vit", {"image_size": 10**9}, "image_size: 1000000000 came"),
        ("vit", {"architectures": ["ViTModel"]}, "architecture: 'ViTModel' came, known: ViTForImageClassification"),
    ],
    ids=str,
)
def test_settings_of_the_others(kind: str, changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=message):
        read_folder(build(tmp_path, kind, **changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bias": True, "window": 3}, "mistral has no biases such as bias = True"),
        ({"bias": "qkv", "head_norm": True}, "qwen3 has no biases such as bias = 'qkv'"),
        ({"window": 3, "global_tokens": 1}, "no global tokens"),
        ({"attend": LinearAttention()}, "no linear attention"),
    ],
    ids=str,
)
def test_llamas_without_a_counterpart(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    model = replace(MODELS["llama"], **changes)
    with pytest.raises(SettingError, match=message):
        write_folder(tmp_path, model, drawn(model))


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("llama", {"num_attention_heads": 4, "head_dim": None}, "width 6, 4 heads and 1 key heads do not divide"),
        ("qwen2", {"num_key_value_heads": 3}, "width 8, 4 heads and 3 key heads do not divide; expected key heads"),
        ("mistral", {"head_dim": 3}, "heads of width 3 have no halves; expected an even width"),
        (
            "llama",
            {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
            "dynamic rope scaling: heads of width 2 have one pair, expected 4 or more",
        ),
        ("roberta", {"num_attention_heads": 4}, "width 6 does not divide into 4 heads"),
        ("distilbert", {"n_heads": 4}, "width 6 does not divide into 4 heads"),
        ("deit", {"num_attention_heads": 5}, "width 6 does not divide into 5 heads"),
    ],
    ids=str,
)
def test_heads_that_do_not_divide(kind: str, changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match=rf"config\.json: .*{message}"):
        read_folder(build(tmp_path, kind, **changes))


def test_positions_begin_behind_the_symbol_that_pads(tmp_path: Path) -> None:
    """In a RoBERTa: a tokeniser that pads with another one would shift them."""
    own = Characters().train(["abc"])
    assert own.id_of("pad") == 0
    message = "pad_token_id: the tokeniser pads with 0, the model with 1, behind which its positions begin"
    (build(tmp_path / "in", "roberta") / "tokenizer.json").write_text(own.to_json())
    with pytest.raises(SettingError, match=rf"config\.json: {message}"):
        read_folder(tmp_path / "in")
    model = MODELS["roberta"]
    with pytest.raises(SettingError, match=message):
        write_folder(tmp_path / "out", model, drawn(model), tokeniser_json=own.to_json())
    assert not (tmp_path / "out").exists()
    model = replace(model, bert=replace(model.bert, first_position=1))
    write_folder(tmp_path / "out", model, drawn(model), tokeniser_json=own.to_json())
    assert read_folder(tmp_path / "out").model == model


def test_an_image_that_does_not_divide(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match=r"config.json: patches: an image of 9x4 does not divide into patches of 4x4"):
        read_folder(build(tmp_path, "vit", image_size=[9, 4]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", r"config.json: damaged or cut short: not JSON"),
        (b"", "damaged or cut short: not JSON"),
        (b"[1, 2]", r"config.json: \[1, 2\] came, expected settings by name"),
        (b'{"a": "\xff"}', "config.json: damaged: not UTF-8 text"),
        (b"[" * 100_000, "damaged or cut short: not JSON"),
        (b'{"a": ' + b"[" * 90 + b"]" * 90 + b"}", "config.json: more than 64 brackets within brackets"),
        (b'{"vocab_size": 1' + b"0" * 5000 + b"}", "damaged or cut short: not JSON"),
        (b" " * 3000, "config.json: is larger than 0 MiB, which no such file needs to be"),
    ],
)
def test_a_config_that_is_none(content: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if content.startswith(b" "):
        monkeypatch.setattr(safe_files, "MOST_JSON", 2000)
    (build(tmp_path) / "config.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        read_folder(tmp_path)


def test_no_folder_and_no_config(tmp_path: Path) -> None:
    with pytest.raises(
        FileError, match=r"there is no such folder\. A model of the hub is downloaded first: hf download"
    ):
        read_folder(tmp_path / "bert-base-uncased")
    with pytest.raises(CheckpointError, match=r"not a Hugging Face folder, it has no config\.json"):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], r"has no weights: neither model\.safetensors nor model\.safetensors\.index\.json$"),
        (["pytorch_model.bin"], "a pickle, which can run code and is not read; .*save it again, with save_pretrained"),
        (["pytorch_model.bin.index.json"], "is a pickle"),
        (["tf_model.h5"], r"has no weights: .*; tf_model\.h5 is not read: load it with transformers and save it again"),
    ],
)
def test_without_safetensors(names: list[str], message: str, tmp_path: Path) -> None:
    (build(tmp_path) / "model.safetensors").unlink()
    for name in names:
        (tmp_path / name).write_bytes(b"cos\nsystem\n(S'touch broken'\ntR.")
    with pytest.raises(CheckpointError, match=message):
        read_folder(tmp_path)


def test_damaged_weights_are_an_error_and_nothing_else(tmp_path: Path) -> None:
    file = build(tmp_path) / "model.safetensors"
    good = file.read_bytes()
    draw = np.random.default_rng(0)
    for length in (0, 7, 8, 100, len(good) - 1):
        file.write_bytes(good[:length])
        with pytest.raises(CheckpointError, match=r"model\.safetensors: damaged, cut short or not a safetensors file"):
            read_folder(tmp_path)
    header = int.from_bytes(good[:8], "little") + 8
    refused = 0
    for _ in range(60):
        at, bit = int(draw.integers(header)), 1 << int(draw.integers(8))
        file.write_bytes(good[:at] + bytes([good[at] ^ bit]) + good[at + 1 :])
        try:
            read_folder(tmp_path)
        except GlassformerError:
            refused += 1
    assert refused > 50  # a few names of spare metadata may change unseen


@pytest.mark.parametrize("shape", [[1 << 40, 1 << 40], [1 << 62], [11, 6]])
def test_a_header_that_promises_more_than_there_is(shape: list[int], tmp_path: Path) -> None:
    entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, 16]}
    file = build(tmp_path) / "model.safetensors"
    file.write_bytes(raw_safetensors({"transformer.wte.weight": entry}, bytes(16)))
    with pytest.raises(CheckpointError, match="damaged, cut short or not a safetensors file"):
        read_folder(tmp_path)


def test_types_of_numbers(tmp_path: Path) -> None:
    build(tmp_path)
    file, good = tmp_path / "model.safetensors", tensors_of("gpt2")
    for kind, note in (
        (np.float16, "float16 in the file, float32 here"),
        (ml_dtypes.bfloat16, "bfloat16 in the file, float32 here"),
        (np.float64, "float64 in the file, float32 here (rounded)"),
    ):
        there = {name: value.astype(kind) for name, value in good.items()}
        save_file(there, file)
        found = read_folder(tmp_path)
        assert found.notes == [note, NO_FILE]
        for name, value in gpt2.to_tensors(found.model, found.params).items():
            np.testing.assert_array_equal(value, there[name].astype(np.float32), strict=True)
    save_file(good | {"transformer.wte.weight": good["transformer.wte.weight"].astype(np.int8)}, file)
    with pytest.raises(CheckpointError, match=r"'transformer.wte.weight' is of type I8, expected F64, F32, F16, BF16"):
        read_folder(tmp_path)


def test_shards_are_one_model(tmp_path: Path) -> None:
    whole = read_folder(build(tmp_path / "whole"))
    parts = read_folder(build_shards(tmp_path / "parts", *halves()))
    assert parts.model == whole.model
    equal(parts.params, whole.params)


@pytest.mark.parametrize(
    "name", ["../1.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", "C:\\x", "a\\b", "\0"]
)
def test_shards_lie_in_the_folder(name: str, tmp_path: Path) -> None:
    folder = build_shards(tmp_path / "model", *halves(), **{"transformer.wte.weight": name})
    save_file(halves()[0], tmp_path / "1.safetensors")
    with pytest.raises(CheckpointError, match="came as the name of a file, expected a plain one inside it"):
        read_folder(folder)


@pytest.mark.parametrize("name", ["config.json", "1.safetensors", "model.safetensors.index.json", "tokenizer.json"])
def test_links_do_not_lead_out(name: str, tmp_path: Path) -> None:
    folder = build_shards(tmp_path / "model", *halves())
    elsewhere = tmp_path / "elsewhere"
    if (folder / name).exists():
        (folder / name).rename(elsewhere)
    else:
        elsewhere.write_text("{}")
    (folder / name).symlink_to("../elsewhere")
    with pytest.raises(CheckpointError, match=f"{name}: leads out of the folder, to {elsewhere}; copy the file itself"):
        read_folder(folder)
    (folder / name).unlink()
    (folder / name).symlink_to(name)
    with pytest.raises(CheckpointError, match=f"{name}: cannot be reached"):
        read_folder(folder)


def test_links_inside_and_into_the_cache_of_downloads(tmp_path: Path) -> None:
    (tmp_path / "snapshots").mkdir()
    folder = build(tmp_path / "snapshots" / "0123")
    expected = read_folder(folder)
    (tmp_path / "blobs").mkdir()
    for name in "config.json", "model.safetensors":
        (folder / name).rename(tmp_path / "blobs" / name[:3])
        (folder / name).symlink_to(f"../../blobs/{name[:3]}")
    equal(read_folder(folder).params, expected.params)
    (tmp_path / "link").symlink_to(folder)
    equal(read_folder(tmp_path / "link").params, expected.params)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    (build(tmp_path) / "config.json").unlink()
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(CheckpointError, match=r"config\.json: is not a file"):
        read_folder(tmp_path)


def test_shards_that_do_not_belong_together(tmp_path: Path) -> None:
    first, second = halves()
    name, value = next(iter(first.items()))
    cases: list[tuple[Path, str]] = [
        (build_shards(tmp_path / "a", first, second, extra="3.safetensors"), "3.safetensors is missing, which"),
        (build_shards(tmp_path / "b", first, second, extra="2.safetensors"), "'extra' is not in it, where"),
        (build_shards(tmp_path / "c", first, second | {name: value}), f"'{name}' is in 1.safetensors as well"),
        (build_shards(tmp_path / "d", first, second, **{name: "2.safetensors"}), f"'{name}' is not in it, where"),
    ]
    cut = build_shards(tmp_path / "e", first, second)
    (cut / "2.safetensors").write_bytes((cut / "2.safetensors").read_bytes()[:-1])
    cases.append((cut, "2.safetensors: damaged, cut short or not a safetensors file"))
    spare = build_shards(tmp_path / "f", first, second)
    save_file(second | {"spare": value}, spare / "2.safetensors")
    cases.append((spare, "2.safetensors: the tensor 'spare' is not in model.safetensors.index.json"))
    for content in ([], {"1": 2}, {}, None, "x"):
        index = build_shards(tmp_path / f"g{len(cases)}", first, second)
        write_json(index / "model.safetensors.index.json", {"weight_map": content})
        cases.append((index, "weight_map is .*, expected the file of each tensor by name"))
    for folder, message in cases:
        with pytest.raises(CheckpointError, match=message):
            read_folder(folder)


def test_heads_of_bert(tmp_path: Path) -> None:
    """Both of pretraining, gamma and beta, no prefix and no head: one reader."""
    plain = read_folder(build(tmp_path / "masked", "masked"))
    others = {"bert.pooler.dense.weight": np.ones((6, 6), np.float32), "bert.pooler.dense.bias": np.ones(6, np.float32)}
    folder = build(tmp_path / "both", "masked", architectures=["BertForPreTraining"])
    save_file(tensors_of("masked") | others, folder / "model.safetensors")
    both = read_folder(folder)
    equal(both.params, plain.params)
    assert both.notes[0] == "left out, of other heads: bert.pooler.dense.bias, bert.pooler.dense.weight"

    body = {name: value for name, value in tensors_of("masked").items() if not name.startswith("cls.")} | others
    folder = build(tmp_path / "none", "masked", architectures=["BertModel"])
    save_file({name.removeprefix("bert."): value for name, value in body.items()}, folder / "model.safetensors")
    encoder = read_folder(folder)
    assert (encoder.model, encoder.task) == (plain.model.bert, Embed())
    equal(encoder.params, plain.params.bert)
    assert encoder.notes[0] == both.notes[0]
    assert encoder.notes[1].startswith("no modules.json that says how to pool: the mean over the tokens")
    with pytest.raises(SettingError, match=r"'BertForTags' came \(did you mean"):
        read_folder(folder, architecture="BertForTags")
    found = read_folder(folder, architecture=bert.NEXT)
    assert found.notes[0] == "new, to be trained before use: cls.seq_relationship.weight, cls.seq_relationship.bias"
    assert found.classes == bert.NEXT_CLASSES
    equal(found.params.bert, plain.params.bert)
    equal(found.params.head.pool.w, others["bert.pooler.dense.weight"].T)

    save_file(body, build(tmp_path / "lost", "masked") / "model.safetensors")
    with pytest.raises(
        SettingError, match=r"head of BertForMaskedLM is not in the file: cls.predictions.*ask for a new"
    ):
        read_folder(tmp_path / "lost")
    with pytest.raises(
        SettingError, match="architecture: 'BertForMaskedLM' came for gpt2; only bert, roberta, distilbert have heads"
    ):
        read_folder(build(tmp_path / "gpt"), architecture=bert.MASKED)


def test_a_tensor_in_two_spellings_is_not_guessed(tmp_path: Path) -> None:
    folder, tensors = build(tmp_path, "bert"), tensors_of("bert")
    twice = {"bert.embeddings.LayerNorm.gamma": np.zeros(6, np.float32)}
    save_file(tensors | twice, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"'bert.embeddings.LayerNorm.weight' is there twice, once as .*gamma"):
        read_folder(folder)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (0.5, 0.5)),
        ({"image_mean": [0.1] * 3, "image_std": [0.2] * 3}, (0.1, 0.2)),
        ({"do_normalize": False}, (0.0, 1.0)),
        ({"image_mean": [0.4, 0.5, 0.6], "image_std": [0.1, 0.2, 0.3]}, ((0.4, 0.5, 0.6), (0.1, 0.2, 0.3))),
        ({"image_mean": [0.4, 0.5, 0.6]}, ((0.4, 0.5, 0.6), 0.5)),
        ({"do_rescale": False, "image_mean": 127.5, "image_std": 51}, (0.5, 0.2)),
    ],
    ids=str,
)
def test_how_pixels_are_spread(given: dict[str, Any], expected: tuple[Any, Any], tmp_path: Path) -> None:
    write_json(build(tmp_path, "vit") / "preprocessor_config.json", given)
    images = read_folder(tmp_path).model.images
    assert images.mean == pytest.approx(expected[0], rel=1e-12)
    assert images.std == pytest.approx(expected[1], rel=1e-12)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"image_std": [0.5, 0.5, 0.0]}, r"image_std: \[0.5, 0.5, 0.0\] came, expected a number above 0"),
        ({"image_std": 0}, "image_std: 0 came, expected a number above 0"),
        ({"image_mean": "grey"}, "image_mean: 'grey' came, expected a number for each channel"),
        ({"rescale_factor": -1}, "rescale_factor: -1 came"),
        ({"do_rescale": "no"}, "do_rescale: 'no' came, expected true or false"),
    ],
    ids=str,
)
def test_pixels_that_cannot_be_prepared(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    write_json(build(tmp_path, "vit") / "preprocessor_config.json", given)
    with pytest.raises(SettingError, match=rf"preprocessor_config\.json: {message}"):
        read_folder(tmp_path)


def test_without_a_word_on_pixels(tmp_path: Path) -> None:
    found = read_folder(build(tmp_path, "vit"))
    assert found.notes == ["no preprocessor_config.json: pixels are taken from 0 to 1, neither shifted nor scaled"]
    assert (found.model.images.mean, found.model.images.std) == (0, 1)
    assert vit.model_from(vit.config_of(MODELS["vit"])) == found.model


def test_what_is_dropped_out_otherwise_is_said(tmp_path: Path) -> None:
    found = read_folder(build(tmp_path, attn_pdrop=0.1, resid_pdrop=0.2, embd_pdrop=0.3))
    assert found.notes[:1] == ["in training only: embd_pdrop is 0.3 there and 0.2 here"]
    assert (found.model.dropout, found.model.attend) == (0.2, Attention(dropout=0.1))
    assert gpt2.config_of(found.model)["attn_pdrop"] == 0.1


@pytest.mark.parametrize(
    ("module", "model"), [(gpt2, MODELS["gpt2"]), (bert, READER), (vit, MODELS["vit"])], ids=["gpt2", "bert", "vit"]
)
def test_what_published_models_do_not_have_is_refused(module: Any, model: Any) -> None:
    """What is dropped of the attention weights is written; a window, or linear attention, has no place to be."""
    dropping = replace(model, attend=Attention(dropout=0.25))
    assert module.model_from(module.config_of(dropping)) == dropping
    module.config_of(replace(model, attend=BlockwiseAttention(), checkpoint=True))
    with pytest.raises(SettingError, match="the published models have no linear attention"):
        module.config_of(replace(model, attend=LinearAttention()))
    with pytest.raises(SettingError, match="the published models have no window; a model with a window of 3 has no"):
        module.config_of(replace(model, window=3))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (replace(READER, pooler=ReLU()), "have Tanh in their pooler; a model with ReLU"),
        (replace(DISTILLED, eps=1e-5), "is a DistilBERT there: with eps=1e-12, ReLU .*; one with 1e-05, ReLU"),
        (replace(READER, segments=0), "one with 1e-12, Tanh, positions from 0 has no place"),
        (BERTFor(DISTILLED, ClassHead(6, classes=3)), "a class head with Tanh came, and the model's pooler has ReLU"),
        (BERTFor(READER, MaskedHead(6, 11, activation=ReLU())), "a masked head with ReLU.* came; there it has GELU"),
    ],
    ids=["pooler", "eps", "segments", "class head", "masked head"],
)
def test_encoders_without_a_place(model: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=message):
        write_folder(tmp_path, model, drawn(model))
    assert list(tmp_path.iterdir()) == []


def test_what_trains_otherwise_in_encoders_is_said(tmp_path: Path) -> None:
    spans = build(tmp_path / "spans", "distilbert", qa_dropout=0.1, sinusoidal_pos_embds=True)
    notes = read_folder(spans, architecture=distilbert.SPANS).notes
    assert notes[0] == "in training only: qa_dropout is 0.1 there and 0 here"
    assert notes[1].startswith("in training only: positions learn here")
    classes = build(tmp_path / "classes", "roberta", classifier_dropout=0.2)
    notes = read_folder(classes, architecture=roberta.CLASSES).notes
    assert notes[0].startswith("in training only: the class head drops out of the first token there")


def test_tokenizer_json(tmp_path: Path) -> None:
    own = Characters().train(["abc"])
    (build(tmp_path) / "tokenizer.json").write_text(own.to_json())
    found = read_folder(tmp_path)
    assert found.notes == []
    assert found.tokeniser_json is not None
    assert Tokeniser.from_json(found.tokeniser_json, "test").encode("cab") == own.encode("cab")
    write_folder(tmp_path / "out", found.model, found.params, tokeniser_json=found.tokeniser_json)
    config = json.loads((tmp_path / "out/tokenizer_config.json").read_text())
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert (config["bos_token"], config["eos_token"], config["model_max_length"]) == ("<start>", "<end>", 9)
    special = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    assert json.loads((tmp_path / "out/generation_config.json").read_text()) == special
    assert special.items() <= json.loads((tmp_path / "out/config.json").read_text()).items()
    (tmp_path / "tokenizer.json").write_text(Characters().train(["abcdefgh"]).to_json())
    assert read_folder(tmp_path).notes == ["the tokeniser has 2 symbols more than the model, which cannot be used"]


WORD_FILE = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nhello\nHello\nwor\n##ld\n"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"tokenizer.json": "{"}, "tokenizer.json: damaged or cut short"),
        ({"tokenizer.json": "{}"}, "tokenizer.json: not a tokeniser"),
        ({"vocab.json": "{}"}, "of vocab.json and merges.txt only one is there"),
        ({"vocab.json": '{"a": 0}', "merges.txt": "a b\n"}, "vocab.json: not a vocabulary that can be read"),
        ({"vocab.json": '{"a": 0}', "merges.txt": "a b c\n"}, "merges.txt: 'a b c' came, expected two symbols"),
        ({"vocab.json": '{"a": "x"}', "merges.txt": ""}, "vocab.json: 'a' has the number 'x', expected a whole one"),
        ({"vocab.txt": "hello\n"}, r"vocab.txt: the symbol \[UNK\] is missing; expected a vocabulary of BERT"),
        ({"vocab.txt": WORD_FILE, "tokenizer_config.json": '{"do_lower_case": 1}'}, "do_lower_case: 1 came"),
        ({"vocab.txt": WORD_FILE, "added_tokens.json": '{"x": 9}'}, "added_tokens.json: adds symbols"),
        ({"spiece.model": ""}, "spiece.model: a tokeniser of sentence pieces, which is not read; load it with trans"),
    ],
    ids=str,
)
def test_tokenisers_that_cannot_be_read(files: dict[str, str], message: str, tmp_path: Path) -> None:
    build(tmp_path)
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises((CheckpointError, DataError, SettingError), match=message):
        read_folder(tmp_path)


@pytest.mark.parametrize("lower", [True, False])
def test_a_vocabulary_of_words(lower: bool, tmp_path: Path) -> None:
    (build(tmp_path, "masked") / "vocab.txt").write_bytes(WORD_FILE.replace("\n", "\r\n").encode())
    write_json(tmp_path / "tokenizer_config.json", {"do_lower_case": lower})
    text = read_folder(tmp_path).tokeniser_json
    assert text is not None
    tokeniser = Tokeniser.from_json(text, "test")
    assert tokeniser.encode("Hello world, hello") == ([4, 6, 7, 1, 4] if lower else [5, 6, 7, 1, 4])
    assert tokeniser.inner.encode("hello", "world").ids == [2, 4, 3, 6, 7, 3]
    assert tokeniser.inner.encode("hello", "world").type_ids == [0, 0, 0, 1, 1, 1]


def test_weights_that_came_in_go_out_as_they_were(tmp_path: Path) -> None:
    for kind in MODELS:
        folder = build(tmp_path / kind, kind)
        found = read_folder(folder)
        write_folder(tmp_path / f"{kind}-out", found.model, found.params, classes=found.classes)
        before, after = (load_file(path / "model.safetensors") for path in (folder, tmp_path / f"{kind}-out"))
        assert set(before) == set(after)
        for name, value in before.items():
            assert after[name].tobytes() == value.tobytes(), name
