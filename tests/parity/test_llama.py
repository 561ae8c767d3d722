"""Llama, Mistral, Qwen2, Qwen3 and SmolLM of the transformers library, moved into ours: logits, loss, every gradient.

Theirs computes norms, angles and frequencies in float32 whatever comes in, and so its loss of `labels`. `exactly`
computes the former in float64 there, by the same formulas, and the loss is PyTorch's of their logits, so that the rest
can be compared to 1e-9; as it is, both agree to 1e-5.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5.22")
import torch
import torch.nn.functional as F  # noqa: N812
import transformers
from safetensors.torch import load_file
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from glassformer.generate.decoder import as_array
from glassformer.generate.jax_decoder import JaxDecoder
from glassformer.hub import llama, rope
from glassformer.hub.folder import read_folder, write_folder
from glassformer.hub.parity import compare
from glassformer.layers import Rotary, ScaledRotary
from glassformer.layers.rope_scaling import frequencies

from .hugging_face import (
    Outcome,
    disagreement,
    drawn,
    of_ours,
    of_theirs,
    ten_steps,
    ten_steps_of_ours,
    tensors_of,
    worst_gradient,
)

VOCABULARY, CONTEXT, BATCH, TOKENS = 23, 13, 3, 11
ROPES: dict[str, dict[str, Any]] = {
    "default": {"rope_type": "default", "rope_theta": 500.0},
    "linear": {"rope_type": "linear", "factor": 3.0, "rope_theta": 10000.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.5, "rope_theta": 10000.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 40,
        "rope_theta": 1000.0,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "rope_theta": 10000.0},
    "yarn, all said": {
        "rope_type": "yarn",
        "factor": 3.0,
        "original_max_position_embeddings": 30,
        "beta_fast": 16,
        "beta_slow": 2,
        "mscale": 1.5,
        "mscale_all_dim": 0.5,
        "truncate": False,
        "rope_theta": 100.0,
    },
}
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "max_position_embeddings": CONTEXT,
    "hidden_size": 12,
    "intermediate_size": 17,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
SLIDING: dict[str, Any] = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0}
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama, biases, own head width": ("Llama", {"attention_bias": True, "head_dim": 6, "rms_norm_eps": 1e-3}),
    "smollm": (
        "Llama",
        {"hidden_size": 24, "tie_word_embeddings": True, "num_attention_heads": 6, "num_key_value_heads": 2},
    ),
    "mistral": ("Mistral", {"sliding_window": 4, "head_dim": 6}),
    "mistral, no window": ("Mistral", {"sliding_window": None, "num_key_value_heads": 3}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen2, window": ("Qwen2", SLIDING),
    "qwen3": ("Qwen3", {"hidden_size": 15, "head_dim": 10, "num_attention_heads": 6, "num_key_value_heads": 3}),
    "qwen3, window, biases": ("Qwen3", SLIDING | {"head_dim": 4, "attention_bias": True}),
    **{f"llama, {name}": ("Llama", {"head_dim": 12, "rope_parameters": rope}) for name, rope in ROPES.items()},
}
FAMILIES = ("smollm", "mistral", "qwen2, window", "qwen3")  # each rope of Llama is above
QUICK = ("mistral", "qwen2, window", "qwen3", "llama, llama3", "llama, yarn, all said")
EACH = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CONFIGS]


def theirs_for(name: str, precision: str, **more: Any) -> Any:
    family, own = CONFIGS[name]
    config = getattr(transformers, f"{family}Config")(**SIZES | {k: _copy(v) for k, v in (own | more).items()})
    return drawn(getattr(transformers, f"{family}ForCausalLM")(config), precision)


def _copy(value: Any) -> Any:
    """Theirs writes into the dictionaries that it is given."""
    return dict(value) if isinstance(value, dict) else value


def exactly(theirs: Any, model: Any) -> Any:
    """Their model with norms and angles in float64."""

    def normed(module: Any) -> Any:
        def forward(x: torch.Tensor) -> torch.Tensor:
            mean = x.pow(2).mean(-1, keepdim=True)
            return module.weight * x * torch.rsqrt(mean + module.variance_epsilon)

        return forward

    def waves(x: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with jax.enable_x64(True):
            length = jnp.array([[int(position_ids.max()) + 1]])
            pairs = np.array(pairs_of(model.rotary, model.attn.per_head, length, jnp.float64)).reshape(-1)
        angle = position_ids[..., None].double() * torch.tensor(np.tile(pairs, 2))
        scale = getattr(model.rotary, "scale", 1.0)
        return angle.cos() * scale, angle.sin() * scale

    for module in theirs.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = normed(module)
        elif type(module).__name__.endswith("RotaryEmbedding"):
            module.forward = waves
    return theirs


def pairs_of(rotary: Rotary | ScaledRotary, width: int, length: Any, dtype: Any) -> Any:
    if isinstance(rotary, Rotary):
        return frequencies(rotary.base, width, dtype)
    return rotary.scaling.frequencies(rotary.base, width, length, dtype)


@pytest.mark.parametrize("name", ROPES)
@pytest.mark.parametrize("length", [CONTEXT, 3 * CONTEXT])
def test_frequencies_are_theirs(name: str, length: int) -> None:
    config = transformers.LlamaConfig(**SIZES, head_dim=16, rope_parameters=dict(ROPES[name]))
    ours = rope.rotary_from(config.to_dict(), CONTEXT)
    kind = ROPES[name]["rope_type"]
    if kind == "default":
        theirs = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding
        expected, scale = theirs.compute_default_rope_parameters(config)
    else:
        expected, scale = ROPE_INIT_FUNCTIONS[kind](config, seq_len=length)
    pairs = pairs_of(ours, 16, jnp.array([[length]]), jnp.float32)
    np.testing.assert_allclose(np.asarray(pairs).reshape(-1), expected.numpy(), rtol=2e-6)
    assert getattr(ours, "scale", 1.0) == pytest.approx(scale, rel=1e-12)


def compared(name: str, *, exact: bool = True, padded: bool = False, **more: Any) -> tuple[Outcome, Outcome]:
    """Ours and theirs, in float64."""
    ids = np.random.default_rng(0).integers(VOCABULARY, size=(BATCH, TOKENS))
    keep = np.arange(TOKENS) < np.array([[TOKENS], [5], [8]]) if padded else np.ones_like(ids, bool)
    labels = np.concatenate([np.where(keep, ids, -100)[:, 1:], np.full((BATCH, 1), -100)], axis=1)

    theirs = theirs_for(name, "float64", **more)
    model = llama.model_from(theirs.config.to_dict())
    theirs = exactly(theirs, model) if exact else theirs
    logits = theirs(torch.tensor(ids), attention_mask=torch.tensor(keep).long() if padded else None).logits
    loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), torch.tensor(labels).reshape(-1))
    expected = of_theirs(theirs, logits, loss)

    with jax.enable_x64(True):
        params = llama.from_tensors(model, tensors_of(theirs))
        kept = {"keep": jnp.asarray(keep)} if padded else {}
        ours = of_ours(model, params, ids, labels, lambda tree: llama.to_tensors(model, tree), **kept)
    return ours, expected


@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
@pytest.mark.parametrize("precision", [pytest.param("float64", marks=pytest.mark.slow), "exact"])
@pytest.mark.parametrize("name", EACH)
def test_logits_loss_and_gradients(name: str, precision: str, padded: bool) -> None:
    exact = precision == "exact"
    ours, expected = compared(name, exact=exact, padded=padded)
    assert max(disagreement(ours, expected).values()) < (1e-9 if exact else 1e-5)
    assert not exact or worst_gradient(ours, expected) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("rope", [name for name in ROPES if name != "default"])
def test_every_rope_in_every_family(family: str, rope: str) -> None:
    ours, expected = compared(family, rope_parameters=ROPES[rope])
    assert max(disagreement(ours, expected).values()) < 1e-9
    assert worst_gradient(ours, expected) < 1e-9


@pytest.mark.parametrize("name", ["llama, dynamic", "llama, yarn"])
def test_texts_longer_than_those_trained_on(name: str) -> None:
    """Beyond its context, a dynamic rope changes its base."""
    theirs = theirs_for(name, "float64", max_position_embeddings=7)
    model = llama.model_from(theirs.config.to_dict() | {"max_position_embeddings": 7})
    ids = np.random.default_rng(1).integers(VOCABULARY, size=(2, 7 if "yarn" in name else 16))
    with torch.no_grad():
        expected = exactly(theirs, model)(torch.tensor(ids)).logits.numpy()
    with jax.enable_x64(True):
        logits, _ = model.forward(llama.from_tensors(model, tensors_of(theirs)), jnp.asarray(ids))
    np.testing.assert_allclose(logits, expected, atol=1e-9 * abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_from_theirs_and_back(name: str, tmp_path: Path) -> None:
    theirs = theirs_for(name, "float32")
    theirs.save_pretrained(tmp_path / "theirs")
    found = read_folder(tmp_path / "theirs")
    write_folder(tmp_path / "ours", found.model, found.params)
    again, about = type(theirs).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert (about["unexpected_keys"], about["missing_keys"]) == (set(), set())
    for key, value in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[key], value), key
    written, expected = (load_file(tmp_path / side / "model.safetensors") for side in ("ours", "theirs"))
    assert set(written) == set(expected)
    third = read_folder(tmp_path / "ours")
    assert third.model == found.model
    jax.tree.map(np.testing.assert_array_equal, third.params, found.params)
    assert all(row.close for row in compare(tmp_path / "ours", third))
    ids = torch.tensor(np.random.default_rng(0).integers(VOCABULARY, size=(BATCH, TOKENS)))
    with torch.no_grad():
        torch.testing.assert_close(again(ids).logits, theirs(ids).logits)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama, biases, own head width", "smollm", "mistral", "qwen2", "qwen3"])
def test_in_shards_and_bfloat16(name: str, tmp_path: Path) -> None:
    theirs = theirs_for(name, "bfloat16")
    theirs.save_pretrained(tmp_path / "theirs", max_shard_size="2KB")
    assert len([*(tmp_path / "theirs").glob("model-*.safetensors")]) > 1
    for dtype in "float32", "bfloat16":
        found = read_folder(tmp_path / "theirs", dtype=dtype)
        assert {leaf.dtype.name for leaf in jax.tree.leaves(found.params)} == {dtype}
        assert all(row.relative < 1e-5 for row in compare(tmp_path / "theirs", found))  # both compute in float32
        write_folder(tmp_path / dtype, found.model, found.params, dtype=dtype)
        again = type(theirs).from_pretrained(tmp_path / dtype)
        assert str(again.dtype) == f"torch.{dtype}"
        for key, value in theirs.state_dict().items():
            assert torch.equal(again.state_dict()[key], value.to(again.dtype)), key


def losses_of_ten_steps(name: str) -> tuple[np.ndarray, np.ndarray]:
    ids = np.random.default_rng(0).integers(VOCABULARY, size=(BATCH, TOKENS))
    theirs = theirs_for(name, "float32")
    model = llama.model_from(theirs.config.to_dict())
    params = llama.from_tensors(model, {key: value.copy() for key, value in tensors_of(theirs).items()})
    labels = np.concatenate([ids[:, 1:], np.full((BATCH, 1), -100)], axis=1)
    ours = ten_steps_of_ours(model, params, jnp.asarray(ids), jnp.asarray(labels))
    return ours, ten_steps(theirs, lambda: theirs(torch.tensor(ids), labels=torch.tensor(ids)).loss)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_ten_steps_of_adamw(name: str) -> None:
    ours, expected = losses_of_ten_steps(name)
    assert expected[-1] < expected[0]
    assert np.abs(ours / expected - 1).max() < 1e-4


GREEDY = ["llama, llama3", "smollm", "mistral", "qwen2, window", "qwen3", "llama, yarn"]
QUICKLY = ("mistral",)
PROMPTS = [[5, 3, 8, 1, 9, 2, 7], [4, 6], [11, 2, 15]]
NEW = 64


def some_slow(names: list[str]) -> list[Any]:
    return [name if name in QUICKLY else pytest.param(name, marks=pytest.mark.slow) for name in names]


def writer(name: str, context: int) -> Any:
    return theirs_for(name, "float32", max_position_embeddings=context, eos_token_id=None, pad_token_id=0)


def both_for(name: str, context: int, prompts: list[list[int]]) -> tuple[Any, Any, Any]:
    """The first of many random models whose texts are still changing at their ends: others would show little."""
    theirs = writer(name, context)
    for seed in range(100):
        draw = np.random.default_rng(seed)  # torch draws otherwise on another processor
        for weight in theirs.parameters():
            weight.data = torch.tensor(draw.normal(0.0, 0.8, weight.shape), dtype=weight.dtype)
        theirs.tie_weights()
        if all(len(set(row[-16:])) > 2 for row in by_theirs(theirs, prompts, cached=True).tolist()):
            break
    else:
        pytest.fail("all texts stand still")
    model = llama.model_from(theirs.config.to_dict())
    return theirs, model, llama.from_tensors(model, tensors_of(theirs))


def by_theirs(theirs: Any, prompts: list[list[int]], cached: bool) -> np.ndarray:
    """Greedy, of prompts of different lengths padded in front; positions follow from the attention mask."""
    longest, threads = max(map(len, prompts)), torch.get_num_threads()
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in prompts])
    seen = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in prompts])
    torch.set_num_threads(1)  # models as small as these are many times slower on several
    found = theirs.generate(ids, attention_mask=seen, max_new_tokens=NEW, do_sample=False, use_cache=cached)
    torch.set_num_threads(threads)
    return found[:, longest:].numpy()


def by_ours(decoder: JaxDecoder, prompts: list[list[int]]) -> np.ndarray:
    scores, written = decoder.start(*as_array(prompts)), []
    for _ in range(NEW):
        written.append(np.argmax(scores, axis=-1))
        scores = decoder.step(written[-1]) if len(written) < NEW else scores
    return np.stack(written, axis=1)


def without_cache(model: Any, params: Any, prompt: list[int]) -> np.ndarray:
    """Of one prompt: what follows the last token is not seen."""
    last = len(prompt) + NEW
    longer = replace(model, text=replace(model.text, context=last))
    forward = jax.jit(lambda ids: longer.forward(params, ids)[0])
    text = np.array([prompt + [0] * NEW])
    for place in range(len(prompt), last):
        text[0, place] = np.argmax(forward(text)[0, place - 1])
    return text[0, len(prompt) :]


@pytest.mark.parametrize("name", some_slow(GREEDY))
def test_greedy_for_64_tokens(name: str) -> None:
    """Prompts of different lengths: padded in front there, behind here. The window is exceeded many times over."""
    theirs, model, params = both_for(name, 80, PROMPTS)
    expected = by_theirs(theirs, PROMPTS, cached=True)
    np.testing.assert_array_equal(by_theirs(theirs, PROMPTS, cached=False), expected)
    decoder = JaxDecoder(model, params)
    np.testing.assert_array_equal(by_ours(decoder, PROMPTS), expected)
    for prompt, row in zip(PROMPTS, expected, strict=True):
        np.testing.assert_array_equal(by_ours(decoder, [prompt])[0], row)
    np.testing.assert_array_equal(without_cache(model, params, PROMPTS[0]), expected[0])


@pytest.mark.parametrize("name", some_slow(["mistral", "qwen2, window", "qwen3, window, biases"]))
def test_a_window_goes_on_beyond_the_context(name: str) -> None:
    """The context is 13, the window 4; of the prompts one is longer than both."""
    prompts = [PROMPTS[0], [*range(3, 20)], PROMPTS[1]]
    theirs, model, params = both_for(name, CONTEXT, prompts)
    expected = by_theirs(theirs, prompts, cached=True)
    np.testing.assert_array_equal(by_theirs(theirs, prompts, cached=False), expected)
    decoder = JaxDecoder(model, params)
    np.testing.assert_array_equal(by_ours(decoder, prompts), expected)
    assert max(leaf.shape[1] for leaf in jax.tree.leaves(decoder.state.blocks)) == model.window
    np.testing.assert_array_equal(by_ours(decoder, prompts[1:2])[0], expected[1])
    np.testing.assert_array_equal(without_cache(model, params, prompts[1]), expected[1])


def test_a_dynamic_rope_goes_on_beyond_the_context() -> None:
    """With a cache, each token keeps the rotation of the length at which it came: there and here. Without one, all
    change with every token, and the text is another.

    There, rows share the length of the longest of them; here, each has its own, and the text that it has alone.
    """
    prompts = [PROMPTS[0], [*range(3, 20)], PROMPTS[1]]
    theirs, model, params = both_for("llama, dynamic", CONTEXT, prompts)
    expected = []
    for prompt in prompts:
        fresh = writer("llama, dynamic", CONTEXT)  # theirs remembers the longest text that it has seen
        fresh.load_state_dict(theirs.state_dict())
        expected.append(by_theirs(fresh, [prompt], cached=True)[0])
    np.testing.assert_array_equal(by_ours(JaxDecoder(model, params), prompts), expected)
    assert not np.array_equal(without_cache(model, params, prompts[1]), expected[1]), "or the test would see nothing"
