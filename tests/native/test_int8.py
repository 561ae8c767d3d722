"""int8 and bf16 weights: products against NumPy with the same arithmetic, on every processor; what is kept in a run."""

import ctypes
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.errors import EngineError, FileError, SettingError, ShapeError
from glassformer.generate.engines import decoder_for
from glassformer.models import GPT, RecurrentLM
from glassformer.models.text import Text
from glassformer.native import packed_weights
from glassformer.native.decoder import NativeDecoder
from glassformer.native.packed_weights import CACHE, KINDS, Packing

from .compiled import VARIANTS, c_compiler, compile_library, skip_what_cannot_run
from .test_decoder import LLAMA, ODD, drawn, error, texts, truth

GROUP = 64
PRODUCT = r"""
#include "weight_panels.h"
/* y (N, PANELS(O) * PANEL)  <-  b + x (N, K) @ w, and x as it was rounded: q (N, quantised_row(K)), scales, sums. */
void product(float *y, int8_t *q, float *scales, int32_t *sums, const char *w, const float *b, const float *x, int K,
             int O, int N, int kind)
{
    const product_rows rows = {x, K, {q, scales, sums}};
    for (int n = 0; n < N; n++)
        quantise_row(q + n * quantised_row(K), scales + n * QUANT_GROUPS(K), sums + n * QUANT_GROUPS(K), x + n * K, K);
    for (int p = 0; p < PANELS(O); p++)
        weight_panel(y + p * PANEL, PANELS(O) * PANEL, w + (size_t)p * bytes_of_panel(K, kind), b + p * PANEL, &rows,
                     K, N, 0, kind);
}
"""
SIZES = [(1, 1, 1), (3, 5, 2), (64, 33, 1), (65, 40, 3), (130, 71, 9), (200, 31, 17)]  # K, O, N


