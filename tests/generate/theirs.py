"""Small models of the transformers library with random weights, and the same in ours."""

from typing import Any, NamedTuple

import pytest

from glassformer.data.tokeniser import Tokeniser
from glassformer.data.tokeniser_training import Characters
from glassformer.hub import gpt2, t5

ALPHABET = "abcdefghijklmnopqr"
TOKENISER: Tokeniser = Characters().train([ALPHABET])
VOCABULARY = TOKENISER.size  # 23
PAD, END = 0, 3
CONTEXT = 29


class Both(NamedTuple):
    theirs: Any
    model: Any
    params: Any


def transformers() -> Any:
    pytest.importorskip("torch")
    return pytest.importorskip("transformers", minversion="5.22")


def gpt2_of_both(seed: int = 0, **settings: Any) -> Both:
    library = transformers()
    sizes = {"vocab_size": VOCABULARY, "n_positions": CONTEXT, "n_embd": 12, "n_head": 3, "n_layer": 2}
    special = {"bos_token_id": END, "eos_token_id": END, "pad_token_id": PAD}
    theirs = drawn(library.GPT2LMHeadModel(library.GPT2Config(**(sizes | special | settings))), seed)
    return both(theirs, gpt2)


def t5_of_both(seed: int = 0, **settings: Any) -> Both:
    library = transformers()
    sizes = {"vocab_size": VOCABULARY, "n_positions": CONTEXT, "d_model": 12, "num_heads": 3, "d_kv": 5, "d_ff": 17}
    more = {"num_layers": 2, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 10}
    special = {"pad_token_id": PAD, "eos_token_id": END, "decoder_start_token_id": PAD}
    config = library.T5Config(**(sizes | more | special | settings))
    theirs = drawn(library.T5ForConditionalGeneration(config), seed, std=0.8)
    theirs.shared.weight.data[END] *= 4  # so that some answers end early
    return both(theirs, t5)


def both(theirs: Any, hub: Any) -> Both:
    model = hub.model_from(theirs.config.to_dict())
    tensors = {name: value.numpy() for name, value in theirs.state_dict().items()}
    return Both(theirs, model, hub.from_tensors(model, tensors))


def drawn(theirs: Any, seed: int, std: float = 0.5) -> Any:
    """Every weight drawn, matrices large: as they start, all texts are alike."""
    import torch

    torch.manual_seed(seed)
    for name, weight in theirs.named_parameters():
        gain = weight.ndim == 1 and name.endswith("weight")
        torch.nn.init.normal_(weight, mean=1.0 if gain else 0.0, std=std if weight.ndim == 2 else 0.05)
    return theirs.eval()


def generated(theirs: Any, ids: list[int], **settings: Any) -> list[int]:
    """What they write behind the ids (T5: behind the start token), less the end token."""
    import torch

    settings = {"do_sample": False, "max_new_tokens": 10, **settings}
    given, threads = torch.tensor([ids]), torch.get_num_threads()
    torch.set_num_threads(1)  # models as small as these are many times slower on several
    out = theirs.generate(given, attention_mask=torch.ones_like(given), **settings)[0].tolist()
    torch.set_num_threads(threads)
    out = out[1 if theirs.config.is_encoder_decoder else len(ids) :]
    return out[: out.index(END)] if END in out else out
