"""Every kernel alone, compiled in several ways, against its Python twin: forward, and every gradient.

Errors are counted as DESIGN says: the largest difference over the largest gradient of the layer; of a forward value,
over its own largest. Kernels are called between guards, so that reading or writing beyond an array shows.
"""

import math
import os
import re
from functools import cache
from typing import Any

import numpy as np
import pytest

from glassformer.check.gradients import leaf_errors
from glassformer.native import build

from .cases import CASES, PAIRS, TRIPLES, Case, Values, draw, empty, instances, padded_rows, truth_of
from .compiled import VARIANTS, Kernels, compile_once, library_source, skip_what_cannot_run
from .text_cases import TEXT_CASES

ALL = [*CASES, *TEXT_CASES]
NAN, INF = np.float32(np.nan), np.float32(np.inf)


@pytest.fixture(
    params=[pytest.param(name, marks=() if name == "native" else pytest.mark.slow) for name in VARIANTS],
    scope="session",
)
def kernels(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    """All kernels at all sizes of the cases, in one library."""
    skip_what_cannot_run(request.param)
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    return Kernels(compile_once(library_source(instances(ALL)), request.param, shared / f"kernels-{request.param}"))


def errors_of(ours: Values, truth: Values) -> dict[str, float]:
    assert ours.keys() == truth.keys()
    gradients = [name for name in truth if name.startswith("d")]
    groups = [gradients, *([name] for name in truth if name not in gradients)]
    parts = [
        leaf_errors({name: ours[name] for name in group}, {name: truth[name] for name in group}) for group in groups
    ]
    return {name: error for part in parts for name, error in part.items()}


def too_large(errors: dict[str, float]) -> dict[str, float]:
    return {name: error for name, error in errors.items() if not error <= 1e-5}


@pytest.mark.parametrize("case", ALL, ids=str)
def test_kernel_is_its_twin(kernels: Kernels, case: Case) -> None:
    ours, truth = case.ours(kernels), truth_of(case)
    for name, value in truth.items():
        assert np.shape(ours[name]) == np.shape(value), name
    assert too_large(errors_of(ours, truth)) == {}


def test_lanes_are_those_of_the_variant(kernels: Kernels, request: pytest.FixtureRequest) -> None:
    """Else a variant would test another one once more."""
    expected = {"scalar": {1}, "avx2": {8}, "plain": {4}, "native": {4, 8, 16}, "clang": {4, 8, 16}}
    assert kernels.lanes in expected[request.node.callspec.params["kernels"]]


@pytest.mark.parametrize("case", [CASES[0], *(case for case in CASES if case.name == "softmax 17")], ids=str)
def test_one_percent_is_noticed(kernels: Kernels, case: Case) -> None:
    ours = case.ours(kernels)
    assert set(too_large(errors_of({name: 1.01 * value for name, value in ours.items()}, truth_of(case)))) >= {
        "y",
        "dx",
    }


def test_a_write_beyond_the_end_is_noticed(kernels: Kernels) -> None:
    """The kernel of 16 numbers, given 15."""
    with pytest.raises(AssertionError, match=r"residual_forward wrote outside an array of shape \(15,\)"):
        kernels.call("residual_forward", (empty(15), draw(15), draw(15)), 16)


# What is not a number, and what is infinite


@pytest.mark.parametrize("n", [7, 16, 17])
def test_relu_keeps_nan_and_infinity(kernels: Kernels, n: int) -> None:
    x = draw(n)
    x[[0, 3, 5]] = NAN, INF, -INF
    y = kernels.call("relu_forward", (x, x), n)[0]
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    assert np.isnan(y[0])


@pytest.mark.parametrize("kernel", ["gelu", "gelu_tanh"])
def test_gelus_keep_nan_and_the_ends(kernels: Kernels, kernel: str) -> None:
    x = np.resize(np.array([NAN, INF, -40, 40, 0, -0.0, 1e-42, -1e-42, 1e30, -1e30], np.float32), 17)
    made = (empty(17), empty(17)) if kernel == "gelu_tanh" else (empty(17),)
    y = kernels.call(f"{kernel}_forward", (*made, x), 17)[0][:10]
    expected = np.array([np.nan, np.inf, 0, 40, 0, 0, 0.5e-42, -0.5e-42, 1e30, 0], np.float32)
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=3e-45)


SPECIAL_ROWS = {
    "all minus infinity": [-INF] * 17,
    "all but one minus infinity": [-INF] * 9 + [np.float32(2.0)] + [-INF] * 7,
    "nan": [*draw(16).tolist(), NAN],
    "nan first, larger ones after it": [NAN, *(1000 * draw(16)).tolist()],
    "nan among minus infinities": [-INF] * 16 + [NAN],
    "infinity": [*draw(8).tolist(), INF, *draw(8).tolist()],
    "two infinities": [INF, INF, *draw(15).tolist()],
    "far apart": [3000.0, -3000.0] + [0.0] * 15,
    "all large": [3e38] * 17,
    "all very negative": [-3e38] * 17,
}


@pytest.mark.parametrize("name", SPECIAL_ROWS)
def test_softmax_of_special_rows(kernels: Kernels, name: str) -> None:
    """As the twin has it; the rows above and below do not notice."""
    K, scale = 17, 0.3
    x = draw(5, K)
    x[2] = SPECIAL_ROWS[name]
    y = kernels.call("softmax_forward", (padded_rows(kernels, x, 7.0),), 5, K, scale)[0][:, :K]
    np.testing.assert_allclose(y, softmax_by_hand(x * np.float32(scale)), rtol=1e-5, atol=1e-8)
    y, dy = padded_rows(kernels, y, 0.0), draw(5, K, seed=1)
    dx = kernels.call("softmax_backward", (padded_rows(kernels, dy, 0.0), y), 5, K, scale)[0][:, :K]
    by_hand = y[:, :K] * (dy - (dy * y[:, :K]).sum(1, keepdims=True)) * scale
    np.testing.assert_allclose(dx, by_hand, rtol=1e-4, atol=1e-7)
    if name == "all minus infinity":
        assert not y[2].any()
        assert not dx[2].any()


def softmax_by_hand(x: np.ndarray) -> np.ndarray:
    """layers/softmax.py, in NumPy's float64."""
    x = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        highest = x.max(1, keepdims=True)
        weight = np.exp(x - np.where(np.isneginf(highest), 0, highest))
        total = weight.sum(1, keepdims=True)
        return weight / np.where(total == 0, 1, total)


@pytest.mark.parametrize("label", [-1, 10, 2**31 - 1])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_label_that_is_no_class_gives_nan(kernels: Kernels, label: int, smoothing: float) -> None:
    labels, share = np.zeros(7, np.int32), np.full(7, 1 / 7, np.float32)
    labels[4] = label
    assert np.isnan(loss_of(kernels, draw(7, 10), labels, share, smoothing))
    share[4] = 0
    assert np.isfinite(loss_of(kernels, draw(7, 10), labels, share, smoothing))


@pytest.mark.parametrize("bad", [NAN, INF])
def test_a_logit_that_is_not_finite_gives_nan(kernels: Kernels, bad: Any) -> None:
    logits = draw(7, 10)
    logits[3, 4] = bad
    labels, share = np.zeros(7, np.int32), np.full(7, 1 / 7, np.float32)
    assert np.isnan(loss_of(kernels, logits, labels, share, 0.0))
    share[3] = 0
    assert np.isfinite(loss_of(kernels, logits, labels, share, 0.0))


def loss_of(c: Kernels, logits: np.ndarray, labels: np.ndarray, share: np.ndarray, smoothing: float) -> float:
    arrays = (empty(1), empty(7, 10), logits, labels, share)
    loss, dx, *_ = c.call("cross_entropy", arrays, 7, 10, smoothing, returns=True)
    assert not dx[share == 0].any(), "what has no share passes no gradient"
    return loss[0]


