"""The tests over samples and over seeds, against SciPy and formulas written out here."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats

from glassformer.lab.over_seeds import over_seeds
from glassformer.lab.paired_samples import (
    bootstrap,
    bootstrap_p,
    equivalence_p,
    mcnemar,
    percentiles,
    tango_equivalence_p,
    tango_interval,
    tango_z,
)
from glassformer.predict.per_sample import Sums

stats: Any = scipy_stats  # its types are not complete
RNG = np.random.default_rng(5)


def right(share: float, n: int = 400) -> Sums:
    return Sums((RNG.random(n) < share).astype(float), np.ones(n))


@pytest.mark.parametrize("shares", [(0.8, 0.9), (0.5, 0.5), (0.0, 0.0), (1.0, 0.97)])
def test_mcnemar_is_the_binomial_test_of_the_discordant_samples(shares: tuple[float, float]) -> None:
    first, second = map(right, shares)
    only_first, only_second, p = mcnemar(first, second)
    table = np.array([[((first.value == a) & (second.value == b)).sum() for b in (1, 0)] for a in (1, 0)])
    assert (only_first, only_second) == (table[0, 1], table[1, 0])
    n, k = only_first + only_second, min(only_first, only_second)
    by_hand = min(1.0, 2 * sum(math.comb(n, i) for i in range(k + 1)) / 2**n) if n else 1.0
    assert p == pytest.approx(by_hand)
    if n:
        assert p == pytest.approx(stats.binomtest(only_second, n, 0.5).pvalue)


def test_tangos_interval_is_where_its_test_decides() -> None:
    """And with many samples that of the bootstrap; with no difference at all it is as wide as zero of n allows."""
    first, second = right(0.8, 5000), right(0.82, 5000)
    only = mcnemar(first, second)[:2]
    low, high = tango_interval(*only, 5000)
    assert [tango_z(*only, 5000, end) for end in (low, high)] == pytest.approx(
        [stats.norm.isf(0.025), -stats.norm.isf(0.025)]
    )
    assert (low, high) == pytest.approx(percentiles(bootstrap(first, second)), abs=1e-3)
    assert tango_equivalence_p(*only, 5000, 2 * high) < 0.025 < tango_equivalence_p(*only, 5000, 0.5 * high)
    low, high = tango_interval(0, 0, 301)
    assert (low, high) == pytest.approx((-0.0126, 0.0126), abs=1e-4)  # z^2 / (n + z^2): Wilson's for none of 301
    assert high == pytest.approx(stats.binomtest(0, 301).proportion_ci(method="wilson").high)
    assert tango_interval(0, 5, 5)[1] == 1.0


def test_tangos_interval_covers() -> None:
    """A share of 2 % that differ, of 200 samples: the percentile bootstrap would cover 88 %."""
    drawn = np.random.default_rng(0).multinomial(200, [0.015, 0.005, 0.98], 1500)
    found = {(a, b): tango_interval(a, b, 200) for a, b in np.unique(drawn[:, :2], axis=0).tolist()}
    held = sum(found[a, b][0] <= -0.01 <= found[a, b][1] for a, b, _ in drawn.tolist())
    assert 0.93 <= held / 1500 <= 0.985


def losses(n: int = 150) -> tuple[Sums, Sums]:
    first = RNG.exponential(1.0, n)
    return Sums(first, np.ones(n)), Sums(first * 0.9 + RNG.normal(0, 0.3, n), np.ones(n))


def test_the_bootstrap_is_scipys() -> None:
    first, second = losses()
    drawn = bootstrap(first, second)
    theirs = stats.bootstrap(
        (second.value - first.value,), np.mean, n_resamples=9999, method="percentile", rng=np.random.default_rng(1)
    )
    low, high = percentiles(drawn)
    error = 4 * theirs.standard_error / math.sqrt(9999) * 3  # a quantile of draws is less sure than their mean
    assert low == pytest.approx(theirs.confidence_interval.low, abs=error)
    assert high == pytest.approx(theirs.confidence_interval.high, abs=error)
    assert drawn.std() == pytest.approx(theirs.standard_error, rel=0.05)


def test_right_and_wrong_is_drawn_by_counts_alike() -> None:
    """The short way of few values, against drawing samples one by one."""
    first, second = right(0.8), right(0.85)
    chosen = np.random.default_rng(3).integers(0, 400, (4000, 400))
    slow = (second.value - first.value)[chosen].mean(axis=1)
    assert np.quantile(bootstrap(first, second), [0.025, 0.5, 0.975]) == pytest.approx(
        np.quantile(slow, [0.025, 0.5, 0.975]), abs=0.004
    )


def test_samples_with_several_labels_are_drawn_whole() -> None:
    """A ratio of sums: the standard error is that of samples, not of labels."""
    weight = RNG.integers(1, 30, 200).astype(float)
    share = RNG.beta(2, 2, 200)
    first, second = (
        Sums(weight * share, weight),
        Sums(weight * np.clip(share + RNG.normal(0.02, 0.1, 200), 0, 1), weight),
    )
    each = second.value - first.value
    ratio = each.sum() / weight.sum()
    by_hand = math.sqrt(((each - ratio * weight) ** 2).sum()) / weight.sum()  # linearised
    assert bootstrap(first, second).std() == pytest.approx(by_hand, rel=0.06)


def test_p_agrees_with_the_interval_and_equal_sides_are_no_difference() -> None:
    first, second = losses()
    drawn = bootstrap(first, second)
    low, high = percentiles(drawn)
    little = 0.02 * (high - low)
    assert bootstrap_p(drawn - low + little) < 0.05 < bootstrap_p(drawn - low - little)
    assert bootstrap_p(drawn - high - little) < 0.05 < bootstrap_p(drawn - high + little)
    same = bootstrap(first, first)
    assert bootstrap_p(same) == 1.0
    assert equivalence_p(same, 0.1) == pytest.approx(1e-4)
    assert equivalence_p(drawn, (high - low) / 100) > 0.05
    assert equivalence_p(drawn, 10 * max(abs(low), abs(high))) == pytest.approx(1e-4)


def test_paired_seeds_are_the_t_interval_and_the_exact_sign_flip() -> None:
    first, second = np.arange(90.0, 98), np.arange(91.0, 99) + np.array([2, -2, 1, -1, 1, -1, 2, -2])  # not skewed
    found = over_seeds(first.tolist(), second.tolist(), paired=True)
    assert found is not None
    theirs = stats.ttest_rel(second, first)
    assert (found.low, found.high) == pytest.approx(tuple(theirs.confidence_interval(0.95)))
    flips = stats.permutation_test((second - first,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert found.p == pytest.approx(flips.pvalue)
    mean, margin = float(np.mean(second - first)), 1.5
    sides = (
        stats.ttest_1samp(second - first, -margin, alternative="greater").pvalue,
        stats.ttest_1samp(second - first, margin, alternative="less").pvalue,
    )
    assert found.equivalence_p(mean, margin) == pytest.approx(max(sides))


def test_other_seeds_are_welchs_interval_and_the_exact_permutation() -> None:
    first, second = RNG.normal(90, 1, 5), RNG.normal(91, 3, 4)
    found = over_seeds(first.tolist(), second.tolist(), paired=False)
    assert found is not None
    theirs = stats.ttest_ind(second, first, equal_var=False)
    assert (found.low, found.high) == pytest.approx(tuple(theirs.confidence_interval(0.95)))
    assert found.least_p == 1 / math.comb(9, 4)
    assert found.p * math.comb(9, 4) == pytest.approx(round(found.p * math.comb(9, 4)))  # whole permutations
    assert over_seeds([1.0, 2.0], [3.0], paired=False) is None


def test_seeds_that_do_not_spread() -> None:
    found = over_seeds([1.0, 1.0, 1.0], [2.0, 2.0, 2.0], paired=False)
    assert found is not None
    assert (found.low, found.high) == (1.0, 1.0)
    assert found.equivalence_p(1.0, 0.5) == 1.0
    assert found.equivalence_p(0.0, 0.5) == 0.0
