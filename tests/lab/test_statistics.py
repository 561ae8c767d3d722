"""Intervals, exact tests and corrections against SciPy and against their definitions, spelled out."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from glassformer.lab import statistics
from glassformer.lab.ranks import ranks, student_p, tied
from glassformer.lab.statistics import effects, holm, interval, power, sign_flip_p


def draw(n: int, mean: float = 0.5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, 1.0, n)


@pytest.mark.parametrize("n", [3, 6, 10, 25])
def test_the_interval_is_students(n: int) -> None:
    values = draw(n)
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert interval(values) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize("n", [3, 5, 8, 11])
@pytest.mark.parametrize("coarse", [False, True])
def test_sign_flips_as_scipy_counts_them(n: int, coarse: bool) -> None:
    values = np.round(draw(n, seed=n), 1) if coarse else draw(n, seed=n)  # coarse ones have ties
    exact = stats.permutation_test(
        (values,), np.sum, permutation_type="samples", n_resamples=2**n, alternative="two-sided"
    )
    assert sign_flip_p(values) == pytest.approx(exact.pvalue, abs=1e-12)


def test_sign_flips_by_brute_force() -> None:
    values = np.array([0.3, 0.1, 0.2, -0.4, 0.6, 0.0])  # 0.1 + 0.2 - 0.3 must count as 0
    sums = [round(abs(sum(s * v for s, v in zip(signs, values, strict=True))), 9) for signs in signs_of(6)]
    expected = sum(one >= round(abs(values.sum()), 9) for one in sums) / 64
    assert sign_flip_p(values).item() == expected


def signs_of(n: int) -> list[tuple[int, ...]]:
    return list(itertools.product((-1, 1), repeat=n))


def test_many_at_once_are_each_alone() -> None:
    values = np.random.default_rng(1).normal(size=(3, 4, 7))
    alone = [[sign_flip_p(row).item() for row in rows] for rows in values]
    assert sign_flip_p(values).tolist() == alone


def test_all_equal_and_all_zero() -> None:
    assert sign_flip_p(np.zeros(8)).item() == 1.0
    assert sign_flip_p(np.full(8, 0.7)).item() == 2 / 2**8
    same, none = effects([np.full(8, -0.5), np.zeros(8)])
    assert (same.size, same.low, same.high) == (-math.inf, -0.5, -0.5)
    assert (none.size, none.p, none.low, none.high) == (0.0, 1.0, 0.0, 0.0)


@pytest.mark.parametrize("n", [15, 16])
def test_drawn_flips_agree_with_all_flips(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values = draw(n, 0.45, seed=2)
    exact = sign_flip_p(values).item()
    statistics.flips.cache_clear()
    monkeypatch.setattr(statistics, "EXACT", n - 1)
    drawn = sign_flip_p(values).item()
    statistics.flips.cache_clear()
    assert 0.001 < exact < 0.5
    assert drawn != exact
    assert drawn == pytest.approx(exact, abs=5 * math.sqrt(exact / statistics.FLIPS))


def test_drawn_flips_repeat_and_never_give_zero() -> None:
    values = draw(20, 5.0)
    assert sign_flip_p(values).item() == sign_flip_p(values).item() == 1 / (statistics.FLIPS + 1)


def test_holm_as_it_is_defined() -> None:
    """Step down: the smallest p against 0.05 / m, the next against 0.05 / (m - 1), until one fails."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        p = np.round(rng.uniform(size=rng.integers(1, 8)) ** 3, 2)  # rounded: with ties
        for level in (0.01, 0.05, 0.2):
            expected, left = set(), sorted(range(len(p)), key=lambda i: p[i])
            while left and p[left[0]] <= level / len(left):
                expected.add(left.pop(0))
            assert {i for i, one in enumerate(holm(p)) if one <= level + 1e-12} == expected | {
                i for i in left if p[i] == 0
            }


def test_an_effect_has_the_numbers_of_its_differences() -> None:
    one, other = draw(9, 1.0), draw(9, 0.2, seed=5)
    first, second = effects([one, other])
    assert first.mean == pytest.approx(one.mean())
    assert first.size == pytest.approx(one.mean() / one.std(ddof=1))
    assert first.p_holm == pytest.approx(2 * first.p)
    assert second.p_holm == pytest.approx(max(second.p, first.p_holm))
    assert first.differences == tuple(one)


def test_power_is_the_share_of_studies_that_find_it() -> None:
    """Among 25 factors 10 seeds must all agree: Φ(1.5)^10."""
    assert power(10, 25) == pytest.approx(stats.norm.cdf(1.5) ** 10, abs=0.03)
    assert power(4, 1) == 0.0


def by_seed(*rows: list[float]) -> dict[str, dict[int, float]]:
    return {f"f{i}": dict(enumerate(row)) for i, row in enumerate(rows)}


def test_ranks_of_clear_and_of_equal_effects() -> None:
    wave = np.tile([0.5, -0.5, 0.2, -0.2], 2)
    strong, tie_a, tie_b, weak = (40 + wave).tolist(), (10 + wave).tolist(), (10 - wave).tolist(), (-5 - wave).tolist()
    found = {rank.factor: rank for rank in ranks(by_seed(tie_a, weak, strong, tie_b))}
    assert next(iter(found)) == "f2"
    assert [(found[f].best, found[f].worst) for f in ("f2", "f0", "f3", "f1")] == [(1, 1), (2, 3), (2, 3), (4, 4)]
    assert tied(found["f0"], found["f3"])
    assert not tied(found["f0"], found["f1"])
    assert sorted(rank.point for rank in found.values()) == [1, 2, 3, 4]


def test_every_two_are_compared_by_students_p() -> None:
    samples = np.full((6, 8), np.nan)
    for row, n in enumerate((3, 5, 8, 8)):
        samples[row, :n] = draw(n, 0.7, seed=n)
    expected = [stats.ttest_1samp(row[~np.isnan(row)], 0.0) for row in samples[:4]]
    samples[4, :2] = 3.0, 4.0  # too few
    samples[5] = 0.0
    assert student_p(samples) == pytest.approx(np.array([*(p for _, p in expected), 1.0, 1.0]))


def test_ranks_with_seeds_missing_use_what_both_have() -> None:
    one = {seed: 20.0 + 0.1 * seed for seed in range(6)}
    other = {seed: 10.0 - 0.1 * seed for seed in range(2, 8)}
    nothing_shared = dict.fromkeys(range(10, 16), 50.0)
    found = {rank.factor: rank for rank in ranks({"one": one, "other": other, "far": nothing_shared})}
    assert (found["one"].best, found["one"].worst) == (1, 2)
    assert (found["far"].best, found["far"].worst) == (1, 3)


def test_ranks_are_not_sure_of_three_equal_differences() -> None:
    first, second = ranks(by_seed([2.0] * 3, [1.0] * 3))
    assert (first.best, first.worst, second.best, second.worst) == (1, 2, 1, 2)
    assert ranks({}) == ()
