"""Small Hugging Face folders, written without transformers."""

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors.numpy import save_file

from glassformer.hub import bert, distilbert, gpt2, llama, roberta, t5, vit
from glassformer.layers import ReLU
from glassformer.models import BERT, GPT, T5, BERTFor, ClassHead, Images, Llama, MaskedHead, TagHead, Text, ViT

WORDS = Text(vocabulary=11, context=9)
READER = BERT(WORDS, segments=3, width=6, hidden=7, heads=2, depth=1)
DISTILLED = replace(READER, segments=0, pooler=ReLU())
DEIT = ViT(
    Images((8, 4, 3), classes=3, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
    patch_size=4,
    width=6,
    hidden=7,
    heads=2,
    with_class_token=True,
    distillation="token",
)
MODELS: dict[str, Any] = {
    "gpt2": GPT(WORDS, width=6, hidden=7, heads=2, depth=1),
    "bert": BERTFor(READER, TagHead(6, classes=3)),
    "masked": BERTFor(READER, MaskedHead(6, 11)),
    "llama": Llama(WORDS, width=6, hidden=7, heads=3, key_heads=1, depth=1),
    "mistral": Llama(WORDS, width=6, hidden=7, heads=3, key_heads=1, depth=1, tied=False, window=4),
    "qwen2": Llama(WORDS, width=8, hidden=7, heads=4, key_heads=2, depth=1, bias="qkv"),
    "qwen3": Llama(WORDS, width=6, hidden=7, heads=2, key_heads=1, head_width=4, depth=1, head_norm=True, tied=False),
    "roberta": BERTFor(replace(READER, first_position=2), TagHead(6, classes=3)),
    "distilbert": BERTFor(DISTILLED, ClassHead(6, classes=3, activation=ReLU())),
    "t5": T5(WORDS, width=6, hidden=7, heads=2, head_width=5, depth=1),
    "deit": DEIT,
    "teacher": replace(DEIT, distillation="head"),
    "vit": ViT(Images((8, 4, 3), classes=3), patch_size=4, width=6, hidden=7, heads=2, with_class_token=True),
}
MODULES: dict[str, Any] = {
    "gpt2": gpt2,
    "bert": bert,
    "masked": bert,
    "llama": llama,
    "mistral": llama,
    "qwen2": llama,
    "qwen3": llama,
    "roberta": roberta,
    "distilbert": distilbert,
    "t5": t5,
    "deit": vit,
    "teacher": vit,
    "vit": vit,
}


def drawn(model: Any) -> Any:
    draw = np.random.default_rng(0)
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    return jax.tree.map(lambda leaf: draw.standard_normal(leaf.shape).astype(np.float32), shapes)


def tensors_of(kind: str) -> dict[str, np.ndarray]:
    model = MODELS[kind]
    return {name: np.array(value) for name, value in MODULES[kind].to_tensors(model, drawn(model)).items()}


def build(path: Path, kind: str = "gpt2", **changes: Any) -> Path:
    """config.json with the changes (None removes), and model.safetensors."""
    config = MODULES[kind].config_of(MODELS[kind]) | changes
    path.mkdir(exist_ok=True)
    write_json(path / "config.json", {name: value for name, value in config.items() if value is not None})
    save_file(tensors_of(kind), path / "model.safetensors")
    return path


def build_shards(path: Path, *shards: dict[str, np.ndarray], **places: str) -> Path:
    """gpt2 in files 1.safetensors, …, and an index; `places` are further entries of it."""
    build(path)
    (path / "model.safetensors").unlink()
    index = {}
    for number, tensors in enumerate(shards, start=1):
        save_file(tensors, path / f"{number}.safetensors")
        index |= dict.fromkeys(tensors, f"{number}.safetensors")
    write_json(path / "model.safetensors.index.json", {"metadata": {}, "weight_map": index | places})
    return path


def halves() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    items = list(tensors_of("gpt2").items())
    return dict(items[:5]), dict(items[5:])


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content))


def raw_safetensors(header: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data