@pytest.fixture(autouse=True, scope="module")
def needs_a_compiler() -> None:
    c_compiler()


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class Products:
    def __init__(self, variant: str, folder: Path) -> None:
        skip_what_cannot_run(variant)
        self.library = compile_library(PRODUCT, variant, folder)
        self.library.gf_bytes_of_matrix.restype = ctypes.c_int64
        self.panel: int = self.library.gf_panel()

    def packed(self, w: np.ndarray, kind: int) -> np.ndarray:
        to = np.zeros(self.library.gf_bytes_of_matrix(*w.shape, kind), np.uint8)
        down, right = (stride // 4 for stride in w.strides)
        work = Packing(to.ctypes.data, w.ctypes.data, down, right, *w.shape, kind, 2)
        self.library.gf_pack(ctypes.byref(work))
        return to

    def __call__(self, w: np.ndarray, b: np.ndarray, x: np.ndarray, kind: int) -> tuple[np.ndarray, np.ndarray]:
        """y (N, O), and the rounded rows (N, K)."""
        count, given, wanted = len(x), *w.shape
        columns, groups = -(-wanted // self.panel) * self.panel, -(-given // GROUP)
        y, q = np.empty((count, columns), np.float32), np.empty((count, groups * GROUP), np.int8)
        scales, sums = np.empty((count, groups), np.float32), np.empty((count, groups), np.int32)
        bias, weights = np.pad(b, (0, columns - wanted)), self.packed(w, kind)
        arrays = map(pointer, (y, q, scales, sums, weights, bias, x))
        self.library.product(*arrays, given, wanted, count, kind)
        np.testing.assert_array_equal(sums, q.reshape(count, groups, GROUP).sum(axis=-1, dtype=np.int32))
        assert not q[:, given:].any()
        return y[:, :wanted], q[:, :given]


def rounded(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of one group along the first axis: 8 bits, and scales."""
    scale = np.abs(x).max(axis=0) / np.float32(127)
    inverse = np.where(scale > 0, np.float32(1) / np.where(scale > 0, scale, 1), 0).astype(np.float32)
    return np.rint(x * inverse).astype(np.int32), scale


def int8_product(w: np.ndarray, b: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The arithmetic of quantised_matmul.h in NumPy."""
    y, rows = np.tile(b.astype(np.float64), (len(x), 1)), []
    for k in range(0, len(w), GROUP):
        (q_w, scale_w), (q_x, scale_x) = rounded(w[k : k + GROUP]), rounded(x[:, k : k + GROUP].T)
        y += (q_x.T @ q_w) * scale_x[:, None].astype(np.float64) * scale_w
        rows.append(q_x.T)
    return y, np.concatenate(rows, axis=1)


def numbers(rows: int, columns: int, count: int) -> list[np.ndarray]:
    """W, b and x."""
    draw, shapes = np.random.default_rng(rows), ((rows, columns), (columns,), (count, rows))
    return [draw.normal(size=shape).astype(np.float32) for shape in shapes]


ON_ALL = [name if name == "native" else pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS]


@pytest.mark.parametrize("variant", ON_ALL)
def test_products_are_those_of_numpy(variant: str, tmp_path: Path) -> None:
    """Rounded to the same bits on every processor, and, where one group is all, the same product to the bit."""
    products = Products(variant, tmp_path)
    for sizes in SIZES:
        w, b, x = numbers(*sizes)
        expected, q = int8_product(w, b, x)
        for matrix in (w, np.asfortranarray(w)):
            y, came = products(matrix, b, x, KINDS.index("int8"))
            np.testing.assert_array_equal(came, q)
            np.testing.assert_allclose(y, expected, rtol=0, atol=2e-6 * np.abs(expected).max())
        half = (w.view(np.uint32) + 0x7FFF + (w.view(np.uint32) >> 16 & 1)) & np.uint32(0xFFFF0000)  # bf16
        y, _ = products(w, b, x, KINDS.index("bf16"))
        np.testing.assert_allclose(
            y, b + x.astype(np.float64) @ half.view(np.float32), rtol=0, atol=1e-5 * len(w) ** 0.5
        )
    w, b, x = numbers(61, 37, 5)
    (q_w, scale_w), (q_x, scale_x) = rounded(w), rounded(x.T)
    exact = (q_x.T @ q_w).astype(np.float32) * (scale_w * scale_x[:, None])
    y, _ = products(w, 0 * b, x, KINDS.index("int8"))
    np.testing.assert_array_equal(y, exact)


def test_the_largest_sums_fit_and_what_is_no_number_shows(tmp_path: Path) -> None:
    products, int8 = Products("native", tmp_path), KINDS.index("int8")
    w, b, x = np.full((128, 3), -2.0, np.float32), np.zeros(3, np.float32), np.full((2, 128), 3.0, np.float32)
    np.testing.assert_allclose(products(w, b, x, int8)[0], -768, rtol=1e-6)
    np.testing.assert_array_equal(products(0 * w, b, x, int8)[0], 0)
    for wrong in (np.nan, np.inf):
        x[1, 70] = wrong
        y, _ = products(w, b, x, int8)
        assert np.isfinite(y[0]).all()
        assert np.isnan(y[1]).all()
    x[1] = 1e-40  # the largest magnitude over 127 has no inverse
    np.testing.assert_array_equal(products(w, b, x, int8)[0][1], 0)
    w[5, 1] = np.nan
    assert np.isnan(products(w, b, x[:1], int8)[0]).tolist() == [[False, True, False]]


@pytest.mark.parametrize("weights", ["bf16", "int8"])
@pytest.mark.parametrize("model", [ODD, LLAMA], ids=["gpt", "llama"])
def test_logits_are_near_those_of_float32(model: Any, weights: Any) -> None:
    """Prompts of many tokens and steps of one have the same arithmetic; both are near what float64 says."""
    made = NativeDecoder(model, drawn(model), weights=weights)
    ids, expected = texts(model, 2), truth(model, 2)
    whole = np.concatenate(list(made.logits(ids))).reshape(expected.shape)
    off = np.sqrt(np.mean((whole - expected) ** 2) / np.mean(expected**2))
    assert 1e-4 < off < (0.02 if weights == "bf16" else 0.06)  # weights of a random model, larger than any trained one
    assert error(made.start(ids[:, :1], [1, 1]), whole[:, 0]) < 1e-5
    for place in range(1, 12):
        assert error(made.step(ids[:, place]), whole[:, place]) < 1e-5
    made.start(ids, [53, 52])
    with pytest.raises(ShapeError, match="a text has 53 tokens already, as many as the context"):
        made.step([1, 2])
    with pytest.raises(ShapeError, match="prompts of 0 to 3 tokens came, expected 1 to 53"):
        made.start(ids, [0, 3])


def test_jax_has_float32_only() -> None:
    with pytest.raises(SettingError, match="weights int8 are read by the native engine only; leave out engine jax"):
        decoder_for(ODD, drawn(ODD), "jax", weights="int8")
    lstm = RecurrentLM(Text(31, 12), width=8, hidden=8)
    with pytest.raises(EngineError, match=r"the native decoder has no .*; leave out weights bf16"):
        decoder_for(lstm, None, weights="bf16")


# What is kept in a run folder


def kept(folder: Path, model: Any = ODD, params: Any = None) -> tuple[NativeDecoder, list[str]]:
    said: list[str] = []
    params = drawn(model) if params is None else params
    return NativeDecoder(model, params, weights="int8", folder=folder, notice=said.append), said


def test_int8_weights_are_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, said = kept(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [CACHE]
    monkeypatch.setattr(packed_weights, "pack", lambda *given: pytest.fail("it packs again"))
    again, more = kept(tmp_path)
    assert (said, more) == ([], [])
    np.testing.assert_array_equal(first.stack.weights, again.stack.weights)
    assert again.start(texts(ODD, 1), [5]).tobytes() == first.start(texts(ODD, 1), [5]).tobytes()


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda content: content[:-1], "it is cut short"),
        (lambda content: content[:70], "it is of other weights"),
        (lambda content: b"", "it is no file of int8 weights"),
        (lambda content: content[:-3] + b"abc", "it is damaged"),
        (lambda content: b"x" + content, "it is no file of int8 weights"),
    ],
)
def test_a_damaged_file_is_made_anew(harm: Any, why: str, tmp_path: Path) -> None:
    first, _ = kept(tmp_path)
    path = tmp_path / CACHE
    whole = path.read_bytes()
    path.write_bytes(harm(whole))
    again, said = kept(tmp_path)
    assert len(said) == 1
    assert said[0].startswith(f"{path}: ")
    assert why in said[0]
    assert said[0].endswith("; the weights are quantised again")
    assert path.read_bytes() == whole
    np.testing.assert_array_equal(first.stack.weights, again.stack.weights)


def test_other_weights_are_quantised_anew(tmp_path: Path) -> None:
    kept(tmp_path)
    params = drawn(ODD)
    other = params._replace(norm=params.norm._replace(gain=params.norm.gain * 1.01))
    made, said = kept(tmp_path, params=other)
    assert "it is of other weights" in said[0]
    fresh = NativeDecoder(ODD, other, weights="int8")
    np.testing.assert_array_equal(made.stack.weights, fresh.stack.weights)
    _, said = kept(tmp_path, replace(ODD, depth=1), drawn(replace(ODD, depth=1)))
    assert "it is of other weights" in said[0]


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, content: bytes) -> None:
        raise FileError("no room")

    monkeypatch.setattr(packed_weights, "write_whole", refuse)
    made, said = kept(tmp_path)
    assert said == [f"{tmp_path / CACHE} cannot be written: the int8 weights are not kept, and made again each time"]
    assert np.isfinite(made.start([[1, 2]], [2])).all()


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    """As one that may not be written to: the system refuses."""
    file = tmp_path / "file"
    file.write_text("kept")
    made, said = kept(file)
    assert said == [f"{file / CACHE} cannot be written: the int8 weights are not kept, and made again each time"]
    assert np.isfinite(made.start([[1, 2]], [2])).all()
    assert file.read_text() == "kept"


def test_several_at_once_leave_one_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All have found none, quantise, and write at the same moment."""
    together, write = threading.Barrier(3), packed_weights.write_whole

    def at_once(path: Path, content: bytes) -> None:
        together.wait(60)
        write(path, content)

    monkeypatch.setattr(packed_weights, "write_whole", at_once)
    with ThreadPoolExecutor(3) as pool:
        made = [one.result() for one in [pool.submit(kept, tmp_path) for _ in range(3)]]
    assert [said for _, said in made] == [[], [], []]
    assert [path.name for path in tmp_path.iterdir()] == [CACHE]
    monkeypatch.setattr(packed_weights, "pack", lambda *given: pytest.fail("it packs again"))
    np.testing.assert_array_equal(kept(tmp_path)[0].stack.weights, made[0][0].stack.weights)


def test_other_kinds_are_not_kept(tmp_path: Path) -> None:
    model = GPT(text=Text(30, 9), width=10, hidden=17, heads=1, depth=1)
    for kind in ("float32", "bf16"):
        NativeDecoder(model, drawn(model), weights=kind, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []
