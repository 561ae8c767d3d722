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
    SiLU,
    Tanh,
    TiedHead,
    tied_head,
)
from glassformer.models import BERT, GPT, ViT
from glassformer.models.text import Text
from glassformer.names import at
from glassformer.native import build, decoder
from glassformer.native.decoder import GROUP, NativeDecoder

from .compiled import VARIANTS, c_compiler, compile_library, skip_what_cannot_run
from .test_sanitizers import PATHS, STRICT, begun_early, compiled, must_race, run_sanitized

ODD = GPT(text=Text(vocabulary=101, context=53), width=60, hidden=130, heads=3, depth=2)
EVEN = GPT(text=Text(vocabulary=64, context=64), width=64, hidden=96, heads=1, depth=1, activation=GELU())
NARROW = GPT(text=Text(vocabulary=7, context=19), width=6, hidden=5, heads=2, depth=3, activation=ReLU())
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
MODELS = {"odd": ODD, "even": EVEN, "narrow": NARROW, "rotary, own head": ROTARY}


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
def drawn(model: GPT) -> Any:
    """Weights of which none is 0 or 1, larger than at the start: every mistake shows in the logits."""
    draw = np.random.default_rng(0)
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    return jax.tree.map(lambda leaf: (leaf.ndim == 1) + draw.normal(0, 0.2, leaf.shape).astype(np.float32), shapes)


def texts(model: GPT, rows: int) -> np.ndarray:
    """As long as the context."""
    draw = np.random.default_rng(rows)
    return draw.integers(model.text.vocabulary, size=(rows, model.text.context), dtype=np.int32)


@cache
def truth(model: GPT, rows: int) -> np.ndarray:
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
    while places.max() < made.context:
        errors.append(error(made.step(ids[rows, places]), expected[rows, places]))
        places = places + 1
    return max(errors)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_every_place_has_the_logits_of_forward(name: str, threads: int) -> None:
    model = MODELS[name]
    made = NativeDecoder(model, drawn(model), threads=threads)
    assert (made.context, made.vocabulary) == (model.text.context, model.text.vocabulary)
    assert largest_error(made, [5, 1, 17]) < 1e-5
    assert largest_error(made, [1, 1, 1]) < 1e-5


def test_a_full_context_and_more_rows_than_a_tile_has() -> None:
    assert largest_error(NativeDecoder(ODD, drawn(ODD)), [53, 1, 8, 16, 17, 9, 32, 33, 3, 53, 2]) < 1e-5


