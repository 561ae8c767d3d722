"""Adapters in PEFT's layout, without PEFT: out and in again, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from typer.testing import CliRunner

from glassformer.cli import app
from glassformer.errors import CheckpointError, FileError, SettingError
from glassformer.hub.folder import read_folder
from glassformer.hub.format import Imported
from glassformer.hub.peft import CONFIG, PREFIX, WEIGHTS, read_adapter, write_adapter
from glassformer.hub.run import write_adapted_run, write_run
from glassformer.layers import lora
from glassformer.models import BERTFor, ClassHead
from glassformer.names import named_leaves
from glassformer.train.run_folder import RunFolder
from glassformer.train.tune import LowRank

from .builders import MODELS, READER, drawn

TUNE = LowRank(rank=2, alpha=3.0)


def base_run(folder: Path, model: Any) -> RunFolder:
    classes = tuple("abcdefgh")[: model.input.classes or getattr(getattr(model, "head", None), "classes", 0)]
    write_run(folder, Imported(model, drawn(model), [], classes))
    return RunFolder(folder)


def tuned_run(folder: Path, base: RunFolder, tune: LowRank = TUNE) -> RunFolder:
    recipe = base.recipe()
    tune = tune.with_head(recipe.model, own=recipe.output_axis != "symbols")
    params: Any = drawn(tune.network(recipe.model))
    kept, classes = base.load_model(recipe)
    params = params._replace(base=kept._replace(head=params.base.head) if tune.also else kept)
    write_adapted_run(folder, replace(recipe, tune=tune, start=str(base.path)), params, classes, base)
    return RunFolder(folder)


def succeed(*arguments: Any) -> str:
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    """Of a BERT that tags; the run it belongs to lies beside it."""
    run = tuned_run(tmp_path / "tuned", base_run(tmp_path / "run", MODELS["bert"]))
    write_adapter(tmp_path / "adapter", run)
    return tmp_path / "adapter"


@pytest.mark.parametrize("kind", ["gpt2", "bert", "t5", "vit"])
@pytest.mark.parametrize("targets", [("*.w_q", "*.w_v"), ("*.w_v", "*.w_down")])
def test_out_and_in_again(kind: str, targets: tuple[str, ...], tmp_path: Path) -> None:
    base = base_run(tmp_path / "run", MODELS[kind])
    run = tuned_run(tmp_path / "tuned", base, replace(TUNE, targets=targets))
    config = write_adapter(tmp_path / "adapter", run)
    assert json.loads((tmp_path / "adapter" / CONFIG).read_text()) == config
    recipe, params, _ = read_adapter(tmp_path / "adapter", base)
    expected, _ = run.load_model(run.recipe())
    for name, leaf in named_leaves(recipe.merged(params)).items():
        np.testing.assert_allclose(leaf, named_leaves(expected)[name], atol=1e-5, err_msg=name)
    if kind != "gpt2":
        assert recipe.tune == run.recipe().tune


def test_three_in_one_matrix(tmp_path: Path) -> None:
    """GPT-2's c_attn: q and v of ours, k untouched, as one update of twice the rank."""
    run = tuned_run(tmp_path / "tuned", base_run(tmp_path / "run", MODELS["gpt2"]))
    config = write_adapter(tmp_path / "adapter", run)
    (module,) = config["target_modules"]
    assert module == "transformer.h.0.attn.c_attn"
    assert (config["r"], config["rank_pattern"], config["alpha_pattern"]) == (2, {module: 4}, {module: 6.0})
    assert config["fan_in_fan_out"] is True
    tensors = load_file(tmp_path / "adapter" / WEIGHTS)
    a, b = (tensors[f"{PREFIX}{module}.lora_{part}.weight"] for part in "AB")
    assert (a.shape, b.shape) == ((4, 6), (18, 4))
    assert not b[6:12].any()
    recipe, params, _ = read_adapter(tmp_path / "adapter", RunFolder(tmp_path / "run"))
    assert recipe.tune == LowRank(rank=4, alpha=6.0, targets=("*.w_q", "*.w_k", "*.w_v"), also=())
    assert isinstance(params, lora.Params)


def test_by_commands(adapter: Path, tmp_path: Path) -> None:
    text = succeed("import", adapter, "--onto", tmp_path / "run", "--out", tmp_path / "in")
    assert text.startswith(f"wrote {tmp_path / 'in'}: {tmp_path / 'run'} with an adapter of rank 2 on *.w_q, *.w_v")
    succeed("export", tmp_path / "in", tmp_path / "out", "--to", "peft")
    for name, value in load_file(adapter / WEIGHTS).items():
        np.testing.assert_array_equal(load_file(tmp_path / "out" / WEIGHTS)[name], value)
    ours, theirs = (json.loads((folder / CONFIG).read_text()) for folder in (tmp_path / "out", adapter))
    assert ours == theirs
    assert theirs["modules_to_save"] == ["classifier"]


def change(adapter: Path, **settings: Any) -> None:
    config = json.loads((adapter / CONFIG).read_text())
    (adapter / CONFIG).write_text(json.dumps(config | settings))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"peft_type": "LOHA"}, "peft_type: 'LOHA' came, only LORA is supported"),
        ({"use_dora": True}, "use_dora: True came, only plain LoRA is supported"),
        ({"lora_bias": True}, "lora_bias: True came"),
        ({"target_parameters": ["x"]}, "target_parameters: .* came"),
        ({"bias": "all"}, "bias: 'all' came, only 'none' is supported"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights: 'pissa' came, which changes the weights beneath"),
        ({"lora_alpha": "8"}, "lora_alpha: '8' came, expected a number above 0"),
        ({"lora_alpha": 0}, "lora_alpha: 0 came, expected a number above 0"),
        ({"alpha_pattern": {"query": -1}}, "lora_alpha: -1 came"),
        ({"alpha_pattern": {r"^a.*": 1}}, r"alpha_pattern: '\^a\.\*' came, expected the names of modules"),
        ({"alpha_pattern": [1]}, "alpha_pattern: .* came, expected numbers by module"),
    ],
)
def test_what_is_not_plain_lora_is_refused(settings: dict[str, Any], message: str, adapter: Path) -> None:
    change(adapter, **settings)
    with pytest.raises((SettingError, CheckpointError), match=message):
        read_adapter(adapter, RunFolder(adapter.parent / "run"))


