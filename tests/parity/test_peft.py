"""Adapters written here are read by PEFT, adapters that PEFT wrote are read here: the same answers."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5.22")  # earlier releases name some modules otherwise
pytest.importorskip("peft")
import peft
import torch
import transformers

from glassformer.hub.folder import read_folder, write_folder
from glassformer.hub.peft import read_adapter, write_adapter
from glassformer.hub.run import write_adapted_run, write_run
from glassformer.layers import LoRA
from glassformer.predict.run import load
from glassformer.train.run_folder import RunFolder
from glassformer.train.tune import LowRank

from .hugging_face import drawn
from .test_folders import BERT, GPT2, NAMES, T5_SIZES, VIT, answers
from .test_llama import SIZES as LLAMA

CLASSIFIER = {"modules_to_save": ["classifier"]}
KINDS: dict[str, tuple[str, Any, dict[str, Any], dict[str, Any]]] = {  # their class, its settings, what PEFT is told
    "bert": (
        "BertForSequenceClassification",
        transformers.BertConfig,
        BERT | {"id2label": NAMES},
        {"target_modules": ["query", "value"], **CLASSIFIER},
    ),
    "bert, spans, all": ("BertForQuestionAnswering", transformers.BertConfig, BERT, {"target_modules": "all-linear"}),
    "bert, rslora": (
        "BertForQuestionAnswering",
        transformers.BertConfig,
        BERT,
        {"target_modules": ["key", "output.dense"], "use_rslora": True},
    ),
    "bert, embeddings": (
        "BertForTokenClassification",
        transformers.BertConfig,
        BERT | {"id2label": NAMES},
        {"target_modules": ["query", "word_embeddings"], **CLASSIFIER},
    ),
    "gpt2": (
        "GPT2LMHeadModel",
        transformers.GPT2Config,
        GPT2,
        {
            "target_modules": ["c_attn", "mlp.c_proj"],
            "fan_in_fan_out": True,
            "rank_pattern": {"mlp.c_proj": 5},
            "alpha_pattern": {"mlp.c_proj": 3},
        },
    ),
    "qwen3": (
        "Qwen3ForCausalLM",
        transformers.Qwen3Config,
        LLAMA | {"head_dim": 6},
        {"target_modules": ["q_proj", "v_proj", "gate_proj", "down_proj"]},
    ),
    "t5": ("T5ForConditionalGeneration", transformers.T5Config, T5_SIZES, {"target_modules": ["q", "v", "wo"]}),
    "vit": (
        "ViTForImageClassification",
        transformers.ViTConfig,
        VIT,
        {"target_modules": ["q_proj", "v_proj"], **CLASSIFIER},
    ),
}
SOME = [pytest.param(kind, marks=() if kind in ("bert", "gpt2") else pytest.mark.slow) for kind in KINDS]
CLOSE = 1e-5


def base_and_run(kind: str, folder: Path) -> tuple[Any, RunFolder]:
    """Their model with drawn weights, and the run that our import makes of it."""
    architecture, config, sizes, _ = KINDS[kind]
    theirs = drawn(getattr(transformers, architecture)(config(**sizes)), "float32")
    theirs.save_pretrained(folder / "theirs")
    write_run(folder / "run", read_folder(folder / "theirs"))
    return theirs, RunFolder(folder / "run")


def far(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


@pytest.mark.parametrize("kind", SOME)
def test_an_adapter_of_theirs(kind: str, tmp_path: Path) -> None:
    theirs, run = base_and_run(kind, tmp_path)
    settings = peft.LoraConfig(r=3, lora_alpha=7, **KINDS[kind][3])
    adapted = peft.get_peft_model(theirs, settings)
    torch.manual_seed(1)
    for name, weight in adapted.named_parameters():
        if "lora_" in name or "modules_to_save" in name:
            torch.nn.init.normal_(weight, std=0.3)  # theirs begins with B = 0, which hides mistakes
    adapted.save_pretrained(str(tmp_path / "adapter"))
    write_adapted_run(tmp_path / "tuned", *read_adapter(tmp_path / "adapter", run), run)
    tuned = load(tmp_path / "tuned")
    ours, expected = answers(adapted.eval(), tuned.model, tuned.params)
    before, _ = answers(adapted, tuned.model, load(run.path).params)
    assert far(ours, expected) < CLOSE < 1e-2 < far(before, expected)
    # merged, their own export is ours too
    write_folder(tmp_path / "merged", tuned.model, tuned.params, classes=tuned.classes)
    merged = type(theirs).from_pretrained(tmp_path / "merged")
    assert far(answers(merged, tuned.model, tuned.params)[1], expected) < CLOSE
    # and out again: what was read is written, and PEFT reads it
    write_adapter(tmp_path / "again", RunFolder(tmp_path / "tuned"))
    assert far(answers(with_adapter(tmp_path, "again", type(theirs)), tuned.model, tuned.params)[1], expected) < CLOSE


def with_adapter(folder: Path, adapter: str, cls: Any) -> Any:
    base = cls.from_pretrained(folder / "theirs").eval()
    with_it = peft.PeftModel.from_pretrained(base, folder / adapter)
    names = set(json.loads((folder / adapter / "adapter_config.json").read_text())["target_modules"])
    adapted = {name for name, module in with_it.named_modules() if hasattr(module, "lora_A")}
    assert {name.removeprefix("base_model.model.") for name in adapted} == names
    return with_it.eval()


@pytest.mark.parametrize("kind", SOME)
def test_an_adapter_of_ours(kind: str, tmp_path: Path) -> None:
    theirs, run = base_and_run(kind, tmp_path)
    base = load(run.path)
    targets = ("*.w_q", "*.w_v", "*.w_down") + (("*.embed.emb",) if kind == "bert, embeddings" else ())
    tune = LowRank(3, 5.0, targets).with_head(base.model, own=base.recipe.output_axis != "symbols")
    recipe = replace(base.recipe, tune=tune, start=str(run.path))
    shapes = jax.eval_shape(LoRA(base.model, 3, 5.0, targets).init, jax.random.key(0))
    draw = np.random.default_rng(0)
    params = jax.tree.map(lambda leaf: jnp.asarray(0.3 * draw.normal(size=leaf.shape), jnp.float32), shapes)
    params = params._replace(base=base.params._replace(head=params.base.head) if tune.also else base.params)
    write_adapted_run(tmp_path / "tuned", recipe, params, base.classes, run)
    write_adapter(tmp_path / "adapter", RunFolder(tmp_path / "tuned"))
    tuned = load(tmp_path / "tuned")
    ours, expected = answers(with_adapter(tmp_path, "adapter", type(theirs)), tuned.model, tuned.params)
    assert far(ours, expected) < CLOSE < 1e-2 < far(answers(theirs, tuned.model, tuned.params)[1], expected)
    # read back here, it is what it was
    again, back, _ = read_adapter(tmp_path / "adapter", run)
    close = partial(np.testing.assert_allclose, atol=1e-5)
    jax.tree.map(close, again.merged(back), tuned.params)