def test_nan_and_infinity_go_through_products_and_norms(kernels: Kernels) -> None:
    """A token with one of them is lost, and the others stay as they are."""
    N, I, O = next(sizes for sizes in TRIPLES if min(sizes) > 5)  # noqa: E741
    x, w, b = draw(N, I), draw(I, O), draw(O)
    x[5, 3] = NAN
    y = kernels.call("linear_forward", (empty(N, O), w, b, x), N, I, O)[0]
    assert np.isnan(y[5]).all()
    assert np.isfinite(np.delete(y, 5, axis=0)).all()
    N, C = next(sizes for sizes in PAIRS if min(sizes) > 5)
    x = draw(N, C)
    x[5, 3] = INF
    y = kernels.call("layer_norm_forward", (empty(N, C), empty(N, C), empty(N), draw(C), draw(C), x), N, C, 1e-5)[0]
    assert np.isnan(y[5]).all()
    assert np.isfinite(np.delete(y, 5, axis=0)).all()


# exp and the normal distribution, over the whole range of float32


@cache
def floats_everywhere(step: int) -> np.ndarray:
    """Every so many-th bit pattern: NaN, infinities, denormals and both zeros are among them."""
    patterns = np.arange(0, 2**32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)
    special = np.array(
        [NAN, INF, -INF, 0, -0.0, 89, 88.72, 88.71, -87.33, -87.32, -88, 1e-45, -1e-45, 1e-38], np.float32
    )
    whole = np.concatenate([patterns, special])
    return np.concatenate([whole, np.zeros(-len(whole) % 16, np.float32)])


def stated_errors(header: str) -> list[float]:
    """What the header promises."""
    promise = re.findall(r"[Ll]argest relative error.*?\(tested", (build.kernels() / header).read_text(), re.DOTALL)[0]
    return [float(number) for number in re.findall(r"\d+e-\d+", promise)]


def test_exp_keeps_its_promise_over_the_whole_range(kernels: Kernels) -> None:
    x = floats_everywhere(997)
    y = kernels.of_all("exp_of_all", x)
    inside = (x >= np.float32(-87.33)) & (x <= np.float32(88.72))
    truth = np.exp(x[inside].astype(np.float64))
    assert stated_errors("exp.h") == [2e-7]
    assert np.abs(y[inside].astype(np.float64) / truth - 1).max() <= 2e-7
    np.testing.assert_array_equal(y[np.abs(x) < 1e-38], 1)  # denormals, too


def test_exp_at_its_ends(kernels: Kernels) -> None:
    x = floats_everywhere(997)
    y = kernels.of_all("exp_of_all", x)
    np.testing.assert_array_equal(y[x > np.float32(88.723)], np.inf)
    assert np.isnan(x).any()
    assert np.isnan(y[np.isnan(x)]).all()
    low, what = x[x < np.float32(-87.33)].astype(np.float64), y[x < np.float32(-87.33)]
    denormal = np.abs(what - np.exp(low)) < 1.5e-45
    assert ((what == 0) | denormal).all(), "0, or the denormal number that it is"
    assert not what[low < -104].any()


def test_normal_cdf_keeps_its_promise_over_the_whole_range(kernels: Kernels) -> None:
    x = floats_everywhere(19997)
    y = kernels.of_all("cdf_of_all", x)
    assert np.isnan(y[np.isnan(x)]).all()
    known, y = (values[~np.isnan(x)].astype(np.float64) for values in (x, y))
    truth = np.array([math.erfc(-value / math.sqrt(2)) / 2 for value in known.tolist()])
    near, normal = known >= -5, truth >= np.finfo(np.float32).tiny
    assert stated_errors("gelu.h") == [1e-6, 5e-6]
    assert np.abs(y[near] / truth[near] - 1).max() <= 1e-6
    assert np.abs(y[normal] / truth[normal] - 1).max() <= 5e-6
    assert np.abs(y[~normal]).max() <= np.finfo(np.float32).tiny
