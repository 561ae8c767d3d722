"""Settings and tensors of a Hugging Face folder that contradict each other: taken as transformers does, or refused.

None may come in silently and give other logits than there.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from glassformer.errors import CheckpointError, SettingError
from glassformer.hub import llama
from glassformer.hub.folder import read_config, read_folder, write_folder
from glassformer.layers import ScaledRotary
from glassformer.layers.rope_scaling import Llama3Scaling, YarnScaling
from glassformer.models import BERTFor, MaskedHead

from .builders import MODELS, build, drawn, tensors_of

YARN = {"rope_type": "yarn", "factor": 2.0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
ON = {"use_sliding_window": True, "sliding_window": 4}
FULL, SLIDING = ["full_attention"], ["sliding_attention"]


def config_with(kind: str, changes: dict[str, Any]) -> dict[str, Any]:
    return llama.config_of(MODELS[kind]) | changes


@pytest.mark.parametrize("said", [YARN, LLAMA3, LLAMA3 | {"original_max_position_embeddings": 7}])
def test_a_length_beside_the_rope_goes_before_the_one_in_it(said: dict[str, Any]) -> None:
    model = llama.model_from(config_with("llama", {"rope_scaling": said, "original_max_position_embeddings": 5}))
    assert isinstance(model.rotary, ScaledRotary)
    assert isinstance(model.rotary.scaling, YarnScaling | Llama3Scaling)
    assert model.rotary.scaling.context == 5


def test_both_spellings_of_one_rope() -> None:
    both = {"rope_scaling": YARN, "rope_parameters": YARN | {"rope_theta": 500.0}}
    assert llama.model_from(config_with("llama", both | {"rope_theta": 500.0})).rotary.base == 500.0
    with pytest.raises(SettingError, match=r"rope_parameters \{.* and rope_scaling \{.* contradict each other"):
        llama.model_from(config_with("llama", both | {"rope_theta": 400.0}))


@pytest.mark.parametrize(
    ("kind", "changes", "window"),
    [
        ("qwen2", ON | {"max_window_layers": 0}, 4),
        ("qwen2", ON | {"max_window_layers": 1}, None),
        ("qwen2", ON | {"max_window_layers": None}, None),  # 28, of which there are fewer
        ("qwen2", ON | {"max_window_layers": 0, "sliding_window": None}, None),
        ("qwen3", ON | {"layer_types": FULL, "max_window_layers": 0}, None),
        ("qwen3", ON | {"layer_types": SLIDING, "max_window_layers": 28}, 4),
        ("qwen3", {"layer_types": FULL}, None),
        ("mistral", {"layer_types": SLIDING}, 4),
        ("mistral", {"layer_types": FULL, "sliding_window": None}, None),
        ("llama", {"sliding_window": 3}, None),  # which Llama does not read
        ("llama", {"layer_types": FULL}, None),
    ],
)
def test_what_blocks_see(kind: str, changes: dict[str, Any], window: int | None) -> None:
    assert llama.model_from(config_with(kind, changes)).window == window


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("qwen2", ON | {"layer_types": [*FULL, *SLIDING]}),
        ("qwen2", {"layer_types": SLIDING, "use_sliding_window": False, "sliding_window": 4}),
        ("qwen3", ON | {"layer_types": SLIDING, "sliding_window": None}),
        ("qwen3", {"layer_types": ["chunked_attention"]}),
        ("mistral", {"layer_types": FULL}),
        ("mistral", {"layer_types": "sliding_attention"}),
        ("llama", {"layer_types": SLIDING}),
    ],
)
def test_kinds_of_blocks_that_are_refused(kind: str, changes: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=r"layer_types: .* came, only blocks of one kind are supported: .*, 1 times"):
        llama.model_from(config_with(kind, changes))


@pytest.mark.parametrize("kind", ["gpt2", "llama", "mistral", "qwen3", "bert", "roberta", "distilbert", "deit", "vit"])
def test_looking_the_other_way_is_refused(kind: str, tmp_path: Path) -> None:
    back = kind in ("gpt2", "llama", "mistral", "qwen3")
    with pytest.raises(SettingError, match=f"is_causal: {not back} came, only {back} is supported"):
        read_folder(build(tmp_path, kind, is_causal=not back))


def test_heads_that_do_not_divide_the_width_go_out_as_mistral(tmp_path: Path) -> None:
    """LlamaConfig of transformers refuses them, even with a head_dim; without a window Mistral is the same."""
    model = replace(MODELS["llama"], width=8, head_width=4)
    write_folder(tmp_path, model, drawn(model))
    assert read_config(tmp_path)["model_type"] == "mistral"
    assert read_folder(tmp_path).model == model


COPIES = {
    "gpt2": ("lm_head.weight", "transformer.wte.weight"),
    "llama": ("lm_head.weight", "model.embed_tokens.weight"),
    "t5": ("decoder.embed_tokens.weight", "shared.weight"),
    "masked": ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
}


@pytest.mark.parametrize("kind", COPIES)
def test_a_copy_of_a_tied_tensor_must_be_one(kind: str, tmp_path: Path) -> None:
    """transformers 5 reads one that differs as a tensor of its own, earlier releases pass over it."""
    name, original = COPIES[kind]
    build(tmp_path, kind)
    tensors = tensors_of(kind)
    save_file(tensors | {name: tensors[original].copy()}, tmp_path / "model.safetensors")
    read_folder(tmp_path)
    save_file(tensors | {name: tensors[original] + 1}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=f"'{name}' is there and differs from '{original}', to which the config"):
        read_folder(tmp_path)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_the_second_bias_of_a_masked_head(kind: str, tmp_path: Path) -> None:
    """A copy where the decoder is tied; where it is not, the first is not used."""
    first, second = ("cls.predictions.bias", "cls.predictions.decoder.bias")
    first, second = (first, second) if kind == "bert" else ("lm_head.bias", "lm_head.decoder.bias")
    for tied in True, False:
        bert = MODELS[kind].bert
        model, folder = BERTFor(bert, MaskedHead(6, 11, tied, bert.eps)), tmp_path / str(tied)
        write_folder(folder, model, drawn(model))
        tensors = load_file(folder / "model.safetensors")
        assert (first in tensors, second in tensors) == (tied, not tied)
        save_file(
            tensors | {first: np.ones(11), second: tensors.get(second, np.zeros(11))}, folder / "model.safetensors"
        )
        if tied:
            with pytest.raises(CheckpointError, match=f"'{second}' is there and differs from '{first}'"):
                read_folder(folder)
        else:
            read_folder(folder)
