"""Llama and its family, Mistral, Qwen2, Qwen3, SmolLM: the `…ForCausalLM` of transformers and our `Llama`, both ways.

Their tensors have the same names; what differs is which are there, and what the config leaves unsaid. SmolLM's files
call themselves llama. A tied head is not in the file.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from glassformer.errors import SettingError
from glassformer.hub import rope, settings, tensors
from glassformer.hub.format import Folder, Format, Given, Imported, drawn_ids, generation_config
from glassformer.hub.tensors import Tensor
from glassformer.hub.tokeniser_files import SpecialTokens
from glassformer.layers import ScaledRotary
from glassformer.layers.rope_scaling import DynamicScaling
from glassformer.models import Llama, Text
from glassformer.models.llama import Params

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
SLIDING, FULL = "sliding_attention", "full_attention"  # what a block sees
BUFFERS = (".rotary_emb.inv_freq",)  # which early files carry


def published_as(model: Llama) -> str:
    """Whose settings they are."""
    if model.head_norm:
        return "qwen3"
    if model.bias == "qkv":
        return "qwen2"
    divides = model.width % model.heads == 0  # or LlamaConfig refuses it, whatever the head_dim; the others do not
    return "llama" if model.window is None and divides else "mistral"


def model_from(config: Mapping[str, Any]) -> Llama:
    """The model that a `config.json` describes."""
    family = settings.word(config, "model_type", "llama")
    settings.refuse(config, mlp_bias=False, quantization_config=None, is_causal=True)
    settings.architecture(config, (ARCHITECTURES[family],))
    heads = settings.whole(config, "num_attention_heads", settings.WIDEST)
    depth = settings.whole(config, "num_hidden_layers", settings.DEEPEST)
    context = settings.whole(config, "max_position_embeddings", settings.MOST_SYMBOLS)
    bias = family in ("llama", "qwen3") and settings.yes(config, "attention_bias", False)
    width = settings.whole(config, "hidden_size", settings.WIDEST)
    head_width = settings.whole(config, "head_dim", settings.WIDEST, 128 if family == "qwen3" else None)
    rotary = rope.rotary_from(config, context)
    if isinstance(rotary, ScaledRotary) and isinstance(rotary.scaling, DynamicScaling):
        context = int(context * rotary.scaling.factor)  # there, it may be exceeded
    return Llama(
        text=Text(settings.whole(config, "vocab_size", settings.MOST_SYMBOLS), context),
        width=width,
        hidden=settings.whole(config, "intermediate_size", settings.WIDEST),
        heads=heads,
        key_heads=settings.whole(config, "num_key_value_heads", settings.WIDEST, heads),
        head_width=None if head_width is None or head_width * heads == width else head_width,
        depth=depth,
        rotary=rotary,
        head_norm=family == "qwen3",
        bias="qkv" if family == "qwen2" else bias,
        tied=settings.yes(config, "tie_word_embeddings", False),
        eps=settings.number(config, "rms_norm_eps", 1e-6),
        activation=settings.activation(config, "hidden_act", "silu"),
        attend=settings.attend(config, "attention_dropout", 0.0),
        window=window_from(config, family, depth),
    )


def window_from(config: Mapping[str, Any], family: str, depth: int) -> int | None:
    """Mistral has one unless it says null; Qwen says which blocks have it, and ours are all alike."""
    qwen = family in ("qwen2", "qwen3")
    asked = family == "mistral" or (qwen and settings.yes(config, "use_sliding_window", False))
    width = None
    if asked and config.get("sliding_window", 4096) is not None:
        width = settings.whole(config, "sliding_window", settings.MOST_SYMBOLS, 4096)
    types = config.get("layer_types")
    if types is None and qwen and width is not None:
        first = settings.whole(config, "max_window_layers", settings.DEEPEST, 28, least=0)
        types = [SLIDING if i >= first else FULL for i in range(depth)]
    if types is None:
        return width
    able = [*([FULL] if qwen or width is None else []), *([] if width is None else [SLIDING])]
    for kind in able:
        if types == [kind] * depth:
            return width if kind == SLIDING else None
    expected = f"only blocks of one kind are supported: {' or '.join(able)}, {depth} times"
    raise SettingError(f"layer_types: {settings.shown(types)} came, {expected}")


def config_of(model: Llama) -> dict[str, Any]:
    """What belongs into `config.json` so that `model_from` gives the model back."""
    family = published_as(model)
    if model.bias and (family == "mistral" or (family == "qwen3" and model.bias == "qkv")):
        raise SettingError(
            f"{family} has no biases such as bias = {model.bias!r}; a model with them has no place in it"
        )
    if model.global_tokens:
        raise SettingError("the published models have no global tokens; a model with them has no place among them")
    scaling = model.rotary.scaling if isinstance(model.rotary, ScaledRotary) else None
    config = {
        "model_type": family,
        "architectures": [ARCHITECTURES[family]],
        "vocab_size": model.text.vocabulary,
        "max_position_embeddings": scaling.context if isinstance(scaling, DynamicScaling) else model.text.context,
        "hidden_size": model.width,
        "intermediate_size": model.hidden,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.key_heads,
        "head_dim": model.attn.per_head,
        "num_hidden_layers": model.depth,
        **rope.config_of(model.rotary),
        "tie_word_embeddings": model.tied,
        "rms_norm_eps": model.eps,
        "hidden_act": settings.activation_word(model.activation),
        "attention_dropout": settings.attention_dropout(replace(model, window=None)),
        "bos_token_id": None,
        "eos_token_id": None,
    }
    if family in ("llama", "qwen3"):
        config |= {"attention_bias": bool(model.bias)}
    if family in ("qwen2", "qwen3"):
        config |= {"use_sliding_window": model.window is not None, "max_window_layers": 0}
    return config if family == "llama" else config | {"sliding_window": model.window}


def to_tensors(model: Llama, params: Params) -> dict[str, Any]:
    return tensors.to_theirs(table(model), params)


def from_tensors(model: Llama, given: Mapping[str, Any]) -> Params:
    copies = {"lm_head.weight": "model.embed_tokens.weight"} if model.tied else {}
    return tensors.to_ours(table(model), given, model, BUFFERS, copies)


def table(model: Llama) -> list[Tensor]:
    rows = [Tensor("model.embed_tokens.weight", ("embed.emb",))]
    for i in range(model.depth):
        rows += block(model, f"model.layers.{i}", f"blocks.{i}")
    rows += [Tensor("model.norm.weight", ("norm.gain",))]
    return rows if model.tied else [*rows, Tensor("lm_head.weight", ("head.emb",))]


def block(model: Llama, theirs: str, ours: str) -> list[Tensor]:
    weights = {
        **{f"self_attn.{part}_proj": f"attn.w_{part}" for part in "qkvo"},
        **{f"mlp.{part}_proj": f"ff.w_{part}" for part in ("gate", "up", "down")},
    }
    plain = {
        "input_layernorm.weight": "norm1.gain",
        "post_attention_layernorm.weight": "norm2.gain",
        **{f"self_attn.{part}_norm.weight": f"attn.norm_{part}.gain" for part in "qk" if model.head_norm},
        **{f"self_attn.{part}_proj.bias": f"attn.b_{part}" for part in "qkv" if model.bias},
        **{f"self_attn.{part}_proj.bias": f"attn.b_{part}" for part in "o" if model.bias is True},
    }
    return [
        *(Tensor(f"{theirs}.{name}.weight", (f"{ours}.{w}",), transposed=True) for name, w in weights.items()),
        *(Tensor(f"{theirs}.{name}", (f"{ours}.{value}",)) for name, value in plain.items()),
    ]


def read(folder: Folder) -> Imported:
    model = model_from(folder.config)
    return Imported(model, from_tensors(model, folder.tensors), [])


def draw(model: Llama, rng: np.random.Generator) -> Given:
    ids, _ = drawn_ids(model.text, rng)
    return Given(ids, {"input_ids": ids})


FORMATS = tuple(
    Format(
        model_type=family,
        model=Llama,
        fits=lambda model, family=family: published_as(model) == family,
        architecture=architecture,
        read=read,
        write=lambda model, params, _: (config_of(model), to_tensors(model, params)),
        draw=draw,
        modules=lambda model, _: (table(model),),
        states=lambda model: ["embed.y", *(f"blocks.{i}.resid_post" for i in range(model.depth - 1)), "norm.y"],
        special_tokens=SpecialTokens({"pad_token_id": "pad", "bos_token_id": "start", "eos_token_id": "end"}),
        files=generation_config,
    )
    for family, architecture in ARCHITECTURES.items()
)
