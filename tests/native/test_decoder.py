"""The native decoder beside GPT.forward: the same logits at every place, however the text was cut into calls."""

import shutil
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from glassformer.errors import EngineError, ShapeError
from glassformer.generate.jax_decoder import JaxDecoder
from glassformer.layers import (
    GELU,
    Attention,
    BlockwiseAttention,
    CausalSelfAttention,
    Embedding,
    FeedForward,
    GELUTanh,
    LayerNorm,
    LinearAttention,
    MultiHeadAttention,
    ReLU,
    Rotary,
    ScaledRotary,
    SiLU,
    Tanh,
    TiedHead,
    tied_head,
)
from glassformer.layers.rope_scaling import DynamicScaling, Llama3Scaling, YarnScaling
from glassformer.models import BERT, GPT, Llama, ViT
from glassformer.models.text import Text
from glassformer.names import at
from glassformer.native import build, text_stack
from glassformer.native.decoder import GROUP, NativeDecoder

from .compiled import VARIANTS, c_compiler, compile_library, skip_what_cannot_run
from .test_sanitizers import PATHS, STRICT, begun_early, compiled, must_race, run_sanitized

ODD = GPT(text=Text(vocabulary=101, context=53), width=60, hidden=130, heads=3, depth=2)
EVEN = GPT(text=Text(vocabulary=64, context=64), width=64, hidden=96, heads=1, depth=1, activation=GELU())
NARROW = GPT(text=Text(vocabulary=7, context=19), width=6, hidden=5, heads=2, depth=3, activation=ReLU())
LLAMA = Llama(text=Text(vocabulary=101, context=53), width=60, hidden=130, heads=6, key_heads=2, depth=2)
ROTARY = GPT(
    text=Text(vocabulary=101, context=40),
    width=68,
    hidden=33,
    heads=2,
    depth=2,
    rotary=Rotary(),
    tied=False,
    activation=SiLU(),
)
MODELS: dict[str, Any] = {
    "odd": ODD,
    "even": EVEN,
    "narrow": NARROW,
    "rotary, own head": ROTARY,
    "window": replace(ODD, window=9),
    "llama": LLAMA,
    "qwen2": replace(LLAMA, bias="qkv", tied=False),
    "qwen3": replace(LLAMA, head_norm=True, head_width=14),
    "mistral": replace(LLAMA, window=7, heads=10, key_heads=1),  # more heads that share keys than a tile has rows
    "llama 3": replace(LLAMA, rotary=ScaledRotary(Llama3Scaling(context=16)), bias=True),
    "yarn": replace(LLAMA, rotary=ScaledRotary(YarnScaling(factor=4.0, context=16)), window=1),
}


@dataclass(frozen=True)
class OwnGPT:
    """Only forward: nobody trains it."""

    text: Text = Text(vocabulary=31, context=12)
    depth: int = 2

    @property
    def layers(self) -> dict[str, Any]:
        attend = MultiHeadAttention(12, 3, bias=False, attend=Attention(scale=0.7))
        return {
            "norm1": LayerNorm(12, 1e-3),
            "attn": CausalSelfAttention(attend),
            "norm2": LayerNorm(12, 1e-3),
            "ff": FeedForward(12, 20, ReLU(), bias=False),
        }

    def example(self, batch: int) -> Any:
        return self.text.example(batch)

    def init(self, key: Any) -> Any:
        blocks = [{name: layer.init(key) for name, layer in self.layers.items()} for _ in range(self.depth)]
        return {"table": Embedding(31, 12).init(key), "blocks": blocks, "last": LayerNorm(12, 1e-3).init(key)}

    def forward(self, params: Any, x: Any) -> Any:
        resid, _ = at("embed", Embedding(31, 12)).forward(params["table"], x)
        for i, block in enumerate(params["blocks"]):
            norm1, attn, norm2, ff = (at(f"{i}.{name}", layer) for name, layer in self.layers.items())
            a, _ = attn.forward(block["attn"], norm1.forward(block["norm1"], resid)[0])
            resid = a + resid
            f, _ = ff.forward(block["ff"], norm2.forward(block["norm2"], resid)[0])
            resid = resid + f
        h, _ = at("last", LayerNorm(12, 1e-3)).forward(params["last"], resid)
        return at("head", TiedHead(31)).forward(None, tied_head.Inputs(x=h, emb=params["table"].emb))


