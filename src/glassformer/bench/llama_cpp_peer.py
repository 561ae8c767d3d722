"""llama.cpp with our weights: a GPT that writes. Asked for only where `llama-cpp-python` and `gguf` are installed.

The GGUF file that it reads is made here, in float32 or in its own 8 bits (Q8_0), and is gone when it is loaded. Its
cache of keys and values is float32 beside float32, else half precision, its default.
"""

import importlib.metadata
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.cores import cores
from glassformer.models import GPT
from glassformer.names import named_leaves

NORMS = {"norm1": "attn_norm", "norm2": "ffn_norm"}
LINEAR = {"attn.{}_o": "attn_output", "ff.{}_up": "ffn_up", "ff.{}_down": "ffn_down"}


def version() -> str | None:
    try:
        import gguf  # noqa: F401  # pyright: ignore[reportMissingImports]
        import llama_cpp  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    return importlib.metadata.version("llama-cpp-python")


def kinds(model: GPT) -> tuple[str, ...]:
    """Of weights that it can have: Q8_0 has groups of 32 numbers, and no shorter one at the end."""
    return ("float32", "q8_0") if model.width % 32 == model.hidden % 32 == 0 else ("float32",)


def writing(model: GPT, params: Any, kind: str) -> Callable[[np.ndarray, int, Callable[[int], None]], None]:
    import gguf  # pyright: ignore[reportMissingImports]
    import llama_cpp  # pyright: ignore[reportMissingImports]

    api: Any = llama_cpp
    api.llama_log_set(SILENT := api.llama_log_callback(lambda level, text, data: None), None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        write_gguf(path, model, named_leaves(params), kind)
        settings = api.llama_model_default_params()
        settings.use_mmap = False
        network = api.llama_model_load_from_file(str(path).encode(), settings)
    limits = api.llama_context_default_params()
    limits.n_ctx = model.text.context
    limits.n_threads = limits.n_threads_batch = cores()
    if kind == "float32":
        limits.type_k = limits.type_v = int(gguf.GGMLQuantizationType.F32)
    context = api.llama_init_from_model(network, limits)

    def scores_after(tokens: np.ndarray) -> np.ndarray:
        ids = (api.llama_token * len(tokens))(*tokens.tolist())
        if failed := api.llama_decode(context, api.llama_batch_get_one(ids, len(tokens))):
            raise RuntimeError(f"llama_decode: {failed}")
        return np.ctypeslib.as_array(api.llama_get_logits_ith(context, -1), (model.text.vocabulary,))

    def write(prompt: np.ndarray, tokens: int, heard: Callable[[int], None]) -> None:
        _ = SILENT  # the library keeps only its address
        api.llama_memory_clear(api.llama_get_memory(context), True)
        scores = scores_after(prompt)
        for left in reversed(range(tokens)):
            token = int(scores.argmax())
            heard(token)
            if left:
                scores = scores_after(np.array([token]))

    return write


def write_gguf(path: Path, model: GPT, weights: dict[str, Any], kind: str) -> None:
    import gguf  # pyright: ignore[reportMissingImports]

    eight_bits = gguf.GGMLQuantizationType.Q8_0
    out = gguf.GGUFWriter(str(path), "gpt2")
    out.add_vocab_size(model.text.vocabulary)
    out.add_context_length(model.text.context)
    out.add_embedding_length(model.width)
    out.add_feed_forward_length(model.hidden)
    out.add_block_count(model.depth)
    out.add_head_count(model.heads)
    out.add_layer_norm_eps(model.eps)
    out.add_tokenizer_model("none")

    def add(name: str, array: np.ndarray) -> None:
        if kind == "q8_0" and array.ndim == 2 and name != "position_embd.weight":
            out.add_tensor(name, gguf.quants.quantize(array, eight_bits), raw_dtype=eight_bits)
        else:
            out.add_tensor(name, np.ascontiguousarray(array, np.float32))

    def both(name: str, w: str, b: str) -> None:
        add(f"{name}.weight", np.ascontiguousarray(np.asarray(weights[w]).T))  # (out, in) there; of a gain: itself
        add(f"{name}.bias", np.asarray(weights[b]))

    add("token_embd.weight", np.asarray(weights["embed.emb"]))
    add("position_embd.weight", np.asarray(weights["positions.pos"]))
    both("output_norm", "norm.gain", "norm.bias")
    for i in range(model.depth):
        ours, theirs = f"blocks.{i}.", f"blk.{i}."
        for name, called in NORMS.items():
            both(theirs + called, f"{ours}{name}.gain", f"{ours}{name}.bias")
        for name, called in LINEAR.items():
            both(theirs + called, ours + name.format("w"), ours + name.format("b"))
        for kind_of, name in (("weight", "w"), ("bias", "b")):
            parts = [np.asarray(weights[f"{ours}attn.{name}_{side}"]).T for side in "qkv"]
            add(f"{theirs}attn_qkv.{kind_of}", np.ascontiguousarray(np.concatenate(parts)))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
