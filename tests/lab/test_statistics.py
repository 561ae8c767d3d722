"""Intervals, exact tests and corrections against SciPy and against their definitions, spelled out."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from glassformer.lab import statistics
from glassformer.lab.ranks import ranks
from glassformer.lab.ranks import student_p as pairwise_p
from glassformer.lab.rates import paired_p, rate
from glassformer.lab.share_of_gap import share_of_gap
from glassformer.lab.statistics import (
    effects,
    halls_inverse,
    holm,
    interval,
    power,
    same_p,
    sign_flip_p,
    skewed_t,
    skewness,
    student_p,
)
from glassformer.lab.typical import improvement, interquartile_mean


def draw(n: int, mean: float = 0.5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, 1.0, n)


@pytest.mark.parametrize("n", [3, 6, 10, 25])
def test_the_interval_of_symmetric_differences_is_students(n: int) -> None:
    values = draw(n)
    values = np.concatenate([values, 2 * values.mean() - values])
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert interval(values) == pytest.approx((expected.low, expected.high))
    wider = stats.ttest_1samp(values, 0.0).confidence_interval(0.99)
    assert interval(values, 0.01) == pytest.approx((wider.low, wider.high))


@pytest.mark.parametrize("sign", [1, -1])
def test_the_interval_of_skewed_differences_reaches_to_halls(sign: int) -> None:
    """Where Hall's statistic, written out, is Student's critical value; on the other side Student's own end."""
    values = sign * np.array([0.1, 0.2, 0.2, 0.4, 0.5, 0.6, 0.9, 1.0, 1.3, 1.9])
    n, mean, spread = len(values), values.mean(), values.std(ddof=1)
    skew = stats.skew(values, bias=False)
    assert skewness(values) == pytest.approx(skew)
    assert 0.5 < abs(skew) < 1.25
    reach = stats.t.ppf(0.975, n - 1)
    student = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    low, high = interval(values)
    end, own, theirs = (high, low, student.low) if sign > 0 else (low, high, student.high)
    assert own == pytest.approx(theirs)
    u = (mean - end) / spread
    hall = np.sqrt(n) * (u + skew * u**2 / 3 + skew**2 * u**3 / 27 + skew / (6 * n))
    assert hall == pytest.approx(-sign * reach)
    assert low <= student.low + 1e-12
    assert high >= student.high - 1e-12


def test_halls_inverse_of_no_skewness_is_nothing() -> None:
    assert halls_inverse(0.7, np.array([0.0, 1e-9]), 12).tolist() == [0.7, 0.7]
    assert halls_inverse(0.7, np.array([1e-5]), 12) == pytest.approx(0.7, abs=1e-4)


def test_equal_values_have_no_skewness() -> None:
    assert skewness(np.array([[2.0] * 5, [0.0] * 5])).tolist() == [0.0, 0.0]
    assert skewness(np.array([1.0, 5.0])) == 0.0


@pytest.mark.parametrize("side", [0, 1, -1])
def test_students_p_is_scipys(side: int) -> None:
    values = np.random.default_rng(3).normal(0.4, 1.0, (5, 9))
    word = {0: "two-sided", 1: "greater", -1: "less"}[side]
    assert student_p(values, side=side) == pytest.approx(stats.ttest_1samp(values, 0.0, -1, alternative=word)[1])


@pytest.mark.parametrize("skew", [1.0, -2.0])
def test_p_for_skewed_values_is_right_where_students_is_not(skew: float) -> None:
    """Of gamma values with mean 0, both tails of 2.5 %."""
    shape = (2 / skew) ** 2
    values = np.sign(skew) * (np.random.default_rng(8).gamma(shape, size=(40_000, 11)) - shape)
    for side in (1, -1):
        assert (student_p(values, skew, side) <= 0.025).mean() == pytest.approx(0.025, abs=0.003)
    assert abs((student_p(values, 0.0, 1) <= 0.025).mean() - 0.025) > 0.008
    assert student_p(values[:50], skew) == pytest.approx(student_p(-values[:50], -skew))
    assert len(skewed_t(11, round(abs(10 * skew)))) == statistics.DRAWN


def test_p_is_the_larger_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    family = [np.random.default_rng(i).gamma(1, size=12) - 0.4 for i in range(5)]
    skew = np.median([np.clip(skewness(one) * (1 + 8 / 12), -2.4, 2.4) for one in family])
    for one, values in zip(effects(family), family, strict=True):
        assert one.p_flip == sign_flip_p(values)
        assert one.p == max(one.p_flip, student_p(values, skew))


@pytest.mark.parametrize(("mean", "spread", "same"), [(0.1, 0.9, True), (0.9, 0.5, False), (0.0, 3.0, False)])
def test_the_absence_of_an_effect_is_tested(mean: float, spread: float, same: bool) -> None:
    wave = np.tile([1.0, -1.0], 6)
    values = mean + spread * wave
    sides = [
        float(np.asarray(stats.ttest_1samp(values, end, alternative=word))[1])
        for end, word in ((-1, "greater"), (1, "less"))
    ]
    assert same_p(values, 1.0) == pytest.approx(max(sides))
    assert (same_p(values, 1.0) <= 0.05) == same
    assert same_p(np.zeros(4), 1.0) == 1 / 16  # equal by chance, perhaps


def test_rates_are_clopper_and_pearsons() -> None:
    for failed, of in ((0, 12), (2, 12), (12, 12), (1, 3)):
        expected = stats.binomtest(failed, of).proportion_ci(0.95, "exact")
        assert rate(failed, of)[1:] == pytest.approx((expected.low, expected.high))
    assert rate(0, 0) == (0.0, 0.0, 1.0)
    assert paired_p(7, 1) == stats.binomtest(7, 8).pvalue


