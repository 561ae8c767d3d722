"""Peers that write with the same weights as ours: `transformers`, CTranslate2, llama.cpp, where installed."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.bench import ctranslate2_peer, llama_cpp_peer
from glassformer.cores import cores
from glassformer.hub import gpt2
from glassformer.models import GPT

if TYPE_CHECKING:
    from torch import Tensor

ATTENTION = ("sdpa", "eager")  # ways in which transformers attends
THEIRS = "transformers "

Heard = Callable[[int], None]  # is told every token as it is written
Write = Callable[[np.ndarray, int, Heard], None]  # prompt (T), how many tokens to write


def peers_writing(model: GPT, params: Any) -> dict[str, Write]:
    """Of all that are installed."""
    found: dict[str, Write] = {}
    if transformers_version():
        found |= {THEIRS + attention: transformers_writing(model, params, attention) for attention in ATTENTION}
    if ctranslate2_peer.version():
        found |= {f"ctranslate2 {kind}": ctranslate2_peer.writing(model, params, kind) for kind in ("float32", "int8")}
    if llama_cpp_peer.version():
        kinds = llama_cpp_peer.kinds(model)
        found |= {f"llama.cpp {kind}": llama_cpp_peer.writing(model, params, kind) for kind in kinds}
    return found


def transformers_writing(model: GPT, params: Any, attention: str) -> Write:
    """`generate` of the same model with the same weights, which tells a streamer of every token."""
    import torch
    import transformers

    torch.set_num_threads(cores())
    endless: dict[str, Any] = {"bos_token_id": None, "eos_token_id": None}  # nothing ends a text but its length
    config: dict[str, Any] = gpt2.config_of(model) | endless | {"attn_implementation": attention}
    network: Any = transformers.GPT2LMHeadModel(transformers.GPT2Config(**config)).eval()
    tensors = {name: torch.tensor(np.asarray(array)) for name, array in gpt2.to_tensors(model, params).items()}
    network.load_state_dict(tensors, strict=False)  # the head is the embedding again
    network.tie_weights()

    def write(prompt: np.ndarray, tokens: int, heard: Heard) -> None:
        ids = torch.tensor(prompt[None], dtype=torch.int64)
        with torch.inference_mode():
            network.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=tokens,
                pad_token_id=0,
                streamer=Listener(heard),
            )

    return write


class Listener:
    """What `generate` calls a streamer; it is given the prompt first."""

    def __init__(self, heard: Heard) -> None:
        self.heard, self.prompt_came = heard, False

    def put(self, value: "Tensor") -> None:
        if self.prompt_came:
            self.heard(int(value))
        self.prompt_came = True

    def end(self) -> None:
        pass


def transformers_version() -> str | None:
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError:
        return None
    return transformers.__version__
