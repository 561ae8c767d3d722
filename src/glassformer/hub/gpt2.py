"""GPT-2: `GPT2LMHeadModel` of transformers and our `GPT`, both ways.

Its matrices are (in, out), as ours, with q, k and v side by side in one. A tied head is not in the file.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from glassformer.errors import SettingError
from glassformer.hub import settings, tensors
from glassformer.hub.format import Folder, Format, Given, Imported, drawn_ids, generation_config
from glassformer.hub.tensors import Tensor, linear, norm
from glassformer.hub.tokeniser_files import SpecialTokens
from glassformer.models import GPT, Text
from glassformer.models.gpt import Params

ARCHITECTURES = ("GPT2LMHeadModel", "GPT2Model")  # the second is the first without its name in front
BUFFERS = (".attn.bias", ".attn.masked_bias")  # the causal mask, which early files carry


def model_from(config: Mapping[str, Any]) -> GPT:
    """The model that a `config.json` describes."""
    settings.refuse(
        config,
        scale_attn_weights=True,
        scale_attn_by_inverse_layer_idx=False,
        add_cross_attention=False,
        is_causal=True,
    )
    settings.architecture(config, ARCHITECTURES)
    width = settings.whole(config, "n_embd", settings.WIDEST)
    return GPT(
        text=Text(
            settings.whole(config, "vocab_size", settings.MOST_SYMBOLS),
            settings.whole(config, "n_positions", settings.MOST_SYMBOLS),
        ),
        width=width,
        hidden=settings.whole(config, "n_inner", settings.WIDEST, 4 * width),
        heads=settings.whole(config, "n_head", settings.WIDEST),
        depth=settings.whole(config, "n_layer", settings.DEEPEST),
        tied=settings.yes(config, "tie_word_embeddings", True),
        dropout=settings.number(config, "resid_pdrop", 0.1),
        eps=settings.number(config, "layer_norm_epsilon", 1e-5),
        activation=settings.activation(config, "activation_function", "gelu_new"),
        attend=settings.attend(config, "attn_pdrop", 0.1),
    )


def notes(config: Mapping[str, Any]) -> list[str]:
    return settings.differences(config, embd_pdrop=settings.number(config, "resid_pdrop", 0.1))


def config_of(model: GPT) -> dict[str, Any]:
    """What belongs into `config.json` so that `model_from` gives the model back."""
    if model.rotary is not None:
        raise SettingError("GPT-2 has a learned table of positions; a model with rotary positions has no place in it")
    return {
        "model_type": "gpt2",
        "architectures": [ARCHITECTURES[0]],
        "vocab_size": model.text.vocabulary,
        "n_positions": model.text.context,
        "n_embd": model.width,
        "n_inner": model.hidden,
        "n_head": model.heads,
        "n_layer": model.depth,
        "tie_word_embeddings": model.tied,
        "resid_pdrop": model.dropout,
        "embd_pdrop": model.dropout,
        "attn_pdrop": settings.attention_dropout(model),
        "layer_norm_epsilon": model.eps,
        "activation_function": settings.activation_word(model.activation),
        "bos_token_id": None,
        "eos_token_id": None,
    }


def to_tensors(model: GPT, params: Params) -> dict[str, Any]:
    return tensors.to_theirs(table(model), params)


def from_tensors(model: GPT, given: Mapping[str, Any]) -> Params:
    """Files of the bare `GPT2Model`, as published, lack the `transformer.` in front of every name."""
    bare = "wte.weight" in given
    prefix = "" if bare else "transformer."
    copies = {"lm_head.weight": f"{prefix}wte.weight"} if model.tied else {}
    return tensors.to_ours(table(model, prefix), given, model, BUFFERS, copies)


def table(model: GPT, prefix: str = "transformer.") -> list[Tensor]:
    rows = [Tensor(f"{prefix}wte.weight", ("embed.emb",)), Tensor(f"{prefix}wpe.weight", ("positions.pos",))]
    for i in range(model.depth):
        rows += block(f"{prefix}h.{i}", f"blocks.{i}")
    rows += norm(f"{prefix}ln_f", "norm")
    return rows if model.tied else [*rows, Tensor("lm_head.weight", ("head.emb",))]


def block(theirs: str, ours: str) -> list[Tensor]:
    return [
        *norm(f"{theirs}.ln_1", f"{ours}.norm1"),
        Tensor(f"{theirs}.attn.c_attn.weight", tuple(f"{ours}.attn.w_{part}" for part in "qkv")),
        Tensor(f"{theirs}.attn.c_attn.bias", tuple(f"{ours}.attn.b_{part}" for part in "qkv")),
        *linear(f"{theirs}.attn.c_proj", f"{ours}.attn.w_o", f"{ours}.attn.b_o", transposed=False),
        *norm(f"{theirs}.ln_2", f"{ours}.norm2"),
        *linear(f"{theirs}.mlp.c_fc", f"{ours}.ff.w_up", f"{ours}.ff.b_up", transposed=False),
        *linear(f"{theirs}.mlp.c_proj", f"{ours}.ff.w_down", f"{ours}.ff.b_down", transposed=False),
    ]


def read(folder: Folder) -> Imported:
    model = model_from(folder.config)
    return Imported(model, from_tensors(model, folder.tensors), notes(folder.config))


def draw(model: GPT, rng: np.random.Generator) -> Given:
    ids, _ = drawn_ids(model.text, rng)
    return Given(ids, {"input_ids": ids})


FORMAT = Format(
    model_type="gpt2",
    model=GPT,
    architecture=ARCHITECTURES[0],
    read=read,
    write=lambda model, params, _: (config_of(model), to_tensors(model, params)),
    draw=draw,
    modules=lambda model, _: (table(model),),
    states=lambda model: ["drop.y", *(f"blocks.{i}.resid_post" for i in range(model.depth - 1)), "norm.y"],
    special_tokens=SpecialTokens({"pad_token_id": "pad", "bos_token_id": "start", "eos_token_id": "end"}),
    files=generation_config,
)