@pytest.fixture(autouse=True, scope="module")
def needs_a_compiler() -> None:
    c_compiler()


@cache
def drawn(model: Any) -> Any:
    """Weights of which none is 0 or 1, larger than at the start: every mistake shows in the logits."""
    draw = np.random.default_rng(0)
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    return jax.tree.map(lambda leaf: (leaf.ndim == 1) + draw.normal(0, 0.2, leaf.shape).astype(np.float32), shapes)


def texts(model: Any, rows: int) -> np.ndarray:
    """As long as the context."""
    draw = np.random.default_rng(rows)
    return draw.integers(model.text.vocabulary, size=(rows, model.text.context), dtype=np.int32)


@cache
def truth(model: Any, rows: int) -> np.ndarray:
    """The logits at every place of the texts, in float64."""
    with jax.enable_x64(True):
        params = jax.tree.map(lambda leaf: leaf.astype(np.float64), drawn(model))
        return np.asarray(jax.jit(lambda params, ids: model.forward(params, ids)[0])(params, texts(model, rows)))


def error(came: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference over the largest logit."""
    assert came.dtype == np.float32
    assert came.shape == expected.shape
    return float(np.abs(came - expected).max() / np.abs(expected).max())


def largest_error(made: NativeDecoder, lengths: list[int]) -> float:
    """Of prompts of these lengths, and of every place after them that all texts reach."""
    model: Any = made.model
    ids, rows, places = texts(model, len(lengths)), np.arange(len(lengths)), np.array(lengths)
    expected = truth(model, len(lengths))
    errors = [error(made.start(ids[:, : max(lengths)], places), expected[rows, places - 1])]
    while places.max() < ids.shape[1]:
        errors.append(error(made.step(ids[rows, places]), expected[rows, places]))
        places = places + 1
    return max(errors)


@pytest.mark.parametrize("name", MODELS)
def test_every_place_has_the_logits_of_forward(name: str) -> None:
    model = MODELS[name]
    made = NativeDecoder(model, drawn(model), threads=2)
    assert (made.context, made.vocabulary) == (model.longest, model.text.vocabulary)
    assert largest_error(made, [5, 1, 17]) < 1e-5
    assert largest_error(made, [1, 1, 1]) < 1e-5


@pytest.mark.parametrize("weights", ["float32", "bf16", "int8"])
def test_any_number_of_threads_gives_the_same_bits(weights: Any) -> None:
    ids, found = texts(LLAMA, 3), []
    for threads in (1, 2, 3):
        made = NativeDecoder(LLAMA, drawn(LLAMA), weights=weights, threads=threads)
        found.append([made.start(ids[:, :17], [5, 1, 17]).tobytes(), made.step([1, 2, 3]).tobytes()])
    assert found[0] == found[1] == found[2]


def test_a_window_has_no_end() -> None:
    """Behind the context, and behind the ring of the cache: as JAX writes it."""
    model = replace(LLAMA, window=7, text=Text(vocabulary=101, context=16))
    long = replace(model, text=Text(vocabulary=101, context=GROUP + 120))
    ids = np.random.default_rng(0).integers(101, size=(2, GROUP + 120), dtype=np.int32)
    made, expected = NativeDecoder(model, drawn(model)), np.asarray(jax.jit(long.forward)(drawn(model), ids)[0])
    assert made.slots < ids.shape[1]
    assert error(made.start(ids[:, : GROUP + 10], [GROUP + 10, 3]), expected[[0, 1], [GROUP + 9, 2]]) < 1e-5
    for step in range(110):
        logits = made.step([ids[0, GROUP + 10 + step], ids[1, 3 + step]])
        if step in (0, 57, 109):
            assert error(logits, expected[[0, 1], [GROUP + 10 + step, 3 + step]]) < 1e-5


def test_a_full_context_and_more_rows_than_a_tile_has() -> None:
    assert largest_error(NativeDecoder(ODD, drawn(ODD)), [53, 1, 8, 16, 17, 9, 32, 33, 3, 53, 2]) < 1e-5


def test_prompts_that_are_read_in_several_groups() -> None:
    model = GPT(text=Text(vocabulary=50, context=GROUP + 50), width=24, hidden=48, heads=2, depth=2)
    lengths = [GROUP + 40, GROUP // 2, GROUP, 1, GROUP + 1]
    assert largest_error(NativeDecoder(model, drawn(model)), lengths) < 1e-5


def test_more_texts_and_heads_than_a_phase_has_items() -> None:
    model = GPT(text=Text(vocabulary=5, context=2), width=300, hidden=4, heads=300, depth=1)
    assert largest_error(NativeDecoder(model, drawn(model)), [1] * 2100) < 1e-5


@pytest.mark.parametrize("model", [ODD, LLAMA], ids=["gpt", "llama"])
def test_the_same_64_tokens_as_jax(model: Any) -> None:
    longer = replace(model, text=Text(vocabulary=101, context=80))
    sides, written = [NativeDecoder(longer, drawn(longer)), JaxDecoder(longer, drawn(longer))], []
    for side in sides:
        tokens, scores = [], side.start(np.array([[3, 1, 4], [1, 5, 0]], np.int32), np.array([3, 2]))
        for _ in range(64):
            tokens.append(scores.argmax(axis=-1).tolist())
            scores = side.step(np.array(tokens[-1], np.int32))
        written.append(tokens)
    assert written[0] == written[1]
    assert len({token for pair in written[0] for token in pair}) > 3


def test_one_percent_is_noticed() -> None:
    """In a single matrix: the test above can fail."""
    params = drawn(ODD)
    block = params.blocks[1]
    wrong = block._replace(attn=block.attn._replace(w_k=1.01 * block.attn.w_k))
    made = NativeDecoder(ODD, params._replace(blocks=(params.blocks[0], wrong)))
    assert largest_error(made, [3, 20]) > 1e-4


def test_what_fills_a_prompt_up_does_not_matter() -> None:
    made, ids = NativeDecoder(ODD, drawn(ODD)), texts(ODD, 2)
    other = ids.copy()
    other[0, 4:] = 100
    np.testing.assert_array_equal(made.start(ids[:, :9], [4, 9]), made.start(other[:, :9], [4, 9]))


def test_a_new_start_forgets() -> None:
    params, ids = drawn(ODD), texts(ODD, 3)
    made = NativeDecoder(ODD, params)
    made.start(ids, [50, 40, 53])
    made.start(ids[:2, :5], [2, 5])
    fresh = NativeDecoder(ODD, params)
    fresh.start(ids[:2, :5], [2, 5])
    np.testing.assert_array_equal(made.step([3, 4]), fresh.step([3, 4]))


def test_logits_once_given_stay() -> None:
    made, ids = NativeDecoder(ODD, drawn(ODD)), texts(ODD, 1)
    first = made.start(ids[:, :5], [5])
    before = first.copy()
    made.step([7])
    np.testing.assert_array_equal(first, before)


@pytest.mark.parametrize("rows", [[2, 1, 0], [1, 1, 2], [0, 2, 2, 1, 0], [1]])
@pytest.mark.parametrize("name", ["odd", "rotary, own head"])
def test_rows_go_on_from_others(name: str, rows: list[int]) -> None:
    model, params, lengths = MODELS[name], drawn(MODELS[name]), np.array([18, 3, 33])
    ids = texts(model, 3)
    made, fresh = NativeDecoder(model, params), NativeDecoder(model, params)
    made.start(ids, lengths)
    made.reorder(rows)
    fresh.start(ids[rows], lengths[rows])
    tokens = np.arange(len(rows))
    assert error(made.step(tokens), fresh.step(tokens)) < 1e-6
    again = tokens[::-1] // 2  # some twice, some dropped
    made.reorder(again)
    fresh.reorder(again)
    assert error(made.step(tokens), fresh.step(tokens)) < 1e-6
    assert error(made.step(tokens), fresh.step(tokens)) < 1e-6


def test_random_reorderings_beside_whole_texts() -> None:
    """Rows come and go; each is told by the text that it should have read."""
    params, draw = drawn(ODD), np.random.default_rng(1)
    made, rows = NativeDecoder(ODD, params), texts(ODD, 3)[:, :7].tolist()
    made.start(np.array(rows), [7, 7, 7])
    for count in (3, 5, 2, 2, 6, 4, 1, 3):
        picked = draw.integers(len(rows), size=count)
        tokens = draw.integers(101, size=count)
        made.reorder(picked)
        rows = [[*rows[i], token] for i, token in zip(picked, tokens, strict=True)]
        fresh = NativeDecoder(ODD, params).start(np.array(rows), np.full(count, len(rows[0])))
        assert error(made.step(tokens), fresh) < 1e-6


def test_a_table_that_lies_by_columns() -> None:
    """As an importer may leave it that turned it."""
    params = drawn(ODD)
    emb, pos = np.asfortranarray(params.embed.emb), np.asfortranarray(params.positions.pos)
    turned = params._replace(embed=params.embed._replace(emb=emb), positions=params.positions._replace(pos=pos))
    assert largest_error(NativeDecoder(ODD, turned), [5, 1, 17]) < 1e-5


def test_a_start_that_is_refused_changes_nothing() -> None:
    made, ids = NativeDecoder(ODD, drawn(ODD)), texts(ODD, 2)
    made.start(ids, [4, 9])
    with pytest.raises(ShapeError):
        made.start(np.full((3, 2), 101), [1, 2, 1])
    assert error(made.step(ids[[0, 1], [4, 9]]), truth(ODD, 2)[[0, 1], [4, 9]]) < 1e-5


@pytest.mark.parametrize("activation", [GELU(), GELUTanh(), ReLU(), SiLU()], ids=lambda layer: type(layer).__name__)
def test_every_activation(activation: Any) -> None:
    model = GPT(text=Text(30, 9), width=10, hidden=17, heads=1, depth=1, activation=activation)
    assert largest_error(NativeDecoder(model, drawn(model)), [4]) < 1e-5


def test_a_model_of_another_class_with_blocks_of_its_own() -> None:
    """What counts is the structure: blocks are written out here, have no biases, and scale their scores otherwise."""
    model = OwnGPT()
    assert largest_error(NativeDecoder(model, drawn(model)), [4, 7]) < 1e-5  # pyright: ignore[reportArgumentType]


def test_one_thread_is_enough_for_little_work() -> None:
    made = NativeDecoder(ODD, drawn(ODD))
    stack = made.stack
    assert (stack.threads_for(1), stack.threads_for(GROUP)) == (1, 1)
    stack.matrices = 1_000_000
    assert (stack.threads_for(1), stack.threads_for(8), stack.threads_for(64)) == (1, 1, text_stack.cores())
    stack.threads = 3
    assert stack.threads_for(1) == 3


@pytest.mark.parametrize(
    "variant", [pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS if name != "native"]
)
def test_on_other_processors(variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_what_cannot_run(variant)
    library = compile_library(text_stack.SOURCE, variant, tmp_path)
    monkeypatch.setattr(build, "load", lambda source, notice: library)
    for name in ("odd", "even", "narrow", "rotary, own head", "mistral", "qwen3"):
        model = MODELS[name]
        made = NativeDecoder(model, drawn(model), threads=2)
        assert made.stack.panel == {"scalar": 2, "avx2": 16, "plain": 8}.get(variant, made.stack.panel)
        assert largest_error(made, [9, 1, 17]) < 1e-5


# What is refused


def refused(call: Any) -> str:
    with pytest.raises(ShapeError) as caught:
        call()
    return str(caught.value)


def test_prompts_that_are_refused() -> None:
    made, ids = NativeDecoder(ODD, drawn(ODD)), np.zeros((2, 60), np.int32)
    assert "prompts of shape (60,) and lengths of shape (2,) came" in refused(lambda: made.start(ids[0], [1, 2]))
    assert "lengths of shape (3,) came" in refused(lambda: made.start(ids, [1, 2, 3]))
    assert "prompts of 0 to 2 tokens came, expected 1 to 53" in refused(lambda: made.start(ids, [0, 2]))
    assert "prompts of 1 to 6 tokens came, expected 1 to 5" in refused(lambda: made.start(ids[:, :5], [1, 6]))
    assert "prompts of 1 to 54 tokens came, expected 1 to 53" in refused(lambda: made.start(ids, [1, 54]))
    assert "token 101 came, the vocabulary has 101: 0 to 100" in refused(lambda: made.start(ids + 101, [1, 1]))
    assert "token -1 came" in refused(lambda: made.start(ids - 1, [1, 1]))


def test_steps_that_are_refused() -> None:
    made = NativeDecoder(ODD, drawn(ODD))
    made.start(texts(ODD, 2), [53, 52])
    assert "tokens of shape (3,) came, expected (2,)" in refused(lambda: made.step([1, 2, 3]))
    assert "a text has 53 tokens already" in refused(lambda: made.step([1, 2]))
    made.reorder([1])
    assert made.step([1]).shape == (1, 101)


def test_what_has_no_c_twin_is_named() -> None:
    with pytest.raises(EngineError, match="the native decoder has no ViT yet: it reads one text a row"):
        NativeDecoder(ViT(), None)
    bert = BERT(text=Text(30, 9), width=10, hidden=17, heads=1, depth=1)
    with pytest.raises(
        EngineError, match=r"the native decoder has no \w+ yet \(.*\): it expects LayerNorm or RMSNorm there"
    ):
        NativeDecoder(bert, None)
    with pytest.raises(EngineError, match=r"the native decoder has no Tanh yet \(blocks.0.ff.activation\)"):
        NativeDecoder(GPT(depth=1, activation=Tanh()), None)  # pyright: ignore[reportArgumentType]


def test_ways_to_attend() -> None:
    """Blockwise attention and checkpoints are computed plainly; global tokens and linear attention are left to JAX."""
    model = replace(ODD, attend=BlockwiseAttention(block=4), checkpoint=True)
    ids = texts(ODD, 2)
    same = [NativeDecoder(one, drawn(ODD)).start(ids, [4, 9]).tolist() for one in (ODD, model)]
    assert same[0] == same[1]
    with pytest.raises(EngineError, match=r"has no CausalSelfAttention with mask yet \(blocks.0.attn\)"):
        NativeDecoder(replace(ODD, window=3, global_tokens=1), None)
    with pytest.raises(EngineError, match=r"the native decoder has no linear attention yet \(blocks.0.attn\)"):
        NativeDecoder(replace(ODD, attend=LinearAttention()), None)
    with pytest.raises(EngineError, match=r"has attention with a scale above 0 only \(blocks.0.attn\)"):
        NativeDecoder(replace(ODD, attend=Attention(scale=-0.5)), None)
    with pytest.raises(EngineError, match=r"no rotary positions that change with the length yet \(blocks.0.attn\)"):
        NativeDecoder(replace(LLAMA, rotary=ScaledRotary(DynamicScaling())), None)


def test_more_threads_than_there_can_be() -> None:
    made = NativeDecoder(ODD, drawn(ODD), threads=1000)
    alone = NativeDecoder(ODD, drawn(ODD), threads=1)
    assert made.start(texts(ODD, 1), [5]).tolist() == alone.start(texts(ODD, 1), [5]).tolist()


# Under sanitizers: arrays have exactly the size that is needed

MAIN = (Path(__file__).parent / "text_main.c").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_no_step_outside_memory_and_nothing_undefined(path: str, tmp_path: Path) -> None:
    run_sanitized("address,undefined", PATHS[path], MAIN, 2, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [3, 5])
def test_threads_do_not_race(threads: int, tmp_path: Path) -> None:
    run_sanitized("thread", PATHS["vector"], MAIN, threads, tmp_path)


@pytest.mark.slow
def test_a_sanitizer_sees_an_array_that_is_too_short(tmp_path: Path) -> None:
    short = MAIN.replace("weights = room((size_t)used)", "weights = room((size_t)used - 1)")
    assert short != MAIN
    with pytest.raises(AssertionError, match=r"(WRITE|READ) of size"):
        run_sanitized("address,undefined", PATHS["vector"], short, 1, tmp_path)


@pytest.mark.slow
def test_a_sanitizer_sees_a_phase_that_begins_too_early(tmp_path: Path) -> None:
    must_race(begun_early() + MAIN, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("path", PATHS)
def test_compilers_have_nothing_to_say(compiler: str, path: str, tmp_path: Path) -> None:
    found = shutil.which(compiler) or pytest.skip(f"no {compiler}")
    made, said = compiled(found, (*STRICT, *PATHS[path]), text_stack.SOURCE, tmp_path)
    assert made.exists(), said
    assert said == ""