def test_an_adapter_of_another_model(adapter: Path, tmp_path: Path) -> None:
    query = "bert.encoder.layer.0.attention.self.query"
    wider = BERTFor(replace(READER, width=8), replace(MODELS["bert"].head, width=8))
    with pytest.raises(
        CheckpointError,
        match=rf"{query}: lora_A is \(2, 6\) and lora_B is \(6, 2\), and .*/wider needs \(rank, 8\) and \(8, rank\)",
    ):
        read_adapter(adapter, base_run(tmp_path / "wider", wider))
    with pytest.raises(CheckpointError, match=rf"{query}: GPT has no such linear layer.*made for another model"):
        read_adapter(adapter, base_run(tmp_path / "gpt", MODELS["gpt2"]))
    more = BERTFor(READER, replace(MODELS["bert"].head, classes=5))
    with pytest.raises(CheckpointError, match=r"classifier.bias: its shape is \(3,\), and .*/more has \(5,\) there"):
        read_adapter(adapter, base_run(tmp_path / "more", more))
    masked = base_run(tmp_path / "masked", MODELS["masked"])
    with pytest.raises(CheckpointError, match=r"classifier\.(weight|bias): BERTFor has no such tensor.*put the head"):
        read_adapter(adapter, masked)
    other = base_run(tmp_path / "classes", BERTFor(READER, ClassHead(6, classes=3)))
    assert read_adapter(adapter, other)[0].tune == LowRank(
        2, 3.0, ("*.w_q", "*.w_v"), ("head.classify.b", "head.classify.w")
    )


def test_a_damaged_file(adapter: Path, tmp_path: Path) -> None:
    run, file = RunFolder(tmp_path / "run"), adapter / WEIGHTS
    whole, tensors = file.read_bytes(), load_file(file)
    name = next(name for name in tensors if "lora_A" in name)
    file.write_bytes(whole[:-5])
    with pytest.raises(CheckpointError, match="damaged, cut short or not a safetensors file"):
        read_adapter(adapter, run)
    save_file(tensors | {name: np.full_like(tensors[name], np.nan)}, file)
    with pytest.raises(CheckpointError, match=r"1 of 6 tensors hold values that are not finite .*a\.bert\.blocks\.0"):
        read_adapter(adapter, run)
    save_file({key: value for key, value in tensors.items() if key != name}, file)
    with pytest.raises(CheckpointError, match=r"lora_B\.weight: its lora_A is missing"):
        read_adapter(adapter, run)
    save_file({key: value for key, value in tensors.items() if key != name.replace("lora_A", "lora_B")}, file)
    with pytest.raises(CheckpointError, match="lora_A is there, and lora_B is missing"):
        read_adapter(adapter, run)
    save_file({f"{PREFIX}x.lora_magnitude_vector": tensors[name]}, file)
    with pytest.raises(CheckpointError, match=r"lora_magnitude_vector: only lora_A and lora_B"):
        read_adapter(adapter, run)
    save_file({key: value for key, value in tensors.items() if "classifier" in key}, file)
    with pytest.raises(CheckpointError, match="it holds no lora_A and lora_B"):
        read_adapter(adapter, run)
    file.unlink()
    (adapter / "adapter_model.bin").write_bytes(b"x")
    with pytest.raises(CheckpointError, match=r"has no adapter_model.safetensors; adapter_model.bin is a pickle"):
        read_adapter(adapter, run)


def test_folders_of_another_kind(adapter: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no config.json; it holds an adapter of PEFT: .*--onto RUN"):
        read_folder(adapter)
    with pytest.raises(CheckpointError, match=r"not a folder of PEFT, it has no adapter_config.json"):
        read_adapter(tmp_path / "run", RunFolder(tmp_path / "run"))
    with pytest.raises(SettingError, match=r"it has no adapter: it was not trained with --tune lora"):
        write_adapter(tmp_path / "x", RunFolder(tmp_path / "run"))
    with pytest.raises(FileError, match=r"holds an adapter already \(adapter_config.json\)"):
        write_adapter(adapter, RunFolder(tmp_path / "tuned"))


def test_what_peft_has_no_place_for(tmp_path: Path) -> None:
    base = base_run(tmp_path / "run", MODELS["gpt2"])
    table = tuned_run(tmp_path / "table", base, replace(TUNE, targets=("embed.emb",)))
    with pytest.raises(SettingError, match=r"embed\.emb: PEFT adapts linear layers, and tables of embeddings that are"):
        write_adapter(tmp_path / "adapter", table)
    masked = base_run(tmp_path / "masked", MODELS["masked"])
    bias = tuned_run(tmp_path / "bias", masked, replace(TUNE, also=("head.decoder.b",)))
    with pytest.raises(SettingError, match=r"cls\.predictions: PEFT saves whole modules, and .* is a part of it"):
        write_adapter(tmp_path / "adapter", bias)
    assert jax.tree.leaves(bias.load_model(bias.recipe())[0])