def test_the_middle_half_does_not_see_one_collapse() -> None:
    values = draw(13, 2.0)
    iqm = interquartile_mean(values)
    assert iqm is not None
    assert iqm.value == pytest.approx(stats.trim_mean(values, 0.25))
    collapsed = values.copy()
    collapsed[values.argmin()] = -80.0
    assert interquartile_mean(collapsed) == iqm
    assert interquartile_mean(values[:5]) is None
    two = stats.ttest_ind(values, np.full(13, 2.0) + 1e-9 * draw(13), trim=0.25, equal_var=False)  # pyright: ignore[reportArgumentType]
    reached = (iqm.value - 2.0) / (iqm.high - iqm.value) * stats.t.ppf(0.975, 13 - 2 * 3 - 2)
    assert reached == pytest.approx(two[0], rel=1e-6)  # Yuen's, with one degree of freedom fewer
    assert improvement(np.array([1.0, 2.0, 0.0, -1.0])) == rate(2, 3)
    assert improvement(np.zeros(4)) is None


def test_the_share_of_the_gap_is_fiellers() -> None:
    """Its ends are the shares at which Student's interval of difference - share x gap just touches 0."""
    rng = np.random.default_rng(4)
    gaps = rng.normal(50, 8, 12)
    differences = 0.6 * gaps + rng.normal(0, 6, 12)
    share = share_of_gap(differences, gaps)
    assert share is not None
    assert share.value == pytest.approx(differences.mean() / gaps.mean())
    for end in (share.low, share.high):
        assert stats.ttest_1samp(differences - end * gaps, 0.0)[1] == pytest.approx(0.05)
    none = share_of_gap(differences, gaps - gaps.mean() + 1.0)
    assert none is not None
    assert (none.low, none.high) == (-math.inf, math.inf)  # the gap itself may be 0
    assert share_of_gap(differences, -gaps) is None


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
    monkeypatch.setattr(statistics, "HALVES", n - 1)
    drawn = sign_flip_p(values).item()
    statistics.flips.cache_clear()
    assert 0.001 < exact < 0.5
    assert drawn != exact
    assert drawn == pytest.approx(exact, abs=5 * math.sqrt(exact / statistics.FLIPS))


@pytest.mark.parametrize("n", [17, 18])
def test_flips_counted_by_halves_are_all_flips(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.stack([draw(n, 0.4), draw(n, 0.0), np.round(draw(n, 0.3)), np.zeros(n)])
    by_halves = sign_flip_p(values)
    monkeypatch.setattr(statistics, "EXACT", n)
    assert sign_flip_p(values).tolist() == by_halves.tolist()


def test_drawn_flips_repeat_and_never_give_zero() -> None:
    values = draw(40, 5.0)
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
    assert (first.skewness, first.typical) == (pytest.approx(stats.skew(one, bias=False)), interquartile_mean(one))
    assert first.differences == tuple(one)


def test_power_is_the_share_of_studies_that_find_it() -> None:
    """Among 25 factors 10 seeds must all agree: Φ(1.5)^10."""
    assert power(10, 25) == pytest.approx(stats.norm.cdf(1.5) ** 10, abs=0.03)  # Student's p is hardly in the way
    assert power(4, 1) == 0.0


def by_seed(*rows: list[float]) -> dict[str, dict[int, float]]:
    return {f"f{i}": dict(enumerate(row)) for i, row in enumerate(rows)}


def test_ranks_of_clear_and_of_equal_effects() -> None:
    wave = np.tile([0.5, -0.5, 0.2, -0.2], 2)
    strong, tie_a, tie_b, weak = (40 + wave).tolist(), (10 + wave).tolist(), (10 - wave).tolist(), (-5 - wave).tolist()
    found = {rank.factor: rank for rank in ranks(by_seed(tie_a, weak, strong, tie_b))}
    assert next(iter(found)) == "f2"
    assert [(found[f].best, found[f].worst) for f in ("f2", "f0", "f3", "f1")] == [(1, 1), (2, 3), (2, 3), (4, 4)]
    assert (found["f0"].tied, found["f3"].tied, found["f1"].tied, found["f2"].tied) == (("f3",), ("f0",), (), ())
    assert sorted(rank.point for rank in found.values()) == [1, 2, 3, 4]


def test_every_two_are_compared_by_students_p() -> None:
    samples = np.full((6, 8), np.nan)
    for row, n in enumerate((3, 5, 8, 8)):
        samples[row, :n] = draw(n, 0.7, seed=n)
    expected = [stats.ttest_1samp(row[~np.isnan(row)], 0.0) for row in samples[:4]]
    samples[4, :2] = 3.0, 4.0  # too few
    samples[5] = 0.0
    assert pairwise_p(samples) == pytest.approx(np.array([*(p for _, p in expected), 1.0, 1.0]))


def test_ranks_that_overlap_are_no_tie() -> None:
    """The first is surely stronger than the second; both have the third, which varies much, beside them."""
    wave = np.tile([0.1, -0.1, 0.05, -0.05], 3)
    wild = np.tile([9.0, -9.0, 4.0, -4.0], 3)
    first, second, third = ranks(by_seed((12 + wave).tolist(), (10 - wave).tolist(), (11 + wild).tolist()))
    assert (first.factor, second.factor, third.factor) == ("f0", "f2", "f1")
    assert first.best <= third.worst
    assert third.best <= first.worst
    assert first.tied == third.tied == ("f2",)


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
