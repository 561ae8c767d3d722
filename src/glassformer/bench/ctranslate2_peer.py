"""CTranslate2 with our weights: a GPT that writes, an encoder that reads. Asked for only where it is installed.

It reads a folder of its own format, which is made here and is gone when it is loaded.
"""

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer.cores import cores
from glassformer.models import BERT, GPT
from glassformer.names import named_leaves

Weights = dict[str, Any]  # ours, by dotted name


def version() -> str | None:
    try:
        import ctranslate2  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    return ctranslate2.__version__


def writing(model: GPT, params: Any, kind: str) -> Callable[[np.ndarray, int, Callable[[int], None]], None]:
    import ctranslate2  # pyright: ignore[reportMissingImports]

    specs, weights = ctranslate2.specs, named_leaves(params)
    spec: Any = specs.TransformerDecoderModelSpec.from_config(
        model.depth, model.heads, pre_norm=True, activation=specs.Activation.GELUTanh
    )
    embedding(spec.decoder, spec.decoder.embeddings, weights)
    spec.decoder.projection.weight = np.array(weights["embed.emb"])
    norm(spec.decoder.layer_norm, weights, "norm")
    blocks(spec.decoder.layer, weights)
    spec.config.bos_token = spec.config.eos_token = "0"
    generator = loaded(ctranslate2.Generator, spec, model.text.vocabulary, kind)

    def write(prompt: np.ndarray, tokens: int, heard: Callable[[int], None]) -> None:
        words = [str(token) for token in prompt]
        for step in generator.generate_tokens(words, max_length=tokens, sampling_topk=1, end_token=[]):
            heard(step.token_id)

    return write


def encoding(model: BERT, params: Any) -> Callable[[np.ndarray], np.ndarray]:
    """ids (B, T) -> the mean of the tokens of each sentence (B, C)."""
    import ctranslate2  # pyright: ignore[reportMissingImports]

    specs, weights = ctranslate2.specs, named_leaves(params)
    encoder: Any = specs.TransformerEncoderSpec(
        model.depth,
        model.heads,
        pre_norm=False,
        activation=specs.Activation.GELU,
        layernorm_embedding=True,
        num_source_embeddings=2,
        embeddings_merge=specs.EmbeddingsMerge.ADD,
    )
    embedding(encoder, encoder.embeddings[0], weights)
    encoder.embeddings[1].weight = np.array(weights["segment.emb"])
    norm(encoder.layernorm_embedding, weights, "norm")
    blocks(encoder.layer, weights)
    spec: Any = specs.TransformerEncoderModelSpec(encoder)
    spec.config.layer_norm_epsilon = model.eps
    reader = loaded(ctranslate2.Encoder, spec, model.text.vocabulary, "float32")

    def encode(ids: np.ndarray) -> np.ndarray:
        inputs = ctranslate2.StorageView.from_array(np.ascontiguousarray(ids, np.int32))
        lengths = ctranslate2.StorageView.from_array(np.full(len(ids), ids.shape[1], np.int32))
        kinds = np.zeros(ids.shape, int).tolist()
        output = reader.forward_batch(inputs, lengths, token_type_ids=kinds)
        return np.asarray(output.last_hidden_state).mean(axis=1)

    return encode


def loaded(kind_of_model: Any, spec: Any, vocabulary: int, kind: str) -> Any:
    spec.config.unk_token = "0"
    spec.register_vocabulary([str(i) for i in range(vocabulary)])
    spec.validate()
    spec.optimize(quantization=kind)
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        return kind_of_model(folder, device="cpu", compute_type=kind, inter_threads=1, intra_threads=cores())


def embedding(stack: Any, table: Any, weights: Weights) -> None:
    stack.scale_embeddings = False
    table.weight = np.array(weights["embed.emb"])
    stack.position_encodings.encodings = np.array(weights["positions.pos"])


def blocks(layers: Any, weights: Weights) -> None:
    """Weights are transposed to (out, in); copies, since they are changed there."""
    for i, layer in enumerate(layers):
        attn, ff = f"blocks.{i}.attn", f"blocks.{i}.ff"
        norm(layer.self_attention.layer_norm, weights, f"blocks.{i}.norm1")
        linear(layer.self_attention.linear[0], weights, *((f"{attn}.w_{side}", f"{attn}.b_{side}") for side in "qkv"))
        linear(layer.self_attention.linear[1], weights, (f"{attn}.w_o", f"{attn}.b_o"))
        norm(layer.ffn.layer_norm, weights, f"blocks.{i}.norm2")
        linear(layer.ffn.linear_0, weights, (f"{ff}.w_up", f"{ff}.b_up"))
        linear(layer.ffn.linear_1, weights, (f"{ff}.w_down", f"{ff}.b_down"))


def norm(place: Any, weights: Weights, name: str) -> None:
    place.gamma, place.beta = np.array(weights[f"{name}.gain"]), np.array(weights[f"{name}.bias"])


def linear(place: Any, weights: Weights, *names: tuple[str, str]) -> None:
    place.weight = np.ascontiguousarray(np.concatenate([np.asarray(weights[w]) for w, _ in names], axis=1).T)
    place.bias = np.concatenate([np.asarray(weights[b]) for _, b in names])