def test_prompts_that_are_read_in_several_groups() -> None:
    model = GPT(text=Text(vocabulary=50, context=GROUP + 50), width=24, hidden=48, heads=2, depth=2)
    lengths = [GROUP + 40, GROUP // 2, GROUP, 1, GROUP + 1]
    assert largest_error(NativeDecoder(model, drawn(model)), lengths) < 1e-5


def test_more_texts_and_heads_than_a_phase_has_items() -> None:
    model = GPT(text=Text(vocabulary=5, context=2), width=300, hidden=4, heads=300, depth=1)
    assert largest_error(NativeDecoder(model, drawn(model)), [1] * 2100) < 1e-5


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
    assert (made.threads_for(1), made.threads_for(GROUP)) == (1, 1)
    cores = decoder.cores()
    made.weights = np.broadcast_to(np.float32(0), 1_000_000)
    assert (made.threads_for(1), made.threads_for(8), made.threads_for(64)) == (1, 1, cores)
    made.threads = 3
    assert made.threads_for(1) == 3


@pytest.mark.parametrize(
    "variant", [pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS if name != "native"]
)
def test_on_other_processors(variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_what_cannot_run(variant)
    library = compile_library(decoder.SOURCE, variant, tmp_path)
    monkeypatch.setattr(build, "load", lambda source, notice: library)
    for model in MODELS.values():
        made = NativeDecoder(model, drawn(model), threads=2)
        assert made.panel == {"scalar": 2, "avx2": 16, "plain": 8}.get(variant, made.panel)
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
    with pytest.raises(EngineError, match=r"the native decoder has no \w+ yet \(.*\): it expects \w+ there"):
        NativeDecoder(bert, None)
    with pytest.raises(EngineError, match=r"the native decoder has no Tanh yet \(blocks.0.ff.activation\)"):
        NativeDecoder(GPT(depth=1, activation=Tanh()), None)  # pyright: ignore[reportArgumentType]


def test_ways_to_attend() -> None:
    """Blockwise attention and checkpoints are computed plainly; windows and linear attention are left to JAX."""
    model = replace(ODD, attend=BlockwiseAttention(block=4), checkpoint=True)
    ids = texts(ODD, 2)
    same = [NativeDecoder(one, drawn(ODD)).start(ids, [4, 9]).tolist() for one in (ODD, model)]
    assert same[0] == same[1]
    with pytest.raises(EngineError, match=r"has no CausalSelfAttention with mask yet \(blocks.0.attn\)"):
        NativeDecoder(replace(ODD, window=3), None)
    with pytest.raises(EngineError, match=r"the native decoder has no linear attention yet \(blocks.0.attn\)"):
        NativeDecoder(replace(ODD, attend=LinearAttention()), None)


def test_more_threads_than_there_can_be() -> None:
    made = NativeDecoder(ODD, drawn(ODD), threads=1000)
    alone = NativeDecoder(ODD, drawn(ODD), threads=1)
    assert made.start(texts(ODD, 1), [5]).tolist() == alone.start(texts(ODD, 1), [5]).tolist()


# Under sanitizers: arrays have exactly the size that is needed

MAIN = r"""
#include "decode.h"
#include <stdio.h>
#include <stdlib.h>

enum { B = 3, C = 100, H = 4, D = C / H, F = 130, L = 2, V = 71, CONTEXT = 37 }; /* every thread has panels */

static float *room(size_t floats)
{
    void *made;
    if (posix_memalign(&made, 64, floats * sizeof(float))) exit(3);
    for (size_t i = 0; i < floats; i++) ((float *)made)[i] = 0.1f * (float)(i * 2654435761u % 1000) / 1000.0f;
    return made;
}

int main(int argc, char **argv)
{
    const int slots = PANELS(CONTEXT) * PANEL, lengths[B] = {20, 1, 11};
    int32_t owner[32], place[32], wanted[B] = {19, 20, 31};
    float *keys = room((size_t)(L * B * H * D) * slots), *values = room(L * B * H * panels_of(slots, D));
    float *weights = room(L * (panels_of(C, 3 * C) + panels_of(C, C) + panels_of(C, F) + panels_of(F, C) +
                               6 * panels_of(1, C) + panels_of(1, 3 * C) + panels_of(1, F)) +
                          2 * panels_of(1, C) + panels_of(C, V));
    float *rotations = room(CONTEXT * D), *logits = room((size_t)B * PANELS(V) * PANEL);
    decoding work = {.weights = weights, .rotations = rotations, .keys = keys, .values = values, .logits = logits,
                     .owner = owner, .place = place, .wanted = wanted, .tokens = 32, .wants = B, .sequences = B,
                     .slots = slots, .width = C, .heads = H, .hidden = F, .depth = L, .vocabulary = V,
                     .threads = argc > 1 ? atoi(argv[1]) : 1, .eps = 1e-5f, .scale = 0.4f};
    int n = 0, good = 1;
    for (int b = 0; b < B; b++)
        for (int t = 0; t < lengths[b]; t++, n++) owner[n] = b, place[n] = t;
    for (int step = 0; step < CONTEXT - 20; step++) {
        float *x = room((size_t)work.tokens * C);
        work.x = x, work.activation = step % 4;
        work.space = room((size_t)gf_decode_space(&work));
        gf_decode(&work);
        for (int b = 0; b < B; b++)
            for (int v = 0; v < V; v++) good &= isfinite(logits[b * PANELS(V) * PANEL + v]) != 0;
        free(x), free(work.space);
        work.tokens = B;
        for (int b = 0; b < B; b++) owner[b] = wanted[b] = b, place[b] = lengths[b] + step;
    }
    free(keys), free(values), free(weights), free(rotations), free(logits);
    return good ? 0 : 1;
}
"""


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
    short = MAIN.replace("panels_of(C, V));", "panels_of(C, V) - 1);")
    assert short != MAIN
    with pytest.raises(AssertionError, match="READ of size"):
        run_sanitized("address,undefined", PATHS["vector"], short, 1, tmp_path)


@pytest.mark.slow
def test_a_sanitizer_sees_a_phase_that_begins_too_early(tmp_path: Path) -> None:
    must_race(begun_early() + MAIN, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("path", PATHS)
def test_compilers_have_nothing_to_say(compiler: str, path: str, tmp_path: Path) -> None:
    found = shutil.which(compiler) or pytest.skip(f"no {compiler}")
    made, said = compiled(found, (*STRICT, *PATHS[path]), decoder.SOURCE, tmp_path)
    assert made.exists(), said
    assert said == ""
