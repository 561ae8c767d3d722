"""T5, v1.0 and v1.1: `T5ForConditionalGeneration` of transformers and our `T5`, both ways. Its matrices are (out, in).

The relative bias of a stack, which all of its blocks read, is kept in the first of them. The embedding may be in the
file under further names: those are copies. An unscaled head (v1.1) has its own tensor, a scaled one (v1.0) has not.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from glassformer.hub import settings, tensors
from glassformer.hub.format import Folder, Format, Given, Imported, drawn_ids, generation_config
from glassformer.hub.tensors import Tensor
from glassformer.hub.tokeniser_files import Frame, SpecialTokens
from glassformer.models import T5, Text
from glassformer.models.t5 import Inputs, Params

ARCHITECTURES = ("T5ForConditionalGeneration", "T5WithLMHeadModel")  # the second is the first by an earlier name
COPIES = ("coder.embed_tokens.weight",)  # of encoder and decoder
UNUSED = ("EncDecAttention.relative_attention_bias.weight",)  # in early files; cross-attention has no bias

CONTEXT = 512  # where the file says nothing: relative positions end nowhere


def model_from(config: Mapping[str, Any]) -> T5:
    """The model that a `config.json` describes."""
    settings.architecture(config, ARCHITECTURES)
    kind = settings.word(config, "feed_forward_proj", "relu")
    gated = kind.startswith("gated-")
    if kind == "gated-gelu":  # by this word T5 means the one by tanh
        kind = "gated-gelu_new"
    tied = settings.yes(config, "tie_word_embeddings", True)
    return T5(
        text=Text(
            settings.whole(config, "vocab_size", settings.MOST_SYMBOLS),
            settings.whole(config, "n_positions", settings.MOST_SYMBOLS, CONTEXT),
        ),
        width=settings.whole(config, "d_model", settings.WIDEST),
        hidden=settings.whole(config, "d_ff", settings.WIDEST),
        heads=settings.whole(config, "num_heads", settings.WIDEST),
        head_width=settings.whole(config, "d_kv", settings.WIDEST),
        depth=settings.whole(config, "num_layers", settings.DEEPEST),
        decoder_depth=settings.whole(config, "num_decoder_layers", settings.DEEPEST, None),
        buckets=settings.whole(config, "relative_attention_num_buckets", settings.WIDEST, 32),
        reach=settings.whole(config, "relative_attention_max_distance", settings.MOST_SYMBOLS, 128),
        gated=gated,
        activation=settings.activation({"feed_forward_proj": kind.removeprefix("gated-")}, "feed_forward_proj", "relu"),
        tied=settings.yes(config, "scale_decoder_outputs", tied),
        dropout=settings.number(config, "dropout_rate", 0.1),
        eps=settings.number(config, "layer_norm_epsilon", 1e-6),
    )


def notes(config: Mapping[str, Any]) -> list[str]:
    share = settings.number(config, "dropout_rate", 0.1)
    what = "in training only: there, hidden values and patterns of attention are dropped out as well"
    return [f"{what} (dropout_rate {share:g})"] if share else []


def config_of(model: T5) -> dict[str, Any]:
    """What belongs into `config.json` so that `model_from` gives the model back."""
    word = settings.activation_word(model.activation)
    return {
        "model_type": "t5",
        "architectures": [ARCHITECTURES[0]],
        "is_encoder_decoder": True,
        "vocab_size": model.text.vocabulary,
        "n_positions": model.text.context,
        "d_model": model.width,
        "d_ff": model.hidden,
        "num_heads": model.heads,
        "d_kv": model.head_width,
        "num_layers": model.depth,
        "num_decoder_layers": model.decoder_depth,
        "relative_attention_num_buckets": model.buckets,
        "relative_attention_max_distance": model.reach,
        "feed_forward_proj": f"gated-{word}" if model.gated else word,
        "tie_word_embeddings": model.tied,
        "dropout_rate": model.dropout,
        "layer_norm_epsilon": model.eps,
        "pad_token_id": 0,
        "decoder_start_token_id": 0,
        "eos_token_id": 1,
    }


def to_tensors(model: T5, params: Params) -> dict[str, Any]:
    return tensors.to_theirs(table(model), params)


def from_tensors(model: T5, given: Mapping[str, Any]) -> Params:
    tied = ("lm_head.weight",) if model.tied else ()
    copies: dict[str, str] = dict.fromkeys((*COPIES, *tied), "shared.weight")
    return tensors.to_ours(table(model), given, model, UNUSED, copies)


def table(model: T5) -> list[Tensor]:
    rows = [Tensor("shared.weight", ("embed.emb",))]
    for stack, depth in ("encoder", model.depth), ("decoder", model.decoder_blocks):
        bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        rows.append(Tensor(bias, (f"{stack}.bias.table",)))
        for i in range(depth):
            rows += block(f"{stack}.block.{i}.layer", f"{stack}.blocks.{i}", model.gated, cross=stack == "decoder")
        rows.append(Tensor(f"{stack}.final_layer_norm.weight", (f"{stack}.norm.gain",)))
    return rows if model.tied else [*rows, Tensor("lm_head.weight", ("head.emb",))]


def block(theirs: str, ours: str, gated: bool, cross: bool) -> list[Tensor]:
    rows = [*attention(f"{theirs}.0.SelfAttention", f"{ours}.attn"), norm(f"{theirs}.0", f"{ours}.norm1")]
    if cross:
        rows += [*attention(f"{theirs}.1.EncDecAttention", f"{ours}.cross"), norm(f"{theirs}.1", f"{ours}.norm2")]
    last = 2 if cross else 1
    wide = {"wi_0": "w_gate", "wi_1": "w_up"} if gated else {"wi": "w_up"}
    feed = {**wide, "wo": "w_down"}
    rows += [matrix(f"{theirs}.{last}.DenseReluDense.{name}", f"{ours}.ff.{feed[name]}") for name in feed]
    return [*rows, norm(f"{theirs}.{last}", f"{ours}.norm{last + 1}")]


def attention(theirs: str, ours: str) -> list[Tensor]:
    return [matrix(f"{theirs}.{part}", f"{ours}.w_{part}") for part in "qkvo"]


def matrix(theirs: str, ours: str) -> Tensor:
    return Tensor(f"{theirs}.weight", (ours,), transposed=True)


def norm(theirs: str, ours: str) -> Tensor:
    return Tensor(f"{theirs}.layer_norm.weight", (f"{ours}.gain",))


def read(folder: Folder) -> Imported:
    model = model_from(folder.config)
    return Imported(model, from_tensors(model, folder.tensors), notes(folder.config))


def draw(model: T5, rng: np.random.Generator) -> Given:
    source, keep = drawn_ids(model.text, rng)
    target = rng.integers(model.text.vocabulary, size=(len(source), max(1, source.shape[1] - 3)))
    theirs = {"input_ids": source, "attention_mask": keep.astype(int), "decoder_input_ids": target}
    return Given(Inputs(source, target), theirs, {"keep": keep})  # pyright: ignore[reportArgumentType]


def states(model: T5) -> list[str]:
    stacks = ("encoder", model.depth, "drop_memory"), ("decoder", model.decoder_blocks, "drop_last")
    return [
        f"{stack}.{name}"
        for stack, depth, last in stacks
        for name in ("drop.y", *(f"blocks.{i}.resid_post" for i in range(depth - 1)), f"{last}.y")
    ]


FORMAT = Format(
    model_type="t5",
    model=T5,
    architecture=ARCHITECTURES[0],
    read=read,
    write=lambda model, params, _: (config_of(model), to_tensors(model, params)),
    draw=draw,
    modules=lambda model, _: (table(model),),
    states=states,
    special_tokens=SpecialTokens(  # it begins to write with its padding
        numbers={"pad_token_id": "pad", "decoder_start_token_id": "pad", "eos_token_id": "end"},
        frame=Frame("$A:0 {end}:0", "$A:0 {end}:0 $B:0 {end}:0", ("end",)),
    ),
    files=generation_config,
)
